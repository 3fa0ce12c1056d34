// Load on `strata serve`, next to llama.cpp's library with as many sequences, in turns on one file.
// See docs/performance.md.
import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import {
  load, LONGEST_REQUEST, median, now, randomNumbers, randomTokens, stall, STALL_ROOM,
} from "./stats.mjs";
import { ours, StrataSide } from "./strata_side.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const peerLibrary = join(here, "../vs_llamacpp/node_modules/node-llama-cpp");
const runFile = promisify(execFile);
function run(...words) {
  const running = runFile(...words);
  ours(running.child);
  return running;
}
const SCENARIOS = ["load", "stall", "prefix", "cost"];
// The best of so many answers of each side counts: what disturbs only makes slower.
const COST_REPEATS = 3;
const COST_TOKENS = 128;
const PEER_SECONDS = 900;

const USAGE = `usage: node run.mjs -m MODEL.gguf [options]
  -m, --model FILE      model that both run
  -t, --threads N       threads of both (2)
      --clients LIST    clients at once in the load test (1,4,16,64)
  -s, --seconds N       length of each load test (60)
  -r, --rounds N        turns of each; of several the median ratio counts (1)
      --scenarios LIST  load     tokens per second and times, by clients
                        stall    4 answers, before and while a 4096-token prompt is read
                        prefix   a shared 2000-token prompt: the second request's first token
                        cost     one answer over HTTP next to the engine alone
                        (load,stall,prefix,cost)
      --prompt N        tokens of the prompt that stalls (4096)
      --shared N        tokens of the shared prompt (2000)
      --no-peer         ours only
      --strata FILE     our binary (../../build/strata)
      --json FILE       write all figures there; - for standard output instead of the tables`;

function stop(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}

