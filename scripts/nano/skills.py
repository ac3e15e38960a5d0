"""What nano can do: each skill makes a question, the thinking that leads to its answer, the answer.

Every skill takes (r, effort, held): r is the source of chance, effort is low, medium or high, and
held says whether to draw from what training never sees (True: test) or from the rest (False).
The thinking is a scratchpad: it numbers letters and writes carries down, because a model this
small can follow a step it can see but cannot do three of them in its head.
"""
import json

import words as W

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PREFIXES = []  # beginnings of words that the tokenizer merged; data.py fills it


def user(w):
    return "\x03" + w + "\x04"  # a user's word: no merges are grown from it


def spelled(w):
    return "\x01" + w + "\x02"  # one token per letter


def held_pair(a, b):
    """Is this pair of operands, in either order, kept for the test? Small numbers never are."""
    a, b = min(a, b), max(a, b)
    return a >= 10 and (a * 131 + b * 17) % 10 == 3


def random_word(r, lo=3, hi=8):
    return "".join(r.choice(LETTERS) for _ in range(r.randint(lo, hi)))


def syllables(r):
    w = "".join(r.choice("bcdfghjklmnprstvwz") + r.choice("aeiou")
                + (r.choice("nrstlmkpd") if r.random() < .4 else "")
                for _ in range(r.randint(1, 3)))
    return w if len(w) > 2 else w + r.choice("nrst")


def word(r, held):
    if held:
        return r.choice(W.HELD_WORDS) if r.random() < .5 else random_word(r, 6, 9)
    u = r.random()
    if u < .30:
        return r.choice(W.WORDS)
    if u < .50:
        return random_word(r, 3, 5)
    if u < .65:
        w = random_word(r, 5, 10)
        return w if r.random() < .5 or len(w) < 6 else w[:3] + w[2] + w[3:8]
    if u < .70:  # letters that repeat are where copying goes wrong
        few = r.sample(LETTERS, r.randint(2, 3))
        return "".join(r.choice(few) for _ in range(r.randint(4, 8)))
    if u < .82 and PREFIXES:
        w = r.choice(PREFIXES)
        return (w + (random_word(r, 1, 4) if r.random() < .7 else ""))[:12]
    w = syllables(r)
    return w if r.random() < .8 else w + r.choice(W.WORDS)[:5]


def quoted(r, w):
    return r.choice(['"%s"', "%s", "'%s'", "%s", "%s"]) % user(w)


def number(r, digits):
    return r.randint(0, 9) if digits == 1 else r.randint(10 ** (digits - 1), 10 ** digits - 1)


def reply(analysis, final):
    """What the model writes: its thinking, then the answer."""
    return ("<|channel|>analysis<|message|>%s<|end|><|start|>assistant"
            "<|channel|>final<|message|>%s<|return|>" % (analysis, final))


def think(effort, steps, opening):
    if effort == "low":
        return steps + "."
    return opening + " " + steps + "." + (" Done." if effort == "high" else "")


def numbered(w):
    return " ".join("%d%s" % (i + 1, c) for i, c in enumerate(w))


def operands(r, held):
    while True:
        digits = r.choice([2, 3]) if held else r.choice([1, 2, 2, 2, 3, 3])
        a, b = number(r, digits), number(r, digits)
        if not held and r.random() < .35:
            b = number(r, r.choice([1, 2, 3]))
        if r.random() < .5:
            a, b = b, a
        if held_pair(a, b) == held:
            return a, b


COLUMNS = ["ones", "tens", "hundreds"]


def columns(a, b, sign):
    """Column arithmetic with the carry (or borrow) written down; a >= b when subtracting."""
    x, y, carry, out = str(a)[::-1], str(b)[::-1], 0, []
    for i in range(max(len(x), len(y))):
        p = int(x[i]) if i < len(x) else 0
        q = int(y[i]) if i < len(y) else 0
        if sign == "+":
            total = p + q + carry
        else:
            p += 10 if p - q - carry < 0 else 0
            total = p - q - carry
        out.append("%s: %d%s%d%s%d=%d" % (COLUMNS[i], p, sign, q, sign, carry, total))
        carry = total // 10 if sign == "+" else int(p > 9)
    return ", ".join(out)


def ask(r, a, b, sign, said, verb):
    form = r.choice(["What is {a} {s} {b}?", "{a} {s} {b}", "{a}{s}{b}", "What is {a} {w} {b}?",
                     "Compute {a} {s} {b}.", "What is {a}{s}{b}?", "Calculate {a} {s} {b}",
                     "{a} {s} {b} = ?", "How much is {a} {w} {b}?", "{a}{s}{b}=", verb,
                     "What's {a} {s} {b}?", "How much is {a} {s} {b}?"])
    return form.format(a=a, b=b, s=sign, w=said)


