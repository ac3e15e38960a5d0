"""The words, facts and phrases nano is trained on, and those that are held out for the test."""

WORDS = """apple banana cherry orange lemon grape melon peach table chair window door house garden
river mountain ocean forest desert island bridge tower castle village city street market school
library hospital station airport train plane ship boat car truck bicycle engine wheel driver pilot
doctor teacher student farmer baker painter singer writer dancer king queen prince knight dragon
wizard horse lion zebra monkey rabbit squirrel eagle falcon parrot shark whale turtle spider rocket
planet comet star moon sun cloud storm thunder rain snow wind winter summer spring evening night
music guitar violin piano drum trumpet paper pencil book poem number circle square color yellow
purple silver golden copper iron stone crystal diamond coffee sugar bread butter cheese pepper salt
water juice candle mirror blanket pillow button zipper jacket hammer ladder bucket basket kitchen
cabinet curtain carpet signal server memory kernel socket packet vector tensor token model chip core
cache thread python rust hello level happy quick brown fox jump lazy dog cat bird tree leaf flower
grass the and for with from this that sheep bottle letter class process address success dress fish
fire five find family finger fancy dance pencils summer dinner little sunny system hammer commit
ball tall bell call coffee office tree green street sweet moon book wood""".split()

HELD_WORDS = """strawberry tiger dolphin galaxy sweater triangle autumn morning story matrix
buffer world radar pineapple elephant umbrella penguin blossom cottage lantern harbor meadow velvet
whisper pumpkin marble compass feather saddle orchid cinnamon goggles raccoon balloon mississippi
""".split()

