// Every example of docs/server.md is run as it stands there, against the demo model: blocks of
// another kind than those known here are a failure, so that nothing on that page is untested.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { binary, parseEvents, Server, source } from "./server.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const page = readFileSync(join(source, "docs/server.md"), "utf8");

// {language, text, line} of each fenced block.
function blocksOf(markdown) {
  const out = [];
  let open = null;
  for (const [i, line] of markdown.split("\n").entries()) {
    if (open === null && line.startsWith("```")) open = { language: line.slice(3).trim(), text: "", line: i + 2 };
    else if (line === "```") {
      out.push(open);
      open = null;
    } else if (open !== null) open.text += `${line}\n`;
  }
  assert.equal(open, null);
  return out;
}

let server;

before(async () => {
  server = await Server.start({ words: ["-c", "8192", "-np", "4", "--alias", "demo-q8_0"] });
});
after(() => server?.stop());

// With the address of the server that runs here.
const adapted = (text) => text.replaceAll(/(localhost|127\.0\.0\.1):8080/g, `127.0.0.1:${server.port}`);

function run(command, words, options = {}) {
  return new Promise((done, failed) => {
    const child = spawn(command, words, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (err += text));
    child.on("error", failed);
    child.on("close", (status) => {
      if (status === 0) done(out);
      else failed(new Error(`status ${status}: ${err}${out}`));
    });
  });
}

// An answer of any form, streamed or not: not an error, and with something in it.
function checkAnswer(out) {
  if (/^(data|event): /m.test(out)) {
    const events = parseEvents(out);
    assert.ok(events.length > 3);
    for (const { data } of events) if (data !== "[DONE]") assert.equal(JSON.parse(data).error, undefined, data);
    return;
  }
  const answer = JSON.parse(out);
  assert.equal(answer.error, undefined, out);
  const told = [answer.choices, answer.content, answer.data, answer.output, answer.tokens, answer.prompt];
  assert.ok(told.some((one) => one?.length > 0), out);
}

async function runShell(text) {
  if (/^(curl|for|printf|echo) /.test(text)) {
    checkAnswer(await run("sh", ["-ec", adapted(text)]));
    return;
  }
  const [command, verb] = text.trim().split(/\s+/);
  if (command === "strata" && verb === "serve") {
    const words = text.trim().split(/\s+/).slice(4);
    assert.match(text, /^strata serve -m \S+/);
    const other = await Server.start({ words });
    assert.deepEqual(await other.json("/health"), { status: "ok" });
    assert.equal(await other.stop(), 0);
    return;
  }
  if (command === "strata" && verb === "chat") {
    const words = adapted(text).trim().split(/\s+/).slice(1);
    const input = "What is the opposite of hot?\n";
    const chat = spawnSync(binary, [...words, "--temp", "0"], { input, encoding: "utf8", timeout: 60000 });
    assert.equal(chat.status, 0, chat.stderr);
    assert.match(chat.stdout, /Cold\./);
    return;
  }
  if (command === "export") {
    // Variables for a tool that asks as OpenAI's clients do.
    const variables = Object.fromEntries([...text.matchAll(/([A-Z_]+)=(\S+)/g)].map((one) => [one[1], one[2]]));
    const name = /--model openai\/(\S+)/.exec(text)[1];
    await chatAs(adapted(variables.OPENAI_API_BASE), variables.OPENAI_API_KEY, { model: name });
    return;
  }
  assert.fail(`an example that no test knows: ${text}`);
}

