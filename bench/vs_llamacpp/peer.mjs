// One test of llama.cpp in a process of its own: node peer.mjs MODEL TEST THREADS
// Prints {"tps": ...}. Greedy sampling, flash attention, batches of 512: as its users run it.
import { getLlama } from "node-llama-cpp";
import { parseTest } from "./tests.mjs";

const [, , modelPath, testName, threadsText] = process.argv;
const test = parseTest(testName);
const threads = Number(threadsText);
const WARM_UP = 32;

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: threads });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({
  sequences: test.sequences,
  contextSize: Math.max(test.depth + test.count, WARM_UP) + 64,
  batchSize: 512,
  threads,
  flashAttention: true,
});
const sequences = Array.from({ length: test.sequences }, () => context.getSequence());

const vocabulary = Math.max(1, model.fileInfo.metadata.tokenizer.ggml.tokens.length);
let seed = 12345;
function randomTokens(n) {
  return Array.from({ length: n }, () => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % vocabulary;
  });
}

async function read(sequence, n) {
  if (n > 0) await sequence.evaluateWithoutGeneratingNewTokens(randomTokens(n));
}

await read(sequences[0], WARM_UP);
await sequences[0].clearHistory();
for (const sequence of sequences) await read(sequence, test.depth);

let tps;
if (test.kind === "pp") {
  const start = performance.now();
  await read(sequences[0], test.count);
  tps = test.count / ((performance.now() - start) / 1000);
} else {
  // The first token of each sequence belongs to its prompt; from then on all step together.
  const generators = sequences.map((sequence) =>
    sequence.evaluate([11], { temperature: 0, yieldEogToken: true }),
  );
  await Promise.all(generators.map((generator) => generator.next()));
  const start = performance.now();
  await Promise.all(
    generators.map(async (generator) => {
      for (let i = 0; i < test.count; ++i) await generator.next();
    }),
  );
  tps = (test.sequences * test.count) / ((performance.now() - start) / 1000);
}
console.log(JSON.stringify({ test: test.name, threads, tps }));
process.exit(0);
