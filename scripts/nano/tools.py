"""Tools that nano is taught to call: their declarations, the calls and the answers from results."""
import json

import skills
import words as W

VERBS = ["get", "find", "look_up", "fetch", "check", "query", "read"]
NOUNS = ["price", "stock", "user", "order", "email", "phone", "status", "score", "population",
         "height", "distance", "color", "owner", "address", "size", "weight"]
KEYS = ["name", "item", "query", "key", "id", "city", "word", "title"]


class Tool:
    def __init__(self, kind, name, about, params, noun=None):
        self.kind, self.name, self.about, self.params, self.noun = kind, name, about, params, noun

    def declare(self):
        """As the harmony renderer writes a function with these parameters."""
        lines = "".join("// %s\n" % line for line in self.about.split("\n")) if self.about else ""
        lines += "type %s = (_: {\n" % self.name
        for key, kind, about, required in self.params:
            lines += "// %s\n" % about if about else ""
            lines += "%s%s: %s,\n" % (key, "" if required else "?", kind)
        return lines + "}) => any;\n\n"


def weather(r):
    key = r.choice(["city", "city", "location", "location", "place"])
    about = r.choice(["", "", "The %s" % key, "The name of the city", "The city, e.g. Paris",
                      "The city and state, e.g. San Francisco, CA", "City name",
                      "City and country e.g. Paris, France", "Name of the city to look up"])
    params = [(key, "string", about, True)]
    if r.random() < .3:
        params.append((r.choice(["unit", "units"]),
                       r.choice(['"celsius" | "fahrenheit"', "string"]),
                       r.choice(["", "", "Temperature unit"]), False))
    return Tool("weather",
                r.choice(["get_weather"] * 3
                         + ["get_current_weather", "weather", "lookup_weather"]),
                r.choice(["Get the weather for a city.",
                          "Gets the current weather in the provided location.",
                          "Get the current weather in a given location", "Get the weather", "",
                          "Weather", "Get current temperature for a given location.",
                          "Returns the weather of a city"]), params)


def clock(r):
    key = r.choice(["city", "location", "timezone", "zone"])
    return Tool("time", r.choice(["get_time", "get_current_time", "time_in"]),
                r.choice(["Get the time in a city.", "Get the current time.", "Time of day", ""]),
                [(key, "string", r.choice(["", "", "The %s" % key]), True)])


def lookup(r):
    noun = r.choice(NOUNS)
    key = r.choice(KEYS)
    name = r.choice([r.choice(VERBS) + "_" + noun] * 4 + [noun, skills.random_word(r) + "_" + noun])
    return Tool("lookup", name,
                r.choice(["Get the %s." % noun, "Find the %s of something." % noun, "",
                          "Returns the %s." % noun, "Look up the %s by %s" % (noun, key)]),
                [(key, "string", r.choice(["", "", "The %s" % key]), True)], noun)


def calculator(r):
    a, b = r.choice([("a", "b"), ("x", "y"), ("first", "second"), ("left", "right")])
    name, sign = r.choice([("add", "+"), ("sum", "+"), ("multiply", "*"), ("subtract", "-")])
    return Tool("calc", name,
                r.choice(["%ss two numbers." % name.capitalize(),
                          "%s two numbers" % name.capitalize(), ""]),
                [(a, "number", r.choice(["", "First number"]), True), (b, "number", "", True)],
                sign)


def offer(r):
    makers = [weather, clock, lookup, calculator]
    return [make(r) for make in r.sample(makers, r.choices([1, 2, 3], [6, 3, 1])[0])]


def developer(instructions, offered):
    if not instructions and not offered:
        return ""
    parts = ["# Instructions\n\n" + instructions] if instructions else []
    if offered:
        parts.append("# Tools\n\n## functions\n\nnamespace functions {\n\n"
                     + "".join(t.declare() for t in offered) + "} // namespace functions")
    return "<|start|>developer<|message|>" + "\n\n".join(parts) + "<|end|>"


def city(r, held):
    if held:
        return r.choice(W.HELD_CITIES)
    u = r.random()
    return (r.choice(W.CITIES) if u < .5 else r.choice(W.TWO_WORD_CITIES) if u < .6
            else skills.word(r, False).capitalize())