def add(r, effort, held):
    a, b = operands(r, held)
    q = ask(r, a, b, "+", "plus", r.choice(["Add {a} and {b}.", "Sum of {a} and {b}?",
                                            "add {a} and {b}"]))
    steps = think(effort, columns(a, b, "+"), "We add %d + %d." % (a, b))
    return q, steps, "%d + %d = %d" % (a, b, a + b), a + b


def compare(a, b):
    """Says which of two numbers is smaller by their lengths, then digit by digit."""
    x, y = str(a), str(b)
    if len(x) != len(y):
        return "%d%s%d digits" % (len(x), "<" if len(x) < len(y) else ">", len(y))
    out = []
    for p, q in zip(x, y):
        out.append("%s%s%s" % (p, "=" if p == q else "<" if p < q else ">", q))
        if p != q:
            break
    return " ".join(out)


def subtract(r, effort, held):
    a, b = operands(r, held)
    if a < b and r.random() < .5:
        a, b = b, a
    q = ask(r, a, b, "-", "minus", r.choice(["Subtract {b} from {a}.", "{a} minus {b}",
                                             "Take {b} away from {a}."]))
    steps = "compare %s, " % compare(a, b)
    if a >= b:
        steps += columns(a, b, "-")
    else:
        steps += "swap to %d-%d, %s, negative" % (b, a, columns(b, a, "-"))
    return (q, think(effort, steps, "We subtract %d - %d." % (a, b)),
            "%d - %d = %d" % (a, b, a - b), a - b)


def reverse(r, effort, held):
    w = word(r, held)
    q = r.choice(["Reverse %s", "Reverse the word %s.", "Spell %s backwards.", "Reverse %s.",
                  "Write %s backwards.", "What is %s reversed?", "Reverse the string %s",
                  "What is %s spelled backwards?"]) % quoted(r, w)
    back = " ".join("%d%s" % (i + 1, w[i]) for i in range(len(w) - 1, -1, -1))
    return q, "Letters: %s. Reversed: %s." % (numbered(w), back), spelled(w[::-1]), spelled(w[::-1])


def uppercase(r, effort, held):
    w = word(r, held)
    q = r.choice(["Uppercase %s", "Write %s in uppercase.", "Convert %s to uppercase.",
                  "Make %s uppercase.", "Put %s in capital letters.", "%s in upper case"])
    return (q % quoted(r, w), "Letters: %s." % numbered(w), spelled(w.upper()), spelled(w.upper()))


def length(r, effort, held):
    w = word(r, held)
    q = r.choice(["How many letters are in %s?", "How long is the word %s?",
                  "Count the letters in %s.", "How many letters does %s have?",
                  "How many letters are in the word %s?"]) % quoted(r, w)
    return q, "Letters: %s." % numbered(w), "The word has %d letters." % len(w), len(w)


def count(r, effort, held):
    w = word(r, held)
    c = r.choice(w) if r.random() < .8 else r.choice(LETTERS)
    q = r.choice(["How many times does {c} appear in {w}?", "How many {c}'s are in {w}?",
                  "How many {c} are in {w}?", "Count the letter {c} in {w}.",
                  "How many {c}s are in {w}?", "How many letters {c} are in {w}?",
                  "How many {c}'s are there in the word {w}?"])
    mark = c if "'" in q or "}s" in q else r.choice(["%s", "%s", "'%s'", '"%s"']) % c
    n, steps = 0, []
    for i, x in enumerate(w):
        n += x == c
        steps.append("%d%s%d" % (i + 1, x, n))
    return (q.format(c=user(mark), w=quoted(r, w)), "Count %s: %s." % (c, " ".join(steps)),
            "The letter %s appears %d time%s." % (c, n, "" if n == 1 else "s"), n)


def spell(r, effort, held):
    w = word(r, held)
    q = r.choice(["Spell %s", "Spell the word %s.", "How do you spell %s?", "Spell %s.",
                  "List the letters of %s."]) % quoted(r, w)
    return q, "Letters: %s." % numbered(w), "-".join(w), "-".join(w)


def copy(r, effort, held):
    text = user(" ".join(word(r, held) for _ in range(r.randint(1, 4))))
    q = r.choice(["Repeat after me: %s", 'Say "%s"', "Repeat: %s", "Echo %s", "Please say: %s",
                  "Say %s"]) % text
    return q, "Repeat the text.", text, text


def sort(r, effort, held):
    xs = [number(r, r.choice([1, 2, 2, 2])) for _ in range(r.randint(2, 6))]
    down = r.random() < .25
    q = r.choice(["Sort %s from high to low.", "Sort %s in descending order.",
                  "Sort these numbers in descending order: %s"] if down else
                 ["Sort these numbers: %s", "Sort %s", "Put %s in order.", "Sort %s.",
                  "Sort the numbers %s.", "Sort %s in ascending order."])
    left, steps = list(xs), []
    while len(left) > 1:
        y = (max if down else min)(left)
        left.remove(y)
        steps.append("take %d left %s" % (y, " ".join(map(str, left))))
    ys = sorted(xs, reverse=down)
    return (q % r.choice([", ", ", ", ", ", " ", ","]).join(map(str, xs)), ", ".join(steps) + ".",
            ", ".join(map(str, ys)), ys)


