// llama_parity.mjs NODE_MODULES MODEL.gguf IDS LOGITS: our logits (f32, every position) against llama.cpp's.
// Prints TAP.
import fs from "fs";
import path from "path";
import {pathToFileURL} from "url";

const [, , modules, gguf, idsFile, logitsFile] = process.argv;
const entry = path.resolve(modules, "node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const u32 = file => { const b = fs.readFileSync(file); return new Uint32Array(b.buffer, b.byteOffset, b.length / 4); };
const ids = u32(idsFile);
const ours = new Float32Array(u32(logitsFile).slice().buffer);

const llama = await getLlama({gpu: false, build: "never", skipDownload: true, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: gguf, gpuLayers: 0});
const context = await model.createContext({
    contextSize: 512, batchSize: 512, flashAttention: false, threads: 1,
    experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"
});
const want = {generateNext: {logits: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}};
const rows = await context.getSequence().controlledEvaluate([...ids].map(id => [id, want]));

const vocab = ours.length / ids.length;
let worst = 0, argmax = 0;
rows.forEach((row, t) => {
    let delta = 0, norm = 0, best = 0, bestOurs = 0;
    const theirs = row.next.logits;
    for (let i = 0; i < vocab; i++) {
        const a = ours[t * vocab + i], b = theirs.get(i);
        delta += (a - b) ** 2;
        norm += b ** 2;
        if (b > theirs.get(best)) best = i;
        if (a > ours[t * vocab + bestOurs]) bestOurs = i;
    }
    const relative = Math.sqrt(delta / norm);
    if (!(relative <= worst)) worst = relative;
    if (best !== bestOurs) {
        argmax++;
        console.log(`# token ${t}: argmax ${bestOurs}, llama.cpp ${best}`);
    }
});
console.log("1..2");
console.log(`${worst <= 1e-4 ? "ok" : "not ok"} 1 - relative L2 of ${rows.length} positions: worst ${worst.toExponential(2)}, at most 1e-4`);
console.log(`${argmax === 0 && rows.length === ids.length ? "ok" : "not ok"} 2 - argmax equal at every position`);
process.exit(worst <= 1e-4 && argmax === 0 ? 0 : 1);