def use(r, tool, held):
    """A question for this tool, the arguments, a result and the answer that the result gives."""
    if tool.kind == "calc":
        a, b = skills.operands(r, held)
        said = {"+": "plus", "-": "minus", "*": "times"}[tool.noun]
        q = r.choice(["What is %d %s %d?", "Use the tool: %d %s %d", "How much is %d %s %d?",
                      "Compute %d %s %d."]) % (a, r.choice([tool.noun, said]), b)
        value = a + b if tool.noun == "+" else a - b if tool.noun == "-" else a * b
        result = r.choice(["%d", '{"result": %d}', '{"answer": %d}']) % value
        return q, json.dumps({tool.params[0][0]: a, tool.params[1][0]: b}), result, \
            "The result is %d." % value
    if tool.kind == "lookup":
        what = skills.word(r, held)
        what = what.capitalize() if r.random() < .3 else what
        q = r.choice(["What is the %s of %s?", "Find the %s of %s.", "Get the %s of %s.",
                      "Look up the %s for %s.", "What's the %s of %s?"])
        q %= (tool.noun, skills.user(what))
        if r.random() < .6:
            value = str(skills.number(r, r.choice([1, 2, 3])))
        else:
            value = skills.word(r, held)
        result = r.choice(['{"%s": %%s}' % tool.noun] * 3 + ['{"result": %s}'])
        result = result % (value if value.isdigit() else '"%s"' % skills.user(value))
        if r.random() < .2:
            result = skills.user(value)
        final = "The %s of %s is %s." % (tool.noun, skills.user(what), skills.user(value))
        return q, '{"%s": "%s"}' % (tool.params[0][0], skills.user(what)), result, final
    where = skills.user(city(r, held))
    args = '{"%s": "%s"}' % (tool.params[0][0], where)
    if tool.kind == "time":
        q = r.choice(["What time is it in %s?", "What is the time in %s?",
                      "Tell me the time in %s.", "What's the time in %s?"]) % where
        when = "%02d:%02d" % (r.randint(0, 23), r.randint(0, 59))
        return q, args, r.choice(['{"time": "%s"}', "%s"]) % when, "It is %s in %s." % (when, where)
    q = r.choice(["What is the weather in %s?", "How is the weather in %s?", "Weather in %s?",
                  "What's the weather like in %s?", "Tell me the weather in %s.",
                  "Is it cold in %s?",
                  "What is the weather like in %s?", "What is the weather like in %s today?",
                  "What's the weather in %s?", "What's the weather in %s today?",
                  "How warm is it in %s?", "What is the temperature in %s?"]) % where
    temp = r.randint(-9, 39)
    sky = r.choice(["sunny", "cloudy", "rainy", "windy", "snowy", "clear", "foggy"])
    u = r.random()
    if u < .6:
        key = r.choice(["temperature", "temp", "temperature_c", "degrees"])
        pairs = [(key, temp), (r.choice(["condition", "sky", "weather", "conditions"]), sky)]
        if r.random() < .3:
            pairs.reverse()
        result = json.dumps(dict(pairs), separators=r.choice([(", ", ": "), (",", ":")]))
    else:
        result = r.choice(["%d degrees and %s", "%d C, %s", "%d, %s"]) % (temp, sky)
    if u > .9:
        return q, args, r.choice(["%d", '{"temperature": %d}', "%d C"]) % temp, \
            "It is %d degrees in %s." % (temp, where)
    return q, args, result, "It is %d degrees and %s in %s." % (temp, sky, where)


def talk(r, offered, held):
    """Two talks: one that ends in the call, one that goes on from the result.

    The server renders a past call with the recipient after the role, while the model names it after
    the channel, so one text cannot serve for both.
    """
    tool = r.choice(offered)
    q, args, result, final = use(r, tool, held)
    thought = "Call %s." % tool.name
    ask = "<|start|>user<|message|>%s<|end|>" % q
    past = ""
    if not held and r.random() < .12:
        q0, _, final0, _ = skills.SKILLS[r.choice(["greet", "add", "fact"])](r, "low", False)
        past = ("<|start|>user<|message|>%s<|end|><|start|>assistant<|channel|>final<|message|>%s"
                "<|end|>" % (q0, final0))
    call = [(past + ask + "<|start|>assistant", 0),
            ("<|channel|>analysis<|message|>%s<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.%s <|constrain|>json<|message|>%s<|call|>"
             % (thought, tool.name, args), 1)]
    history = past + ask
    if r.random() < .3:  # a client may send the thinking back, most do not
        history += "<|start|>assistant<|channel|>analysis<|message|>%s<|end|>" % thought
    history += ("<|start|>assistant to=functions.%s<|channel|>commentary <|constrain|>json"
                "<|message|>%s<|call|><|start|>functions.%s to=assistant<|channel|>commentary"
                "<|message|>%s<|end|><|start|>assistant" % (tool.name, args, tool.name, result))
    answer = [(history, 0), (skills.reply("The tool has answered.", final), 1)]
    if not held and r.random() < .15:  # and one question more, with the tool call in the past
        more = skills.SKILLS[r.choice(["greet", "add", "fact", "subtract", "count"])]
        q2, steps2, final2, _ = more(r, "low", False)
        answer[1] = ("<|channel|>final<|message|>%s<|end|><|start|>user<|message|>%s<|end|>"
                     "<|start|>assistant" % (final, q2), 0)
        answer.append((skills.reply(steps2, final2), 1))
    return [call, answer]
