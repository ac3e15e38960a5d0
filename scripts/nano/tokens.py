"""Nano's byte-level BPE: a hand-built merge list that leaves users' words in single letters.

Merges are grown from the words of the templates only, from the left and starting at a space, so a
word a user types is a few letters of prefix at most and then one token per letter. Digits are
never merged. The splitter is the o200k one for ASCII; no merge holds a byte above 127, so
where it cuts other text makes no difference to the ids.
"""
import re

SPECIALS = ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>",
            "<|start|>", "<|end|>", "<|message|>", "<|call|>"]
SPLIT = re.compile(
    r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[0-9]{1,3}| ?[^\sA-Za-z0-9]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCAB = 640
RAW = re.compile("(" + "|".join(re.escape(s) for s in SPECIALS) + "|\x01.*?\x02)", re.S)

# Words of the harmony headers have no space before them. They grow from a pair of letters that is
# rare in English words, so that few users' words are touched.
HEADER_WORDS = [("assistant", "ss"), ("analysis", "ys"), ("commentary", "mm"), ("final", "fi"),
                ("functions", "nc"), ("system", "ys"), ("string", "ng"), ("developer", "ev")]


class Tokenizer:
    def __init__(self, merges):
        self.merges = list(merges)
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.tokens = [bytes([i]) for i in range(256)] + [a + b for a, b in self.merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.special = {s: len(self.tokens) + i for i, s in enumerate(SPECIALS)}
        self.special_text = {i: s for s, i in self.special.items()}
        self.cache = {}

    def parts(self, piece):
        """The byte strings one piece of the splitter falls into."""
        word = [bytes([c]) for c in piece]
        while len(word) > 1:
            pairs = [(self.rank.get((word[i], word[i + 1]), 1 << 30), i)
                     for i in range(len(word) - 1)]
            rank, i = min(pairs)
            if rank == 1 << 30:
                break
            word[i:i + 2] = [word[i] + word[i + 1]]
        return word

    def add(self, pair):
        self.rank[pair] = len(self.merges)
        self.merges.append(pair)

    def piece(self, text):
        got = self.cache.get(text)
        if got is None:
            got = [self.ids[t] for t in self.parts(text.encode())]
            if len(self.cache) < 200000:
                self.cache[text] = got
        return got

    def encode(self, text):
        """Text with special tokens; what stands between \\x01 and \\x02 is one token per byte."""
        out = []
        for part in RAW.split(text):
            if not part:
                continue
            if part in self.special:
                out.append(self.special[part])
            elif part[0] == "\x01":
                out.extend(part[1:-1].encode())
            else:
                for piece in SPLIT.findall(part):
                    out.extend(self.piece(piece))
        return out

    def decode(self, ids):
        return b"".join(self.special_text[i].encode() if i in self.special_text else self.tokens[i]
                        for i in ids).decode("utf8", "replace")


def grow(tok, word, at, room):
    """Adds merges until `word` is one token, from position `at` to the right, then to the left."""
    while room > 0:
        parts = tok.parts(word)
        if len(parts) == 1:
            break
        start, i = 0, 0
        while start + len(parts[i]) <= at:
            start += len(parts[i])
            i += 1
        if i + 1 == len(parts):
            i -= 1
        tok.add((parts[i], parts[i + 1]))
        room -= 1
    return room


def build(texts):
    """The tokenizer for these texts; words between \\x03 and \\x04 are users' and do not count."""
    skip = re.compile("|".join(re.escape(s) for s in SPECIALS) + "|\x01.*?\x02|\x03.*?\x04", re.S)
    counts = {}
    for text in texts:
        for part in skip.split(text):
            for piece in SPLIT.findall(part):
                if len(piece) > 2 and re.fullmatch(r" [A-Za-z]+|[A-Z][a-z]+|[A-Z]+", piece):
                    counts[piece] = counts.get(piece, 0) + 1
    tok = Tokenizer((b" ", bytes([c])) for c in
                    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    room = VOCAB - 256 - len(SPECIALS) - len(tok.merges) - 6
    for word, seed in HEADER_WORDS:
        room -= len(word) - 1
    for piece, _ in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])):
        room = grow(tok, piece.encode(), 0, room)
    room += sum(len(word) - 1 for word, _ in HEADER_WORDS)
    for word, seed in HEADER_WORDS:
        room = grow(tok, word.encode(), word.index(seed), room)
    room += 6
    for a, b in ((b'{', b'"'), (b'"', b":"), (b".", b"\n"), (b"}", b")"), (b"\n", b"\n"),
                 (b"/", b"/")):
        if room > 0:  # punctuation that the splitter keeps in one piece
            tok.add((a, b))
            room -= 1
    spare = (b"~" * n for n in range(1, 99))
    for run in spare:  # fill up to a fixed size
        if room <= 0:
            break
        tok.add((run, b"~"))
        room -= 1
    return Tokenizer(tok.merges)

