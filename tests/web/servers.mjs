// A strata server to look at, and a proxy before it that can answer chats by a script: the page,
// its headers and everything else are the real ones.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";

export class Strata {
  static async start(binary, model, ...flags) {
    const server = new Strata();
    server.child = spawn(binary, ["serve", "-m", model, "--port", "0", "-c", "2048", ...flags],
                         { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    server.port = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server does not listen: ${said}`)), 60_000);
      server.child.stderr.on("data", (text) => {
        said += text;
        const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said);
        if (found === null) return;
        clearTimeout(timer);
        resolve(Number(found[1]));
      });
      server.child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
    server.url = `http://127.0.0.1:${server.port}`;
    return server;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(timer);
  }
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// STRATA_PAGE names the folder of the page's files, for whoever works on them: no build in between.
function fromFolder(url) {
  const folder = process.env.STRATA_PAGE;
  const path = url.split("?")[0];
  const file = path === "/" ? "index.html" : /^\/web\/([\w.-]+)$/.exec(path)?.[1];
  if (!folder || file === undefined || !existsSync(join(folder, file))) return null;
  const types = { html: "text/html; charset=utf-8", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };
  return { body: readFileSync(join(folder, file)), type: types[file.split(".").at(-1)] };
}

/** What a script writes with. */
class Answer {
  constructor(response) {
    this.response = response;
    this.closed = false;
    response.on("close", () => { this.closed = true; });
  }
  status(code, body, headers = {}) {
    this.response.writeHead(code, { "Content-Type": "application/json", ...headers });
    this.response.end(JSON.stringify(body));
  }
  begin() {
    this.response.writeHead(200, { "Content-Type": "text/event-stream" });
    this.response.flushHeaders();
    this.send({ delta: { role: "assistant", content: "" } });
  }
  event(object) { this.response.write(`data: ${JSON.stringify(object)}\n\n`); }
  send(choice, more = {}) {
    this.event({ id: "chatcmpl-1", object: "chat.completion.chunk", model: "scripted",
                 choices: [{ index: 0, finish_reason: null, ...choice }], ...more });
  }
  text(content) { this.send({ delta: { content } }); }
  async slowly(text, ms, size = 4) {
    for (let i = 0; i < text.length && !this.closed; i += size) {
      this.text(text.slice(i, i + size));
      await wait(ms);
    }
  }
  end(finish = "stop", timings = { cache_n: 3, prompt_n: 40, prompt_per_second: 900, predicted_n: 12,
                                   predicted_per_second: 34.5 }) {
    this.send({ delta: {}, finish_reason: finish }, { timings });
    this.response.end("data: [DONE]\n\n");
  }
  /** Breaks the line without an end. */
  cut() { this.response.destroy(); }
}

export class Proxy {
  static async start(strata) {
    const proxy = new Proxy();
    proxy.bodies = [];    // of chats, as objects
    proxy.script = null;  // async (answer, body, number) => ...; null: the real model
    proxy.server = http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        const body = Buffer.concat(parts);
        if (request.url === "/v1/chat/completions") {
          proxy.bodies.push(JSON.parse(body));
          if (proxy.script !== null) {
            const answer = new Answer(response);
            proxy.last = answer;
            Promise.resolve(proxy.script(answer, proxy.bodies.at(-1), proxy.bodies.length))
              .catch((error) => { proxy.fault = error; response.destroy(); });
            return;
          }
        }
        const file = fromFolder(request.url);
        const headers = { ...request.headers, host: `127.0.0.1:${strata.port}` };
        const onward = http.request({ port: strata.port, host: "127.0.0.1", method: request.method,
                                      path: request.url, headers, agent: false }, (answer) => {
          if (file !== null) {
            const { "content-length": _, "content-encoding": __, ...kept } = answer.headers;
            response.writeHead(200, { ...kept, "content-type": file.type });
            response.end(file.body);
            answer.resume();
            return;
          }
          response.writeHead(answer.statusCode, answer.headers);
          answer.pipe(response);
        });
        onward.on("error", () => response.destroy());
        response.on("close", () => onward.destroy());
        onward.end(body);
      });
    });
    await new Promise((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  /** Answers every chat with this text. */
  says(text) {
    this.script = (answer) => {
      answer.begin();
      answer.text(text);
      answer.end();
    };
  }

  stop() {
    this.server.closeAllConnections?.();
    this.server.close();
  }
}

export { wait };
