// Starts `strata serve` for a test and looks into it from outside.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The tests run from a copy beside the clients that npm installed; the runner says where both are.
export const source = process.env.STRATA_SOURCE ?? join(dirname(fileURLToPath(import.meta.url)), "../..");
export const binary = process.env.STRATA_BINARY ?? join(source, "build/strata");
export const demo = join(source, "models/demo-q8_0.gguf");
export const demoName = "demo-q8_0";

const START_SECONDS = 60;
const STOP_SECONDS = 20;

// The settings of whoever runs the tests are not the tests' own.
function cleanEnvironment() {
  const env = { ...process.env, XDG_CONFIG_HOME: "/nonexistent" };
  for (const name of Object.keys(env)) if (name.startsWith("STRATA_")) delete env[name];
  return env;
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// What a test started does not outlive it, however it ends.
const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

export class Server {
  constructor(child, words) {
    this.child = child;
    children.add(child);
    child.on("exit", () => children.delete(child));
    this.words = words;
    this.log = "";
    this.exited = once(child, "exit");
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text) => (this.log += text));
    child.stdout.resume();
  }

  // `words` after the model and the port; `key` asks clients for it.
  static async start({ words = [], model = demo, key, port = 0 } = {}) {
    const all = ["serve", "-m", model, "--port", String(port), "-t", "1", "--metrics", ...words];
    if (key) all.push("--api-key", key);
    const server = new Server(spawn(binary, all, { env: cleanEnvironment(), stdio: ["ignore", "pipe", "pipe"] }), all);
    server.key = key;
    const until = Date.now() + START_SECONDS * 1000;
    for (;;) {
      const found = /listening on (https?):\/\/(\[[^\]]*\]|[^:\s]+):(\d+)/.exec(server.log);
      if (found) {
        server.port = Number(found[3]);
        server.url = `${found[1]}://127.0.0.1:${server.port}`;
        return server;
      }
      if (server.child.exitCode !== null) throw new Error(`the server ended: ${server.log}`);
      if (Date.now() > until) {
        server.child.kill("SIGKILL");
        throw new Error(`the server did not start: ${server.log}`);
      }
      await sleep(20);
    }
  }

  headers(more = {}) {
    return this.key ? { authorization: `Bearer ${this.key}`, ...more } : more;
  }

  async get(path) {
    return fetch(this.url + path, { headers: this.headers() });
  }

  async post(path, body) {
    return fetch(this.url + path, {
      method: "POST",
      headers: this.headers({ "content-type": "application/json" }),
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  }

  async json(path, body) {
    const answer = body === undefined ? await this.get(path) : await this.post(path, body);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  // What /metrics says, by name; of a metric with labels the sum of its samples.
  async metrics() {
    return parseMetrics(await (await this.get("/metrics")).text());
  }

  // Requests that run or wait.
  async busy() {
    const now = await this.metrics();
    return now.strata_requests_processing + now.strata_requests_deferred;
  }

  // Waits until `read` gives `value`, or throws.
  async untilValue(what, read, value, seconds) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
      const now = await read();
      if (now === value) return;
      if (Date.now() > end) throw new Error(`after ${seconds} s ${what} is ${now}, not ${value}`);
      await sleep(20);
    }
  }

  async untilMetric(name, value, seconds = 60) {
    return this.untilValue(name, async () => (await this.metrics())[name], value, seconds);
  }

  // Until `count` requests run or wait.
  async until(count, seconds = 60) {
    return this.untilValue("the number of requests", () => this.busy(), count, seconds);
  }

  // Does `work`, which leaves requests that would generate `most` tokens, and sees that the server
  // then has nothing to do long before it could have generated half of them.
  async leaves(most, work) {
    const before = (await this.metrics()).strata_tokens_predicted_total;
    await work();
    await this.until(0);
    const generated = (await this.metrics()).strata_tokens_predicted_total - before;
    if (generated > most / 2) throw new Error(`${generated} tokens were generated for nobody`);
  }

  // The exit status; null when it had to be killed.
  async stop(signal = "SIGTERM") {
    if (this.child.exitCode === null) this.child.kill(signal);
    const timer = setTimeout(() => this.child.kill("SIGKILL"), STOP_SECONDS * 1000);
    await this.exited;
    clearTimeout(timer);
    return this.child.exitCode;
  }
}

export function parseMetrics(text) {
  const out = {};
  for (const line of text.split("\n")) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{[^}]*\})? (\S+)$/.exec(line);
    if (found) out[found[1]] = (out[found[1]] ?? 0) + Number(found[2]);
  }
  return out;
}

// The events of a stream of server-sent events: {event, data}; comments are left out.
export function parseEvents(text) {
  const out = [];
  for (const block of text.split("\n\n")) {
    let event = null;
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data.push(line.slice(6));
      else if (line !== "" && !line.startsWith(":")) throw new Error(`no line of an event: ${line}`);
    }
    if (data.length > 0) out.push({ event, data: data.join("\n") });
  }
  return out;
}

// Tokens of a conversation, counted by other addresses than the one that is tested.
export async function countChatTokens(server, messages) {
  const { prompt } = await server.json("/apply-template", { messages });
  const { tokens } = await server.json("/tokenize", { content: prompt, parse_special: true });
  return tokens.length;
}
