// Our side: `strata serve` in a process of its own, asked over HTTP as any client would.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { sleep } from "./stats.mjs";

const START_SECONDS = 300;

// What we started does not outlive us, however we end.
const children = new Set();
export function ours(child) {
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

export class StrataSide {
  static async start({ strata, model, threads, sequences, context, words = [] }) {
    const side = new StrataSide();
    const all = ["serve", "-m", model, "-t", String(threads), "-np", String(sequences), "-c", String(context),
      "--port", "0", "--max-queue", "4096", ...words];
    side.child = ours(spawn(strata, all, { stdio: ["ignore", "ignore", "pipe"] }));
    side.exited = once(side.child, "exit");
    let log = "";
    side.child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
    for (let waited = 0; !side.port; waited += 0.05) {
      const found = /listening on \S+:(\d+)/.exec(log);
      if (found) side.port = Number(found[1]);
      else if (side.child.exitCode !== null) throw new Error(`strata serve ended: ${log.trim()}`);
      else if (waited > START_SECONDS) {
        side.child.kill("SIGKILL");
        throw new Error(`strata serve did not start: ${log.trim()}`);
      } else await sleep(0.05);
    }
    side.agent = new Agent({ keepAlive: true, maxSockets: Infinity });
    const [info] = (await side.json("/v1/models")).data;
    side.vocabulary = info.meta.n_vocab;
    return side;
  }

  async json(path) {
    return (await fetch(`http://127.0.0.1:${this.port}${path}`)).json();
  }

  // One answer as a stream; {stop, ended}. An error of the server is an error of `ended`.
  open(_stream, { prompt, count }, onToken) {
    // A chunk for every token, also where a token adds no text yet.
    const body = JSON.stringify({
      prompt, n_predict: count, stream: true, return_tokens: true, temperature: 0, ignore_eos: true,
    });
    let left = false;
    const asked = httpRequest({
      host: "127.0.0.1", port: this.port, path: "/completion", method: "POST", agent: this.agent,
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    const ended = new Promise((done, failed) => {
      asked.on("error", (error) => (left ? done() : failed(error)));
      asked.on("close", () => (left ? done() : null));
      asked.on("response", (answer) => {
        let rest = "";
        answer.setEncoding("utf8");
        answer.on("error", (error) => (left ? done() : failed(error)));
        answer.on("data", (text) => {
          const events = (rest + text).split("\n\n");
          rest = events.pop();
          for (const event of events) {
            if (answer.statusCode !== 200 || event.includes('"error":{')) failed(new Error(event));
            else if (event.includes('"stop":false')) onToken();
          }
        });
        answer.on("end", () => {
          if (answer.statusCode === 200) done();
          else failed(new Error(`${answer.statusCode}: ${rest}`));
        });
      });
    });
    asked.end(body);
    return {
      ended,
      stop: () => {
        left = true;
        asked.destroy();
      },
    };
  }

  async generate(client, request, onToken, stopped) {
    const answer = this.open(client, request, () => {
      onToken();
      if (stopped()) answer.stop();
    });
    await answer.ended;
  }

  async stop() {
    this.agent?.destroy();
    if (this.child.exitCode === null) this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 10000);
    await this.exited;
    clearTimeout(timer);
  }
}
