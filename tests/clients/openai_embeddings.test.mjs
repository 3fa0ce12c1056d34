// OpenAI's own client: embeddings.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { demo, demoName, Server } from "./server.mjs";

const WIDTH = 256; // of the demo model, see models/README.md
const TEXTS = ["The fox sleeps in the barn.", "A hen.", "x", "The fox sleeps in the barn."];

let server;
let client;

before(async () => {
  server = await Server.start({ model: demo, words: ["-c", "4096", "-np", "4", "--embeddings"] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(() => server?.stop());

const length = (vector) => Math.sqrt(vector.reduce((sum, one) => sum + one * one, 0));
const dot = (a, b) => a.reduce((sum, one, i) => sum + one * b[i], 0);

describe("embeddings", () => {
  test("one text: a vector of length 1", async () => {
    const answer = await client.embeddings.create({ model: demoName, input: TEXTS[0], encoding_format: "float" });
    assert.equal(answer.object, "list");
    assert.equal(answer.model, demoName);
    const [one] = answer.data;
    assert.equal(one.object, "embedding");
    assert.equal(one.index, 0);
    assert.equal(one.embedding.length, WIDTH);
    assert.ok(Math.abs(length(one.embedding) - 1) < 1e-5);
    const { tokens } = await server.json("/tokenize", { content: TEXTS[0], add_special: true });
    assert.equal(answer.usage.prompt_tokens, tokens.length);
    assert.equal(answer.usage.total_tokens, tokens.length);
  });

  test("base64 holds the same numbers", async () => {
    const float = await client.embeddings.create({ model: demoName, input: TEXTS[0], encoding_format: "float" });
    // The client asks for base64 by itself when nothing is said, and decodes it.
    const decoded = await client.embeddings.create({ model: demoName, input: TEXTS[0] });
    assert.deepEqual([...decoded.data[0].embedding], float.data[0].embedding.map(Math.fround));
    const raw = await client.embeddings.create({ model: demoName, input: TEXTS[0], encoding_format: "base64" });
    const bytes = Buffer.from(raw.data[0].embedding, "base64");
    assert.equal(bytes.length, 4 * WIDTH);
    for (let i = 0; i < WIDTH; ++i) assert.equal(bytes.readFloatLE(4 * i), Math.fround(float.data[0].embedding[i]));
  });

  test("many texts of unlike lengths: each as alone", async () => {
    const many = await client.embeddings.create({ model: demoName, input: TEXTS, encoding_format: "float" });
    assert.deepEqual(many.data.map((one) => one.index), [0, 1, 2, 3]);
    for (const [i, input] of TEXTS.entries()) {
      const alone = await client.embeddings.create({ model: demoName, input, encoding_format: "float" });
      assert.deepEqual(many.data[i].embedding, alone.data[0].embedding);
    }
    const [fox, hen, , again] = many.data.map((one) => one.embedding);
    assert.ok(Math.abs(dot(fox, again) - 1) < 1e-5);
    assert.ok(dot(fox, hen) < 1 - 1e-4);
  });

  test("token ids", async () => {
    const { tokens } = await server.json("/tokenize", { content: TEXTS[0], add_special: true });
    const text = await client.embeddings.create({ model: demoName, input: TEXTS[0], encoding_format: "float" });
    for (const input of [tokens, [tokens]]) {
      const ids = await client.embeddings.create({ model: demoName, input, encoding_format: "float" });
      assert.deepEqual(ids.data[0].embedding, text.data[0].embedding);
    }
  });

  test("mistakes are 400", async () => {
    const wrong = [
      { input: {} }, { input: [] }, { input: 5 }, { input: [-1] }, { input: TEXTS[0], encoding_format: "hex" },
      { input: "word ".repeat(8000) },
    ];
    for (const fields of wrong) {
      await assert.rejects(
        client.embeddings.create({ model: demoName, encoding_format: "float", ...fields }),
        (error) => {
          assert.ok(error instanceof OpenAI.BadRequestError, `${JSON.stringify(fields).slice(0, 60)}: ${error}`);
          return true;
        },
      );
    }
  });
});
