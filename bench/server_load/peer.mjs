// The peer's side: llama.cpp as node-llama-cpp brings it, in a process of its own without HTTP:
//   node peer.mjs '{"scenario": "load", "model": FILE, "threads": N, ...}'
// One context with a sequence for each client, batched by the library. Prints the result as JSON.
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { load, LONGEST_REQUEST, now, randomNumbers, randomTokens, stall, STALL_ROOM } from "./stats.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const library = join(here, "../vs_llamacpp/node_modules/node-llama-cpp/dist/index.js");
const { getLlama } = await import(pathToFileURL(library));

const job = JSON.parse(process.argv[2]);
const sequencesOf = { load: job.clients, stall: job.streams + 1, prefix: 1 };
const lengthOf = { load: LONGEST_REQUEST, stall: Math.max(job.length, STALL_ROOM) + 64, prefix: job.length + 256 };

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: job.threads });
const model = await llama.loadModel({ modelPath: job.model, gpuLayers: 0 });
const context = await model.createContext({
  sequences: sequencesOf[job.scenario],
  contextSize: lengthOf[job.scenario] + 64,
  batchSize: 512,
  threads: job.threads,
  flashAttention: true,
});
const sequences = Array.from({ length: sequencesOf[job.scenario] }, () => context.getSequence());

async function generate(client, { prompt, count }, onToken, stopped) {
  const sequence = sequences[client];
  await sequence.clearHistory();
  let left = count;
  for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (token === undefined) break;
    onToken();
    if (--left === 0 || stopped()) break;
  }
}

function open(stream, request, onToken) {
  let left = false;
  const ended = generate(stream, request, onToken, () => left);
  return { ended, stop: () => (left = true) };
}

const { vocabulary, seed } = job;
// Memory is touched and code is warm before anything is measured.
await generate(0, { prompt: randomTokens(randomNumbers(1), 16, vocabulary), count: 4 }, () => {}, () => false);

let result;
if (job.scenario === "load") {
  result = await load({ clients: job.clients, seconds: job.seconds, vocabulary, seed, generate });
} else if (job.scenario === "stall") {
  result = await stall({ ...job, open });
} else {
  const random = randomNumbers(seed);
  const shared = randomTokens(random, job.length, vocabulary);
  const times = [];
  for (let i = 0; i < 2; ++i) {
    const prompt = [...shared, ...randomTokens(random, 16, vocabulary)];
    const asked = now();
    // The library keeps what a sequence has in common with its next prompt.
    if (i === 0) await sequences[0].clearHistory();
    else await sequences[0].adaptStateToTokens(prompt.slice(0, -1), false);
    const rest = prompt.slice(sequences[0].nextTokenIndex);
    for await (const token of sequences[0].evaluate(rest, { temperature: 0, yieldEogToken: true })) {
      void token;
      break;
    }
    times.push(now() - asked);
  }
  result = { length: job.length, first: times[0], second: times[1], ratio: times[1] / times[0] };
}
console.log(JSON.stringify(result));
process.exit(0);
