#!/usr/bin/env python3
"""Makes nano's training batches: harmony conversations packed into rows, as int32 on stdout.

A row is one system (and developer) prefix followed by conversations that each see only the prefix
and themselves, with positions going on from the prefix. That equals separate samples, but the
prefix is paid for once. Step N of seed S is always the same batch, so a run can be resumed.

usage: data.py SEED FIRST_STEP STEPS     batches on stdout
       data.py --show [SKILL]            a few samples to read
"""
import array
import random
import sys

import skills
import tokens
import tools
import words as W

ROWS, BODY_TOKENS = 5, 310


def system(r, effort, has_tools, date=None):
    """The system message as the harmony renderer of the server writes it."""
    date = date or "20%02d-%02d-%02d" % (r.randint(24, 29), r.randint(1, 12), r.randint(1, 28))
    text = "You are ChatGPT, a large language model trained by OpenAI.\n"
    text += "Knowledge cutoff: 2024-06\n"
    if date != "none":
        text += "Current date: %s\n" % date
    text += ("\nReasoning: %s\n\n# Valid channels: analysis, commentary, final. "
             "Channel must be included for every message." % effort)
    if has_tools:
        text += "\nCalls to these tools must go to the commentary channel: 'functions'."
    return "<|start|>system<|message|>" + text + "<|end|>", date


def sloppy(r, q):
    """The same question as a hurried or a polite user types it."""
    u = r.random()
    if u < .35:
        return q[0].lower() + q[1:]
    if u < .6 and q[-1] in "?.!":
        return q[:-1]
    if u < .75:
        before = r.choice(["Please ", "please ", "Hey, ", "Can you ", "can you ", "Hi! "])
        return before + q[0].lower() + q[1:]
    if u < .9:
        return q + r.choice([" Thanks.", " please", " Please.", " Thank you!"])
    return q + r.choice(["\n", " ", "!"])


def ask(q):
    return "<|start|>user<|message|>%s<|end|>" % q


def pick(r, step):
    weights = skills.mix(step)
    return r.choices(list(weights), list(weights.values()))[0]


def date_skill(r, date):
    q = r.choice(["What is the date today?", "What day is it?", "What is today's date?",
                  "Which date is it today?"])
    return q, "The date is in the system message.", "Today is %s." % date, date


def conversation(r, effort, step, date, skill=None, held=False):
    """Segments (text, learn) of one talk; earlier turns keep only their final message."""
    out = []
    while not held and r.random() < .15 and len(out) < 3:
        q, _, final, _ = skills.SKILLS[pick(r, step)](r, effort, False)
        out.append((ask(q) + "<|start|>assistant<|channel|>final<|message|>%s<|end|>" % final, 0))
    if skill == "date" or (skill is None and date != "none" and r.random() < .02):
        q, analysis, final, _ = date_skill(r, date)
    else:
        q, analysis, final, _ = skills.SKILLS[skill or pick(r, step)](r, effort, held)
    if not held and r.random() < .3:
        q = sloppy(r, q)
    return out + [(ask(q) + "<|start|>assistant", 0), (skills.reply(analysis, final), 1)]


def encode(tok, segments):
    ids, learn = [], []
    for text, flag in segments:
        part = tok.encode(text.replace("\x03", "").replace("\x04", ""))
        ids += part
        learn += [flag] * len(part)
    return ids, learn


def prefix(r, step, skill=None, held=False):
    """The segments before the first user message, the tools offered, the effort and the date."""
    effort = r.choice(["low", "medium", "medium", "high"])
    share = .2 if step < skills.SECOND_MIX else .36
    with_tools = skill == "tool" or (skill is None and r.random() < share)
    date = "none" if r.random() < .03 and not held else None
    text, date = system(r, effort, with_tools, date)
    offered = tools.offer(r) if with_tools else []
    instructions = r.choice(W.DEVELOPER) if r.random() < .3 else ""
    if not held and r.random() < .03:
        instructions = " ".join(skills.word(r, False) for _ in range(r.randint(3, 12))) + "."
    return [(text, 0), (tools.developer(instructions, offered), 0)], offered, effort, date


def row(r, tok, step):
    """One packed row: ids, learn flags, positions and the (first, end) of prefix and talks."""
    before, offered, effort, date = prefix(r, step)
    ids, learn = encode(tok, before)
    size = len(ids)
    pos, spans, misses = list(range(size)), [(0, size)], 0
    while misses < 3 and len(ids) - size < BODY_TOKENS - 25:
        if offered and r.random() < .75:
            talks = tools.talk(r, offered, False)
        else:
            talks = [conversation(r, effort, step, date)]
        for talk in talks:
            part, flags = encode(tok, talk)
            if len(ids) - size + len(part) > BODY_TOKENS + (110 if offered else 0):
                misses += 1
                continue
            spans.append((len(ids), len(ids) + len(part)))
            ids += part
            learn += flags
            pos += range(size, size + len(part))
    return ids, learn, pos, spans


def batch(tok, seed, step):
    """header (tokens, segments), ids, targets, learn, positions, segments (4 bounds each)."""
    r = random.Random(seed * 1000003 + step)
    ids, target, learn, pos, segments = [], [], [], [], []
    for _ in range(ROWS):
        i, flags, p, spans = row(r, tok, step)
        base = len(ids)
        first, end = spans[0]
        for a, b in spans:
            segments += [base + first, base + end, base + a, base + b]
        ids += i
        target += i[1:] + [0]
        learn += flags[1:] + [0]
        pos += p
    return array.array("i", [len(ids), len(segments) // 4] + ids + target + learn + pos + segments)


def make_tokenizer():
    """Counts the words of a fixed sample of talks and builds the merges from them."""
    r, texts, step = random.Random(1), [], skills.SECOND_MIX
    for _ in range(4000):
        before, offered, effort, date = prefix(r, step)
        texts += [t for t, _ in before]
        for talk in tools.talk(r, offered, False) if offered else [
                conversation(r, effort, step, date) for _ in range(4)]:
            texts += [t for t, _ in talk]
    tok = tokens.build(texts)
    skills.PREFIXES[:] = [t[1:].decode() for t in tok.tokens
                          if len(t) > 2 and t[:1] == b" " and t[1:].isalpha() and t[1:].islower()]
    return tok


def main(args):
    tok = make_tokenizer()
    if args and args[0] == "--show":
        r = random.Random(7)
        print("vocabulary", len(tok.tokens) + len(tok.special))
        print([t.decode() for t in tok.tokens[308:]])
        for skill in args[1:] or list(skills.SKILLS) + ["date", "tool"]:
            for held in (False, True):
                before, offered, effort, date = prefix(r, 1 << 30, skill)
                for talk in tools.talk(r, offered, held) if skill == "tool" else [
                        conversation(r, effort, 1 << 30, date, skill, held)]:
                    ids, _ = encode(tok, talk)
                    print(skill, held, len(encode(tok, before)[0]), len(ids))
                    print("   ", "|".join(tok.decode([i]) for i in ids))
        print("".join(t for t, _ in before))
        return
    seed, first, steps = (int(a) for a in args)
    try:
        for step in range(first, first + steps):
            sys.stdout.buffer.write(batch(tok, seed, step).tobytes())
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main(sys.argv[1:])