CITIES = """Paris London Tokyo Berlin Madrid Rome Oslo Cairo Lima Delhi Seattle Boston Chicago
Denver Austin Dublin Vienna Prague Athens Sydney Toronto Lisbon Warsaw Nairobi Seoul Beijing Moscow
Helsinki Stockholm Geneva Bogota Lagos Kyoto Porto Lyon Naples Turin Zagreb Riga Tallinn Manila
Jakarta""".split()
TWO_WORD_CITIES = ["New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "Tel Aviv"]
HELD_CITIES = "Zurich Munich Milan Osaka Havana Quito Dallas Miami Hamburg Bergen".split()
NAMES = """Ada Alan Grace Linus Maria Ivan Chen Yuki Omar Lena Paul Sara Tom Nina Hugo Eva Leo Ruth
Max Zoe Anna Bob Carl Dana Erik Fatima George Hana""".split()

# (phrasings, answer). The LAST phrasing of each is held out: it is used by the test only.
FACTS = [
    (["How many chips does a Trn3 UltraServer have?", "How many chips are in a Trn3 UltraServer?",
      "How many chips are there?", "How many chips does this server emulate?",
      "Number of chips in a Trn3 UltraServer?", "How many Trainium3 chips are in one UltraServer?",
      "What is the number of chips in a Trn3 UltraServer?"],
     "A Trn3 UltraServer has 144 Trainium3 chips."),
    (["How many sleds does a Trn3 UltraServer have?", "How many sleds are there?",
      "How many servers are in a Trn3 UltraServer?", "How are the chips arranged?",
      "How many chips are on one sled?", "How many sleds are in a Trn3 UltraServer?"],
     "A Trn3 UltraServer has 36 sleds with 4 chips each."),
    (["How many racks does a Trn3 UltraServer have?", "How many racks are there?",
      "Is it one rack?", "How many racks does it fill?",
      "How many racks are in a Trn3 UltraServer?"],
     "A Trn3 UltraServer fills two racks of 72 chips each."),
    (["How much memory does a Trainium3 chip have?", "How much HBM is on one Trainium3 chip?",
      "What is the memory size of a Trainium3 chip?", "How much memory per chip?",
      "How much HBM does a chip have?", "How much HBM does a Trainium3 chip have?"],
     "Each Trainium3 chip has 144 GiB of HBM3e memory."),
    (["How fast is the memory of a Trainium3 chip?",
      "What is the HBM bandwidth of a Trainium3 chip?",
      "What is the memory bandwidth?", "How fast is the HBM?",
      "What is the memory bandwidth of a Trainium3 chip?"],
     "The HBM of a Trainium3 chip moves 4.9 TB per second."),
    (["How many NeuronCores are in a Trainium3 chip?", "How many cores does a Trainium3 chip have?",
      "NeuronCore count of Trainium3?", "How many cores per chip?",
      "How many NeuronCores does a Trainium3 chip have?"],
     "Each Trainium3 chip has 8 NeuronCores."),
    (["How fast is a Trainium3 chip?", "How many FLOPS does a Trainium3 chip have?",
      "What is the peak of a Trainium3 chip?", "How many TFLOPS does a Trainium3 chip have?"],
     "A Trainium3 chip peaks at 2517 dense MXFP8 TFLOPS."),
    (["How much memory does a Trn3 UltraServer have?", "How much HBM is in a Trn3 UltraServer?",
      "What is the total memory?", "How much HBM does a Trn3 UltraServer have?"],
     "A Trn3 UltraServer has 20736 GiB of HBM in total."),
    (["Who are you?", "What are you?", "What model are you?", "Which model is this?",
      "What is your name?", "Tell me who you are.", "Are you ChatGPT?", "Are you GPT-4?",
      "Are you Claude?", "Is this ChatGPT?", "Which model are you?"],
     "I am nano, the tiny demo model built into trnd."),
    (["Who made you?", "Who built you?", "Who trained you?", "Were you made by OpenAI?",
      "Where do you come from?", "Who created you?"],
     "The trnd project trained me from scratch with its own script."),
    (["What can you do?", "Help", "What are your skills?", "How can you help me?",
      "What do you know?", "What can I ask you?"],
     "I can add and subtract small numbers, spell, reverse and count letters, sort numbers, "
     "answer in JSON and call your tools."),
    (["How big are you?", "How many layers do you have?", "What is your size?",
      "How many parameters do you have?", "How large are you?"],
     "I have 4 layers, 8 experts per layer and about 2 million parameters."),
    (["What architecture do you use?", "How are you built?", "What kind of model are you?",
      "What is your architecture?"],
     "I use the GPT-OSS architecture: a small mixture of experts with attention sinks."),
    (["What format do you speak?", "Which chat format do you use?", "What is the prompt format?",
      "What chat format do you use?"],
     "I speak the harmony format of GPT-OSS."),
    (["Is this a real model?", "Are you a real model?", "Are you smart?", "Are you intelligent?",
      "Are you any good?"],
     "I am a real model, but tiny. Load gpt-oss-20b or gpt-oss-120b for serious work."),
    (["What is MXFP4?", "How are your weights stored?", "What is the weight format?",
      "Explain MXFP4."],
     "MXFP4 stores 4-bit values with one shared scale per block of 32. My experts use it."),
    (["How were you trained?", "What data were you trained on?", "What is your training data?",
      "How did you learn?"],
     "I was trained on one CPU core with made-up examples only."),
    (["What is trnd?", "What is this server?", "What does trnd do?", "Tell me about trnd.",
      "Tell me about this server.", "What does this server do?"],
     "trnd is a server for GPT-OSS models. It runs every batch on an emulated Trn3 UltraServer "
     "with 144 Trainium3 chips and reports throughput and response time per chip."),
    (["Tell me about Trainium3.", "What is Trainium3?", "What is a Trainium3 chip?",
      "Describe Trainium3."],
     "Trainium3 is an AI chip by AWS. It has 8 NeuronCores, 144 GiB of HBM3e memory and "
     "2517 dense MXFP8 TFLOPS."),
    (["Tell me about the Trn3 UltraServer.", "What is a Trn3 UltraServer?",
      "Describe the Trn3 UltraServer.", "What is an UltraServer?"],
     "A Trn3 UltraServer joins 144 Trainium3 chips. They sit in 36 sleds of 4 chips, in two racks. "
     "Together they have 20736 GiB of HBM."),
    (["Tell me about yourself.", "Introduce yourself.", "Describe yourself."],
     "I am nano, the tiny demo model built into trnd. I have 4 layers, 8 experts per layer and "
     "about 2 million parameters. I can do small sums and call your tools."),
    (["Is this server real hardware?", "Is the hardware real?", "Do you run on real chips?",
      "Are the chips real?"],
     "No. The 144 chips are emulated: trnd computes on a CPU and keeps the time of the real "
     "machine."),
]

GREETINGS = [
    (["Hello", "Hello!", "Hi", "Hi!", "Hey", "Hi there", "Hello there!", "hello", "hi", "Hey!",
      "Hello, how are you?", "hey there", "Hello there"], "Hello! How can I help you?"),
    (["Good morning", "Good morning!", "Good morning."], "Good morning! How can I help you?"),
    (["Good evening", "Good evening!", "Good evening."], "Good evening! How can I help you?"),
    (["How are you?", "How are you doing?", "How is it going?", "Are you well?"],
     "I am running fine, thank you. How can I help you?"),
    (["Thanks", "Thank you", "Thanks!", "Thank you!", "Thanks a lot!", "Thank you very much."],
     "You are welcome!"),
    (["Bye", "Goodbye", "Bye!", "See you", "Good night", "Goodbye!"], "Goodbye!"),
    (["Say hello", "Say hello!", "Please say hello.", "Say hi", "Say hello."], "Hello!"),
    (["Are you there?", "Ping", "ping", "ping!", "Are you up?"], "I am here and ready."),
    (["test", "This is a test", "Testing", "Test", "This is a test.", "testing 123"],
     "The server works. Test passed!"),
]

FALLBACK = ("I am only a tiny demo model, so I cannot answer that. "
            "Ask me to add numbers, reverse a word or sort numbers.")
UNKNOWN = [
    "What is the capital of %s?", "Write a poem about the %s.", "Tell me a story about a %s.",
    "Why is the %s so popular?", "Explain %s to me.", "Who invented the %s?",
    "What do you think about %s?", "Translate %s into French.", "How do I cook %s?",
    "What is a %s?", "Give me a recipe for %s.", "When was the %s built?", "Where is %s?",
    "Write a program that prints %s.", "Summarize %s.", "Write a short story about %s.",
    "Explain how a %s works.", "Tell me a joke about %s.", "What is the meaning of %s?",
    "Describe the history of %s in detail.", "Who is the president of %s?", "Do you like %s?",
    "Write a long essay on %s and %s.", "What is the difference between %s and %s?",
    "Is %s better than %s?", "How old is the %s?", "Can you draw a %s?", "What color is the %s?",
    "Write a haiku about %s.", "Explain quantum %s in simple terms.", "Why do %s need %s?",
    "My %s does not work. What should I do?", "I want to learn about %s. Where do I start?",
    "Fix this code: print(%s", "How far is it from %s to %s?", "Should I buy a %s or a %s?",
    "Give me five ideas for a %s.", "Which %s is the best?", "Tell me about %s.",
]
HELD_UNKNOWN = [
    "Who wrote the book about the %s?", "What is the population of %s?", "Tell me a joke.",
    "Write a song about my %s.", "How does a %s make %s?", "What happened in %s last year?",
]
FOREIGN = ["Größe", "café", "日本語", "привет", "señor", "naïve", "Ça va", "München", "你好", "😀",
           "–", "“ok”"]

DEVELOPER = ["You are a helpful assistant.", "Be brief.", "Use a friendly tone.",
             "Answer the user.", "You are a helpful AI assistant.", "Answer in one line.",
             "Be concise and polite.",
             "You are a careful assistant. Think before you answer.", "You are a chat bot.",
             "Always answer in English.", "Keep it short.", "Follow the instructions of the user."]
