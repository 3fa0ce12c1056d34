// Strata and llama.cpp alternately (ours, theirs, ours, theirs, ...) on one file, one test at a
// time, so that both meet the same machine; medians and ratios at the end. See docs/benchmarks.md.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { median, parseTest } from "./tests.mjs";

const here = dirname(fileURLToPath(import.meta.url));

const USAGE = `usage: node run.mjs -m MODEL.gguf [options]
  -m, --model FILE      model that both run
  -t, --threads N       threads of both (2)
  -r, --rounds N        turns of each per test; the median counts (3)
      --tests LIST      ppN, tgN, tgN@DEPTH, tgNxSEQUENCES@DEPTH
                        (pp512,pp4096,tg64,tg32@4096,tg32x16@128)
      --strata FILE     our binary (../../build/strata)
      --isa NAME        instruction set of ours: generic, avx2, ... (the best)
      --peer-isa NAME   library of llama.cpp's: haswell (AVX2), skylakex, icelake, sapphirerapids,
                        ... (its own choice, the best)
  -o, --output FORMAT   md or json (md)`;

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
        rounds: { type: "string", short: "r", default: "3" },
        tests: { type: "string", default: "pp512,pp4096,tg64,tg32@4096,tg32x16@128" },
        strata: { type: "string", default: join(here, "../../build/strata") },
        isa: { type: "string" },
        "peer-isa": { type: "string" },
        output: { type: "string", short: "o", default: "md" },
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
    for (const name of ["threads", "rounds"]) {
      if (!/^[1-9]\d{0,3}$/.test(values[name])) throw new Error(`--${name} ${values[name]}: not a number from 1 on`);
    }
    if (!["md", "json"].includes(values.output)) throw new Error(`-o ${values.output}: give md or json`);
    if (!existsSync(join(here, "node_modules/node-llama-cpp"))) {
      throw new Error(`llama.cpp is not installed: npm install --ignore-scripts --prefix ${here}`);
    }
    return { ...values, tests: values.tests.split(",").map(parseTest) };
  } catch (error) {
    stop(`${error.message}\n${USAGE}`);
  }
}

// llama.cpp takes the best of its CPU libraries that the machine can run. To force one, the others
// are kept out of its sight while we run (and put back, also those that a killed run left there).
const libraries = join(here, `node_modules/@node-llama-cpp/linux-${process.arch}/bins/linux-${process.arch}`);
const hidden = join(libraries, "held-back");

function showLibraries() {
  if (!existsSync(hidden)) return;
  for (const file of readdirSync(hidden)) renameSync(join(hidden, file), join(libraries, file));
  rmdirSync(hidden);
}

function hideLibrariesBut(name) {
  const all = readdirSync(libraries).filter((file) => /^libggml-cpu-.*\.so$/.test(file));
  const wanted = `libggml-cpu-${name}.so`;
  if (!all.includes(wanted)) {
    const names = all.map((file) => file.slice("libggml-cpu-".length, -3));
    stop(`--peer-isa ${name}: not there; there are ${names.join(", ")}`);
  }
  mkdirSync(hidden);
  for (const file of all) if (file !== wanted) renameSync(join(libraries, file), join(hidden, file));
}

function runOurs(opts, test) {
  const words = ["bench", "-m", opts.model, "-t", opts.threads, "-r", "1", "-o", "json",
    "-d", String(test.depth), "-npl", String(test.sequences),
    "-p", test.kind === "pp" ? String(test.count) : "0",
    "-n", test.kind === "tg" ? String(test.count) : "0", "--log-level", "error"];
  const env = { ...process.env };
  if (opts.isa) env.STRATA_CPU_ISA = opts.isa;
  const [result] = JSON.parse(execFileSync(opts.strata, words, { env, encoding: "utf8" }));
  return result;
}

function runPeer(opts, test) {
  const words = [join(here, "peer.mjs"), opts.model, test.name, opts.threads];
  const out = execFileSync(process.execPath, words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  return JSON.parse(out.trim().split("\n").at(-1));
}

function measure(opts) {
  const rows = [];
  for (const test of opts.tests) {
    const ours = [];
    const peer = [];
    for (let round = 0; round < Number(opts.rounds); ++round) {
      ours.push(runOurs(opts, test));
      peer.push(runPeer(opts, test));
      console.error(`${test.name} ${round + 1}/${opts.rounds}: ` +
        `strata ${ours.at(-1).tps.toFixed(1)}, llama.cpp ${peer.at(-1).tps.toFixed(1)} tokens/s`);
    }
    const strata = median(ours.map((one) => one.tps));
    const llamacpp = median(peer.map((one) => one.tps));
    rows.push({
      test: test.name,
      threads: Number(opts.threads),
      isa: ours[0].isa,
      strata,
      llamacpp,
      ratio: strata / llamacpp,
      // Ours next to theirs of the same turn: how far the ratio scatters.
      ratios: ours.map((one, i) => one.tps / peer[i].tps),
      bandwidth_share: median(ours.map((one) => one.bandwidth_share ?? 0)),
      compute_share: median(ours.map((one) => one.compute_share ?? 0)),
    });
  }
  return rows;
}

function table(rows) {
  const lines = ["| test | strata | llama.cpp | ratio | lowest-highest | of read bandwidth | of int8 peak |",
    "|---|---:|---:|---:|---:|---:|---:|"];
  for (const row of rows) {
    const spread = `${Math.min(...row.ratios).toFixed(2)}-${Math.max(...row.ratios).toFixed(2)}`;
    lines.push(`| ${row.test} | ${row.strata.toFixed(1)} | ${row.llamacpp.toFixed(1)} | ` +
      `${row.ratio.toFixed(2)} | ${spread} | ${(row.bandwidth_share * 100).toFixed(0)} % | ` +
      `${(row.compute_share * 100).toFixed(0)} % |`);
  }
  return lines.join("\n");
}

const opts = options();
showLibraries();
try {
  if (opts["peer-isa"]) hideLibrariesBut(opts["peer-isa"]);
  const rows = measure(opts);
  console.log(opts.output === "json" ? JSON.stringify(rows, null, 2) : table(rows));
} catch (error) {
  const told = String(error.stderr ?? "").trim() || error.message;
  console.error(told.startsWith("error: ") ? told : `error: ${told}`);
  process.exitCode = 1;
} finally {
  showLibraries();
}
