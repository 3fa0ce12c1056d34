// /metrics: Prometheus' own linter, names that dashboards of llama-server and vLLM know, counters
// that only grow, figures that agree with what was asked.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { demoName, parseMetrics, Server, sleep } from "./server.mjs";

const STORY = { prompt: "Once upon a time", temperature: 0 };
const HISTOGRAMS = [
  "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
  "request_queue_time_seconds",
];
const COUNTERS = [
  "prompt_tokens_total", "prompt_seconds_total", "tokens_predicted_total", "tokens_predicted_seconds_total",
  "n_decode_total", "device_busy_seconds_total",
];
const GAUGES = [
  "prompt_tokens_seconds", "predicted_tokens_seconds", "requests_processing", "requests_deferred",
  "kv_cache_usage_ratio", "device_memory_bytes", "device_busy_ratio",
];

let server;

async function text() {
  return (await server.get("/metrics")).text();
}

// {name: {type, samples: [{name, labels, value}]}}
function families(body) {
  const out = {};
  for (const line of body.split("\n").filter(Boolean)) {
    const head = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (head) {
      out[head[2]] ??= { samples: [] };
      out[head[2]][head[1].toLowerCase()] = head[3];
      continue;
    }
    const sample = /^([a-z0-9_]+)\{(.*)\} (\S+)$/.exec(line);
    assert.ok(sample, `no sample: ${line}`);
    const name = sample[1].replace(/_(bucket|sum|count)$/, (end) => (out[sample[1]] ? end : ""));
    const labels = Object.fromEntries([...sample[2].matchAll(/(\w+)="([^"]*)"/g)].map((one) => [one[1], one[2]]));
    out[name].samples.push({ name: sample[1], labels, value: Number(sample[3]) });
  }
  return out;
}

before(async () => {
  server = await Server.start({ words: ["-c", "8192", "-np", "4", "-dev", "cpu"] });
});
after(() => server?.stop());

describe("metrics", () => {
  test("promtool finds nothing to object to", async (t) => {
    await server.json("/v1/completions", { ...STORY, max_tokens: 5 });
    const answer = await server.get("/metrics");
    assert.match(answer.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
    const input = await answer.text();
    const promtool = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
    if (promtool.error?.code === "ENOENT") {
      t.skip("promtool is not installed (Debian: prometheus)");
      return;
    }
    assert.equal(promtool.stdout + promtool.stderr, "");
    assert.equal(promtool.status, 0);
  });

  test("names, types and labels", async () => {
    const all = families(await text());
    for (const [names, type] of [[HISTOGRAMS, "histogram"], [COUNTERS, "counter"], [GAUGES, "gauge"]]) {
      for (const name of names) {
        const family = all[`strata_${name}`];
        assert.ok(family, name);
        assert.equal(family.type, type, name);
        assert.ok(family.help.length > 0);
        assert.ok(family.samples.length > 0, name);
        for (const sample of family.samples) assert.equal(sample.labels.model_name, demoName);
      }
    }
    const devices = all.strata_device_busy_ratio.samples;
    assert.equal(devices[0].labels.device, "cpu");
    assert.ok(devices.every((one) => one.value >= 0 && one.value <= 1));
    const purposes = all.strata_device_memory_bytes.samples.map((one) => one.labels.purpose);
    assert.deepEqual(purposes, ["weights", "kv_cache", "compute"]);
  });

  test("figures agree with the answers", async () => {
    const before = await server.metrics();
    const answers = [];
    for (const max_tokens of [6, 9]) {
      answers.push(await server.json("/v1/completions", { ...STORY, max_tokens, cache_prompt: false, ignore_eos: true }));
    }
    const after = await server.metrics();
    const grown = (name) => after[`strata_${name}`] - before[`strata_${name}`];
    assert.equal(grown("tokens_predicted_total"), 15);
    const prompts = answers.reduce((sum, one) => sum + one.usage.prompt_tokens, 0);
    assert.equal(grown("prompt_tokens_total"), prompts);
    assert.equal(grown("requests_finished_total"), 2);
    assert.equal(grown("time_to_first_token_seconds_count"), 2);
    assert.equal(grown("inter_token_latency_seconds_count"), 13);
    assert.equal(grown("e2e_request_latency_seconds_count"), 2);
    assert.ok(grown("device_busy_seconds_total") > 0);
    assert.ok(grown("e2e_request_latency_seconds_sum") >= grown("time_to_first_token_seconds_sum"));
  });

  test("histograms add up", async () => {
    const all = families(await text());
    for (const name of HISTOGRAMS) {
      const { samples } = all[`strata_${name}`];
      const buckets = samples.filter((one) => one.name.endsWith("_bucket"));
      const counts = buckets.map((one) => one.value);
      assert.deepEqual(counts, [...counts].sort((a, b) => a - b));
      const bounds = buckets.map((one) => (one.labels.le === "+Inf" ? Infinity : Number(one.labels.le)));
      assert.deepEqual(bounds, [...bounds].sort((a, b) => a - b));
      assert.equal(bounds.at(-1), Infinity);
      assert.equal(counts.at(-1), samples.find((one) => one.name.endsWith("_count")).value);
    }
  });

  test("counters never fall, whatever happens to requests", async () => {
    const counters = (body) => {
      const all = families(body);
      const names = Object.keys(all).filter((name) => ["counter", "histogram"].includes(all[name].type));
      return Object.fromEntries(names.flatMap((name) =>
        all[name].samples.map((one) => [one.name + JSON.stringify(one.labels), one.value])));
    };
    const leave = new AbortController();
    const work = [];
    for (let i = 0; i < 8; ++i) {
      const body = JSON.stringify({ ...STORY, max_tokens: i % 2 ? 40 : 3000, ignore_eos: true, stream: i % 3 === 0 });
      const signal = i % 2 ? undefined : leave.signal;
      const asked = fetch(`${server.url}/v1/completions`, { method: "POST", body, signal });
      work.push(asked.then((answer) => answer.text()).catch(() => {}));
    }
    let last = counters(await text());
    for (let i = 0; i < 10; ++i) {
      if (i === 5) leave.abort();
      await sleep(20);
      const now = counters(await text());
      for (const [name, value] of Object.entries(last)) assert.ok(now[name] >= value, `${name}: ${value} to ${now[name]}`);
      last = now;
    }
    await Promise.all(work);
    await server.until(0);
    const idle = parseMetrics(await text());
    assert.equal(idle.strata_requests_processing, 0);
    assert.equal(idle.strata_requests_deferred, 0);
  });

  test("a model's name cannot break the text", async () => {
    const odd = await Server.start({ words: ["-c", "512", "--alias", 'a "b" \\ c'] });
    try {
      const body = await (await odd.get("/metrics")).text();
      assert.match(body, /model_name="a \\"b\\" \\\\ c"/);
    } finally {
      await odd.stop();
    }
  });
});