function options() {
  try {
    const { values } = parseArgs({
      options: {
        model: { type: "string", short: "m" },
        threads: { type: "string", short: "t", default: "2" },
        clients: { type: "string", default: "1,4,16,64" },
        seconds: { type: "string", short: "s", default: "60" },
        rounds: { type: "string", short: "r", default: "1" },
        scenarios: { type: "string", default: SCENARIOS.join(",") },
        prompt: { type: "string", default: "4096" },
        shared: { type: "string", default: "2000" },
        "no-peer": { type: "boolean", default: false },
        strata: { type: "string", default: join(here, "../../build/strata") },
        json: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    if (values.help) {
      console.log(USAGE);
      process.exit(0);
    }
    if (!values.model) throw new Error("no model given; use -m FILE");
    if (!existsSync(values.model)) throw new Error(`'${values.model}' does not exist`);
    if (!existsSync(values.strata)) throw new Error(`'${values.strata}' does not exist; build it or give --strata`);
    const number = (name, text) => {
      if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`--${name} ${text}: not a number from 1 on`);
      return Number(text);
    };
    const scenarios = values.scenarios.split(",");
    const unknown = scenarios.find((one) => !SCENARIOS.includes(one));
    if (unknown !== undefined) throw new Error(`--scenarios ${unknown}: there are ${SCENARIOS.join(", ")}`);
    const peer = !values["no-peer"];
    if (peer && scenarios.some((one) => one !== "cost") && !existsSync(peerLibrary)) {
      throw new Error("llama.cpp is not installed: npm install --ignore-scripts --prefix bench/vs_llamacpp (or --no-peer)");
    }
    return {
      model: values.model,
      strata: values.strata,
      json: values.json,
      scenarios,
      peer,
      clients: values.clients.split(",").map((one) => number("clients", one)),
      threads: number("threads", values.threads),
      seconds: number("seconds", values.seconds),
      rounds: number("rounds", values.rounds),
      prompt: number("prompt", values.prompt),
      shared: number("shared", values.shared),
    };
  } catch (error) {
    return stop(`${error.message}\n${USAGE}`);
  }
}

const opts = options();
const say = (text) => console.error(text);
let vocabulary = 0;

async function withStrata(sequences, context, words, work) {
  const side = await StrataSide.start({ ...opts, sequences, context, words });
  vocabulary = side.vocabulary;
  try {
    const random = randomNumbers(1);
    await side.open(0, { prompt: randomTokens(random, 16, vocabulary), count: 4 }, () => {}).ended;
    return await work(side);
  } finally {
    await side.stop();
  }
}

async function peer(job) {
  const words = [join(here, "peer.mjs"), JSON.stringify({ ...job, model: opts.model, threads: opts.threads, vocabulary })];
  const { stdout } = await run(process.execPath, words, { maxBuffer: 1 << 24, timeout: PEER_SECONDS * 1000, killSignal: "SIGKILL" });
  return JSON.parse(stdout.trim().split("\n").at(-1));
}

// One turn of a scenario for each side, `rounds` times: {strata: [...], llamacpp: [...]}.
async function turns(name, ours, theirs) {
  const out = { strata: [], llamacpp: [] };
  for (let round = 1; round <= opts.rounds; ++round) {
    out.strata.push(await ours(round));
    say(`${name}, round ${round}/${opts.rounds}: strata done`);
    // A peer that fails or never ends costs its own figures, not the whole run; pairs stay pairs.
    if (!opts.peer || out.llamacpp.length < round - 1) continue;
    try {
      out.llamacpp.push(await theirs(round));
      say(`${name}, round ${round}/${opts.rounds}: llama.cpp done`);
    } catch (error) {
      say(`${name}, round ${round}/${opts.rounds}: llama.cpp ` +
        (error.killed ? `did not end within ${PEER_SECONDS} s` : `failed: ${String(error.stderr ?? error).trim()}`));
    }
  }
  return out;
}

async function runLoad() {
  const rows = [];
  for (const clients of opts.clients) {
    const context = clients * (LONGEST_REQUEST + 64);
    rows.push(await turns(`load, ${clients} clients`,
      (seed) => withStrata(clients, context, [], (side) =>
        load({ clients, seconds: opts.seconds, vocabulary, seed, generate: side.generate.bind(side) })),
      (seed) => peer({ scenario: "load", clients, seconds: opts.seconds, seed })));
  }
  return rows;
}

function runStall() {
  const job = { streams: 4, seconds: opts.seconds, length: opts.prompt };
  return turns("stall",
    (seed) => withStrata(job.streams + 1, opts.prompt + 64 + 4 * (STALL_ROOM + 64), [], (side) =>
      stall({ ...job, vocabulary, seed, open: side.open.bind(side) })),
    (seed) => peer({ scenario: "stall", ...job, seed }));
}

function runPrefix() {
  return turns("prefix",
    (seed) => withStrata(4, 2 * opts.shared + 1024, [], async (side) => {
      const random = randomNumbers(seed);
      const shared = randomTokens(random, opts.shared, vocabulary);
      const times = [];
      for (let i = 0; i < 2; ++i) {
        const prompt = [...shared, ...randomTokens(random, 16, vocabulary)];
        const asked = now();
        let first = null;
        await side.open(0, { prompt, count: 2 }, () => (first ??= now() - asked)).ended;
        times.push(first);
      }
      return { length: opts.shared, first: times[0], second: times[1], ratio: times[1] / times[0] };
    }),
    (seed) => peer({ scenario: "prefix", length: opts.shared, seed }));
}

// Decode speed of one answer over HTTP, and of the engine alone, in turns.
async function runCost() {
  const rows = [];
  for (let round = 1; round <= Math.max(3, opts.rounds); ++round) {
    const http = await withStrata(1, 1024, [], async (side) => {
      const speeds = [];
      for (let i = 0; i < COST_REPEATS; ++i) {
        let first = null;
        let last = null;
        await side.open(0, { prompt: [randomNumbers(round)(vocabulary)], count: COST_TOKENS + 1 }, () => {
          last = now();
          first ??= last;
        }).ended;
        speeds.push(COST_TOKENS / (last - first));
      }
      return Math.max(...speeds);
    });
    const words = ["bench", "-m", opts.model, "-t", String(opts.threads), "-r", String(COST_REPEATS), "-p", "0", "-n", String(COST_TOKENS),
      "-o", "json", "--log-level", "error"];
    const [{ samples }] = JSON.parse((await run(opts.strata, words)).stdout);
    const engine = Math.max(...samples);
    rows.push({ http, engine, cost: engine / http - 1 });
    say(`cost, round ${round}: ${http.toFixed(1)} over HTTP, ${engine.toFixed(1)} tokens/s alone`);
  }
  return { rounds: rows, cost: median(rows.map((one) => one.cost)) };
}

const ms = (seconds) => (seconds === null ? "-" : (seconds * 1000).toFixed(seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0));
const three = (one) => [one.p50, one.p95, one.p99].map(ms).join(" / ");
const middle = (list, get) => median(list.map(get));

function loadTable(rows) {
  const lines = ["| clients | side | tokens/s | ratio | requests | first token, ms: p50 / p95 / p99 | between tokens, ms: p50 / p95 / p99 |",
    "|---:|---|---:|---:|---:|---:|---:|"];
  for (const row of rows) {
    for (const [side, name] of [["strata", "Strata, HTTP"], ["llamacpp", "llama.cpp, library"]]) {
      if (row[side].length === 0) continue;
      const ratios = row.llamacpp.map((one, i) => row.strata[i].tps / one.tps).filter(Number.isFinite);
      const ratio = side === "strata" && ratios.length > 0 ? median(ratios).toFixed(2) : "";
      // Of several rounds: the one with the median speed.
      const shown = [...row[side]].sort((a, b) => a.tps - b.tps)[row[side].length >> 1];
      lines.push(`| ${shown.clients} | ${name} | ${shown.tps.toFixed(1)} | ${ratio} | ${shown.requests} | ` +
        `${three(shown.first)} | ${three(shown.between)} |`);
    }
  }
  return lines.join("\n");
}

function stallTable({ strata, llamacpp }) {
  const lines = [`| ${strata[0].streams} answers beside a prompt of ${strata[0].length} | between tokens before, ms: p50 / p95 / p99 | ` +
    "while it is read | p95, times | prompt read in, s |", "|---|---:|---:|---:|---:|"];
  for (const [list, name] of [[strata, "Strata, HTTP"], [llamacpp, "llama.cpp, library"]]) {
    if (list.length === 0) continue;
    const shown = [...list].sort((a, b) => a.ratio - b.ratio)[list.length >> 1];
    lines.push(`| ${name} | ${three(shown.before)} | ${three(shown.during)} | ${shown.ratio.toFixed(2)} | ${shown.read.toFixed(1)} |`);
  }
  return lines.join("\n");
}

function prefixTable({ strata, llamacpp }) {
  const lines = [`| shared prompt of ${strata[0].length} | first request's first token, ms | second's | share |`, "|---|---:|---:|---:|"];
  for (const [list, name] of [[strata, "Strata, HTTP"], [llamacpp, "llama.cpp, library, same sequence"]]) {
    if (list.length === 0) continue;
    lines.push(`| ${name} | ${ms(middle(list, (one) => one.first))} | ${ms(middle(list, (one) => one.second))} | ` +
      `${(100 * middle(list, (one) => one.ratio)).toFixed(1)} % |`);
  }
  return lines.join("\n");
}

function costTable({ rounds, cost }) {
  const range = rounds.map((one) => 100 * one.cost);
  return ["| one answer, tokens/s | over HTTP | engine alone | cost | lowest-highest |", "|---|---:|---:|---:|---:|",
    `| decode ${COST_TOKENS} | ${middle(rounds, (one) => one.http).toFixed(1)} | ${middle(rounds, (one) => one.engine).toFixed(1)} | ` +
    `${(100 * cost).toFixed(1)} % | ${Math.min(...range).toFixed(1)}-${Math.max(...range).toFixed(1)} % |`].join("\n");
}

const scenarios = { load: [runLoad, loadTable], stall: [runStall, stallTable], prefix: [runPrefix, prefixTable], cost: [runCost, costTable] };
const results = { model: basename(opts.model), threads: opts.threads, seconds: opts.seconds };
try {
  for (const name of opts.scenarios) {
    const [measure, table] = scenarios[name];
    results[name] = await measure();
    // Shown at once: a long run that is ended early has told what it knows.
    if (opts.json !== "-") console.log(`\n${results.model}, ${opts.threads} threads\n\n${table(results[name])}`);
    if (opts.json && opts.json !== "-") writeFileSync(opts.json, JSON.stringify(results, null, 2));
  }
  if (opts.json === "-") console.log(JSON.stringify(results, null, 2));
} catch (error) {
  console.error(`error: ${String(error.stderr ?? "").trim() || error.message}`);
  process.exitCode = 1;
}