def extreme(r, effort, held):
    xs = [number(r, r.choice([1, 2, 2, 3])) for _ in range(r.randint(2, 5))]
    name = r.choice(["largest", "biggest", "maximum", "smallest", "minimum"])
    pick = min if name in ("smallest", "minimum") else max
    q = r.choice(["What is the %s of %s?", "Which number is the %s: %s?", "Find the %s number: %s",
                  "What is the %s number in %s?"])
    best, steps = xs[0], [str(xs[0])]
    for x in xs[1:]:
        best = pick(best, x)
        steps.append("%d or %s: %d" % (x, steps[-1].split(" ")[-1], best))
    return q % (name, ", ".join(map(str, xs))), ", ".join(steps) + ".", str(best), best


def count_to(r, effort, held):
    a = 1 if r.random() < .8 else r.randint(1, 60)
    n = a + r.randint(2, 30)
    q = "Count to %d." % n if a == 1 and r.random() < .5 else "Count from %d to %d." % (a, n)
    return q, "Count up.", ", ".join(map(str, range(a, n + 1))), list(range(a, n + 1))


def recall(table, opening):
    def skill(r, effort, held):
        asked, answer = r.choice(table)
        q = asked[-1] if held else r.choice(asked[:-1])
        return q, opening, answer, answer
    return skill


fact = recall(W.FACTS, "This is a question about the server or me.")
greet = recall(W.GREETINGS, "The user is friendly.")


def unknown(r, effort, held):
    form = r.choice(W.HELD_UNKNOWN if held else W.UNKNOWN)

    def thing():
        u = r.random()
        if u < .5:
            return user(word(r, held))
        if u < .6:
            return user(r.choice(W.FOREIGN))
        if u < .75:
            return user(" ".join(word(r, held) for _ in range(r.randint(2, 6))))
        return r.choice(W.HELD_CITIES if held else W.CITIES + W.NAMES)

    q = form % tuple(thing() for _ in range(form.count("%s")))
    if not held and r.random() < .15:
        q = " ".join(word(r, held) for _ in range(r.randint(3, 12)))
        q = user(q + r.choice(["?", ".", ""]))
    return q, "This is outside what I know.", W.FALLBACK, W.FALLBACK


def as_json(r, effort, held):
    if r.random() < .4:
        name, key, v = r.choice(W.NAMES), r.choice(["age", "score", "count", "id", "year"]), 0
        v = number(r, r.choice([1, 2, 3, 4]))
        q = r.choice(["Give me JSON with name %s and %s %d.", "Return JSON: name %s, %s %d",
                      "Make a JSON object with name %s and %s %d."]) % (name, key, v)
        return q, "Write a JSON object.", '{"name": "%s", "%s": %d}' % (name, key, v), None
    q, steps, _, value = r.choice([add, add, subtract, reverse, uppercase, length, sort, extreme])(
        r, effort, held)
    text = json.dumps({"answer": value}).replace("\\u0001", "\x01").replace("\\u0002", "\x02")
    q += r.choice([" Answer in JSON.", " Reply in JSON.", " Use JSON.", " Answer as JSON."])
    return q, steps, text, None


SKILLS = dict(add=add, subtract=subtract, reverse=reverse, uppercase=uppercase, length=length,
              count=count, spell=spell, copy=copy, sort=sort, extreme=extreme, count_to=count_to,
              fact=fact, greet=greet, unknown=unknown, json=as_json)
# What is practised when: from step N on, this mix. Copying comes first, because a small model must
# learn to look back before any scratchpad helps it; the tables of arithmetic come last.
MIXES = [
    (0, dict(add=1, subtract=1, reverse=3, uppercase=3, length=3, count=1.5, spell=5, copy=9,
             sort=1.5, extreme=1.5, count_to=1, fact=1, greet=.5, unknown=.7, json=1.5)),
    (2500, dict(add=3, subtract=4, reverse=4, uppercase=2.5, length=2, count=4, spell=2, copy=3.5,
                sort=4, extreme=2, count_to=.8, fact=2.2, greet=1, unknown=1.8, json=3)),
    (6500, dict(add=7, subtract=7, reverse=2, uppercase=1.5, length=1.5, count=5, spell=1, copy=3,
                sort=5, extreme=3, count_to=1.2, fact=4.5, greet=1.5, unknown=1.8, json=3)),
    (13000, dict(add=3, subtract=9, reverse=2, uppercase=1.5, length=1, count=2.5, spell=1, copy=3,
                 sort=9, extreme=8, count_to=3, fact=7, greet=2, unknown=1.5, json=3)),
]
SECOND_MIX = MIXES[1][0]


def mix(step):
    return [weights for first, weights in MIXES if first <= step][-1]