// What editors send in conversations: streamed, with the usage, and empty lists of what is not used.
async function chatAs(base, key, more) {
  const answer = await fetch(`${base}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({
      messages: [
        { role: "system", content: "You are an assistant in an editor." },
        { role: "user", content: [{ type: "text", text: "What is the opposite of hot?" }] },
      ],
      stream: true, stream_options: { include_usage: true }, temperature: 0, max_tokens: 30, stop: [], ...more,
    }),
  });
  assert.equal(answer.status, 200, answer.status === 200 ? "" : await answer.text());
  const events = parseEvents(await answer.text());
  assert.equal(events.at(-1).data, "[DONE]");
  assert.ok(JSON.parse(events.at(-2).data).usage.completion_tokens > 0);
}

// The little of YAML that such a file needs: maps and lists by indentation, [flow, lists].
function parseYaml(text) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const value = (word) =>
    word.startsWith("[") ? word.slice(1, -1).split(",").map((one) => one.trim()) : word;
  const root = {};
  let list = null;
  for (const line of lines) {
    const found = /^( *)(- )?(\w+):(?: (.+))?$/.exec(line);
    assert.ok(found, `not understood: ${line}`);
    const [, indent, dash, name, word] = found;
    if (indent === "" && word === undefined) list = root[name] = [];
    else if (indent === "") root[name] = value(word);
    else if (dash) list.push({ [name]: value(word) });
    else list.at(-1)[name] = value(word);
  }
  return root;
}

async function runYaml(text) {
  const config = parseYaml(text);
  assert.equal(config.schema, "v1");
  for (const model of config.models) {
    if (model.provider === "openai") {
      await chatAs(adapted(model.apiBase), model.apiKey, { model: model.model });
      continue;
    }
    // Continue's llama.cpp provider asks llama-server's own address and reads "content".
    assert.equal(model.provider, "llama.cpp");
    const answer = await fetch(`${adapted(model.apiBase)}/completion`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "Once upon a", stream: true, n_predict: 8, stop: ["\n\n"], top_k: 40 }),
    });
    assert.equal(answer.status, 200);
    const events = parseEvents(await answer.text()).map((one) => JSON.parse(one.data));
    assert.ok(events.map((one) => one.content ?? "").join("").length > 0);
    assert.equal(events.at(-1).stop, true);
  }
}

async function runJson(text) {
  const json = JSON.parse(text);
  if (json.error) {
    const answer = await server.post("/v1/completions", { prompt: "a", temperature: "hot" });
    assert.equal(answer.status, json.error.code);
    assert.deepEqual(await answer.json(), json);
    return;
  }
  if (json.object === "list") {
    // What the example in front of it answers.
    const answer = await server.post("/v1/embeddings", {
      input: ["The dog ran.", "A dog was running."], dimensions: 4,
    });
    const got = await answer.json();
    assert.equal(got.data.length, json.data.length);
    for (const [i, one] of json.data.entries()) {
      assert.equal(got.data[i].embedding.length, one.embedding.length);
      for (const [k, x] of one.embedding.entries()) assert.ok(Math.abs(got.data[i].embedding[k] - x) < 0.02);
      one.embedding = got.data[i].embedding;
    }
    assert.deepEqual(got, json);
    return;
  }
  const providers = json.language_models?.openai_compatible;
  assert.ok(providers, `an example that no test knows: ${text}`);
  for (const provider of Object.values(providers)) {
    for (const model of provider.available_models) {
      assert.equal((await server.json("/v1/models")).data[0].id, model.name);
      await chatAs(adapted(provider.api_url), "none", {
        model: model.name, max_completion_tokens: 30, max_tokens: undefined, tools: [],
      });
    }
  }
}

async function runPython(text, t) {
  if (/^(from|import) openai/m.test(text) && spawnSync("python3", ["-c", "import openai"]).status !== 0) {
    // Still Python, at least.
    await run("python3", ["-c", `compile(${JSON.stringify(text)}, "example", "exec"); print("ok")`]);
    t.skip("the Python package openai is not installed");
    return;
  }
  assert.match(await run("python3", ["-c", adapted(text)]), /\S/);
}

async function runScript(text, t) {
  if (/from "openai"/.test(text) && !existsSync(join(here, "node_modules/openai"))) {
    t.skip("npm's package openai is not installed; the test clients/install says why");
    return;
  }
  const folder = mkdtempSync(join(here, "example-"));
  try {
    writeFileSync(join(folder, "example.mjs"), adapted(text));
    assert.match(await run(process.execPath, [join(folder, "example.mjs")]), /\w/);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe("docs/server.md", () => {
  const kinds = { sh: runShell, python: runPython, js: runScript, json: runJson, yaml: runYaml };
  const blocks = blocksOf(page);

  test("has examples for curl, Python, JavaScript and editors", () => {
    for (const language of Object.keys(kinds)) assert.ok(blocks.some((one) => one.language === language), language);
  });

  // Blocks without a language show what a command printed.
  for (const { language, text, line } of blocks.filter((one) => one.language !== "")) {
    test(`line ${line}: ${text.split("\n")[0].slice(0, 60)}`, async (t) => {
      assert.ok(kinds[language], `a block of '${language}' that no test knows`);
      await kinds[language](text, t);
    });
  }
});

