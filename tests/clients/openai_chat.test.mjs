// OpenAI's own client: models, conversations, completions, forms of answers, errors, leaving.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { countChatTokens, demoName, parseEvents, Server } from "./server.mjs";

// Questions that the demo model was trained to answer, with the right answers.
const OPPOSITE = [{ role: "user", content: "What is the opposite of hot?" }];
const SUM = [{ role: "user", content: "What is 3 + 4?" }];
const STORY = [{ role: "user", content: "Tell me a story about a fox." }];
const GREEDY = { model: demoName, temperature: 0 };
// Longer than any test waits, so that only leaving ends it.
const ENDLESS = { model: demoName, prompt: "Once upon a time", max_tokens: 30000, ignore_eos: true };

let server;
let client;

before(async () => {
  server = await Server.start({ key: "sk-test", words: ["-c", "32768", "-np", "4"] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "sk-test", maxRetries: 0 });
});
after(() => server?.stop());

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

function textOf(chunks, index = 0) {
  return chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? "")
    .join("");
}

describe("models", () => {
  test("the list holds the one that is loaded", async () => {
    const models = await client.models.list();
    assert.equal(models.object, "list");
    assert.deepEqual(models.data.map((one) => one.id), [demoName]);
    assert.equal(models.data[0].object, "model");
  });

  test("one is told by its name, others are not found", async () => {
    const model = await client.models.retrieve(demoName);
    assert.equal(model.id, demoName);
    assert.equal(model.object, "model");
    await assert.rejects(client.models.retrieve("nobody"), OpenAI.NotFoundError);
  });
});

describe("chat", () => {
  test("an answer", async () => {
    const answer = await client.chat.completions.create({ ...GREEDY, messages: OPPOSITE });
    assert.equal(answer.object, "chat.completion");
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.model, demoName);
    assert.ok(Math.abs(answer.created - Date.now() / 1000) < 60);
    assert.equal(answer.choices.length, 1);
    const [choice] = answer.choices;
    assert.equal(choice.index, 0);
    assert.equal(choice.message.role, "assistant");
    assert.equal(choice.message.content, "Cold.");
    assert.equal(choice.finish_reason, "stop");
    assert.equal(choice.message.tool_calls, undefined);
    assert.equal(answer.usage.prompt_tokens, await countChatTokens(server, OPPOSITE));
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.match(answer._request_id, /\S/);
  });

  test("a stream has one role, one end and the same text", async () => {
    const chunks = await collect(await client.chat.completions.create({ ...GREEDY, messages: OPPOSITE, stream: true }));
    assert.equal(textOf(chunks), "Cold.");
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    for (const chunk of chunks) {
      assert.equal(chunk.object, "chat.completion.chunk");
      assert.equal(chunk.usage ?? null, null);
      assert.equal(chunk.choices.length, 1);
    }
    const choices = chunks.map((chunk) => chunk.choices[0]);
    assert.deepEqual(choices.map((one) => one.delta.role).filter((role) => role !== undefined), ["assistant"]);
    // null until the end, and then once.
    assert.ok(choices.slice(0, -1).every((one) => one.finish_reason === null));
    assert.equal(choices.at(-1).finish_reason, "stop");
  });

  test("include_usage adds one chunk without choices, with the figures of the whole", async () => {
    const whole = await client.chat.completions.create({ ...GREEDY, messages: SUM });
    const chunks = await collect(
      await client.chat.completions.create({
        ...GREEDY, messages: SUM, stream: true, stream_options: { include_usage: true },
      }),
    );
    const last = chunks.at(-1);
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.prompt_tokens, whole.usage.prompt_tokens);
    assert.equal(last.usage.completion_tokens, whole.usage.completion_tokens);
    assert.ok(chunks.slice(0, -1).every((chunk) => (chunk.usage ?? null) === null));
  });

  test("text parts, nulls and a system message count", async () => {
    const answer = await client.chat.completions.create({
      ...GREEDY,
      messages: [
        { role: "system", content: "You answer questions." },
        { role: "user", content: [{ type: "text", text: "What is 3" }, { type: "text", text: " + 4?" }] },
      ],
      stop: null, logit_bias: null, top_p: null, n: null, user: "somebody", store: false, metadata: null,
    });
    assert.match(answer.choices[0].message.content, /7/);
  });

  test("a developer's message is a system message", async () => {
    const messages = (role) => [{ role, content: "You tell stories." }, ...SUM];
    const one = await client.chat.completions.create({ ...GREEDY, messages: messages("system") });
    const other = await client.chat.completions.create({ ...GREEDY, messages: messages("developer") });
    assert.equal(other.choices[0].message.content, one.choices[0].message.content);
    assert.equal(other.usage.prompt_tokens, one.usage.prompt_tokens);
  });

  test("max_tokens and max_completion_tokens end an answer", async () => {
    for (const name of ["max_tokens", "max_completion_tokens"]) {
      const answer = await client.chat.completions.create({ ...GREEDY, messages: STORY, [name]: 5 });
      assert.equal(answer.usage.completion_tokens, 5);
      assert.equal(answer.choices[0].finish_reason, "length");
    }
  });

  test("nothing of a stop string, nor what follows, is told", async () => {
    const whole = await client.chat.completions.create({ ...GREEDY, messages: STORY, max_tokens: 60 });
    const text = whole.choices[0].message.content;
    // Begins and ends within words, so that it lies across several tokens.
    const stop = text.slice(41, 54);
    const want = text.slice(0, text.indexOf(stop));
    for (const given of [stop, ["@@@", stop]]) {
      const request = { ...GREEDY, messages: STORY, max_tokens: 60, stop: given };
      const answer = await client.chat.completions.create(request);
      assert.equal(answer.choices[0].message.content, want);
      assert.equal(answer.choices[0].finish_reason, "stop");
      const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
      assert.equal(textOf(chunks), want);
    }
  });

  test("a seed gives the same answer again, another one another", async () => {
    const request = { model: demoName, messages: STORY, temperature: 1, max_tokens: 40 };
    const text = async (seed) =>
      (await client.chat.completions.create({ ...request, seed })).choices[0].message.content;
    const [one, again, other] = await Promise.all([text(7), text(7), text(8)]);
    assert.equal(again, one);
    assert.notEqual(other, one);
  });

  test("n answers, each with its index; greedy ones are alike", async () => {
    const answer = await client.chat.completions.create({ ...GREEDY, messages: OPPOSITE, n: 3 });
    assert.deepEqual(answer.choices.map((one) => one.index), [0, 1, 2]);
    assert.deepEqual(answer.choices.map((one) => one.message.content), ["Cold.", "Cold.", "Cold."]);
    const chunks = await collect(
      await client.chat.completions.create({ ...GREEDY, messages: OPPOSITE, n: 3, stream: true }),
    );
    for (const index of [0, 1, 2]) {
      assert.equal(textOf(chunks, index), "Cold.");
      const ends = chunks.flatMap((chunk) => chunk.choices).filter((one) => one.index === index && one.finish_reason);
      assert.equal(ends.length, 1);
    }
  });

  test("log-probabilities: the likeliest first, their sum at most 1, bytes that make up the text", async () => {
    const request = { ...GREEDY, messages: OPPOSITE, logprobs: true, top_logprobs: 20 };
    const answer = await client.chat.completions.create(request);
    const { content } = answer.choices[0].logprobs;
    for (const token of content) {
      assert.equal(token.top_logprobs.length, 20);
      const values = token.top_logprobs.map((one) => one.logprob);
      assert.deepEqual(values, [...values].sort((a, b) => b - a));
      assert.ok(values[0] <= 0);
      assert.ok(values.map(Math.exp).reduce((a, b) => a + b) <= 1 + 1e-4);
      // Greedy: the token that was drawn is the likeliest.
      assert.equal(token.token, token.top_logprobs[0].token);
      assert.equal(token.logprob, values[0]);
      assert.deepEqual(Buffer.from(token.bytes), Buffer.from(token.token));
    }
    assert.ok(Buffer.from(content.flatMap((token) => token.bytes)).toString().startsWith("Cold."));
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
    const streamed = chunks.flatMap((chunk) => chunk.choices).flatMap((one) => one.logprobs?.content ?? []);
    assert.deepEqual(streamed.map((one) => one.logprob), content.map((one) => one.logprob));
    // Who does not ask gets none.
    const without = await client.chat.completions.create({ ...GREEDY, messages: OPPOSITE });
    assert.equal(without.choices[0].logprobs, null);
  });

  test("logit_bias bans and forces", async () => {
    const { tokens } = await server.json("/tokenize", { content: "Cold" });
    const banned = await client.chat.completions.create({
      ...GREEDY, messages: OPPOSITE, max_tokens: 10, logit_bias: { [tokens[0]]: -100 },
    });
    assert.ok(!banned.choices[0].message.content.startsWith("Cold"));
    const [dot] = (await server.json("/tokenize", { content: "." })).tokens;
    const forced = await client.chat.completions.create({
      ...GREEDY, messages: OPPOSITE, max_tokens: 4, logit_bias: { [dot]: 100 },
    });
    assert.equal(forced.choices[0].message.content, "....");
  });

  test("characters of several tokens arrive whole", async () => {
    // One token per byte: a grammar that leaves nothing but these characters.
    const text = "aé漢🙂z";
    const stream = await client.chat.completions.create({
      ...GREEDY, messages: STORY, max_tokens: 40, stream: true, grammar: `root ::= "${text}"`,
    });
    const chunks = await collect(stream);
    assert.equal(textOf(chunks), text);
    for (const chunk of chunks) assert.ok(!JSON.stringify(chunk).includes("\ufffd"));
  });
});

describe("bytes that are no characters", () => {
  test("are U+FFFD, alike streamed and not", async () => {
    // Only the first of the bytes of a character, over and over.
    const [token] = (await server.json("/tokenize", { content: "\u6f22" })).tokens;
    const request = { ...GREEDY, messages: STORY, max_tokens: 4, logit_bias: { [token]: 100 } };
    const answer = await client.chat.completions.create(request);
    const { content } = answer.choices[0].message;
    assert.match(content, /^\ufffd+$/);
    const raw = await server.post("/v1/chat/completions", { ...request, stream: true });
    const bytes = await raw.arrayBuffer();
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const events = parseEvents(text).filter((one) => one.data !== "[DONE]");
    assert.equal(textOf(events.map((one) => JSON.parse(one.data))), content);
  });
});

describe("forms of answers", () => {
  const schema = {
    type: "object",
    properties: {
      animal: { enum: ["fox", "hen"] },
      legs: { type: "integer", minimum: 0, maximum: 9 },
      tame: { type: "boolean" },
    },
    required: ["animal", "legs", "tame"],
    additionalProperties: false,
  };
  const format = { type: "json_schema", json_schema: { name: "animal", strict: true, schema } };

  function check(text) {
    const value = JSON.parse(text);
    assert.deepEqual(Object.keys(value).sort(), ["animal", "legs", "tame"]);
    assert.ok(["fox", "hen"].includes(value.animal));
    assert.ok(Number.isInteger(value.legs) && value.legs >= 0 && value.legs <= 9);
    assert.equal(typeof value.tame, "boolean");
    return value;
  }

  test("a JSON schema, streamed or not", async () => {
    const request = { model: demoName, messages: STORY, temperature: 1, seed: 3, response_format: format };
    const answer = await client.chat.completions.create(request);
    assert.equal(answer.choices[0].finish_reason, "stop");
    const value = check(answer.choices[0].message.content);
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
    assert.deepEqual(check(textOf(chunks)), value);
  });

  test("the client parses it", async () => {
    const answer = await client.chat.completions.parse({ ...GREEDY, messages: STORY, response_format: format });
    check(answer.choices[0].message.content);
  });

  test("any JSON object", async () => {
    const answer = await client.chat.completions.create({
      model: demoName, messages: STORY, temperature: 1, seed: 5, max_tokens: 200,
      response_format: { type: "json_object" },
    });
    const { content } = answer.choices[0].message;
    if (answer.choices[0].finish_reason === "stop") {
      assert.equal(typeof JSON.parse(content), "object");
    } else {
      assert.match(content, /^\s*\{/);
    }
  });

  test("a schema that cannot be kept is refused, not ignored", async () => {
    const broken = { ...format, json_schema: { name: "x", schema: { $ref: "https://example.com/other.json" } } };
    await assert.rejects(
      client.chat.completions.create({ ...GREEDY, messages: STORY, response_format: broken }),
      (error) => error instanceof OpenAI.BadRequestError && /\$ref/.test(error.message),
    );
  });
});

describe("helpers of the client", () => {
  test("chat.completions.stream puts the answer together", async () => {
    const stream = client.chat.completions.stream({
      ...GREEDY, messages: OPPOSITE, stream_options: { include_usage: true },
    });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    const answer = await stream.finalChatCompletion();
    assert.equal(answer.choices[0].message.content, "Cold.");
    assert.equal(text, "Cold.");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  });

  test("streams of log-probabilities are put together", async () => {
    const stream = client.chat.completions.stream({ ...GREEDY, messages: OPPOSITE, logprobs: true, top_logprobs: 2 });
    const answer = await stream.finalChatCompletion();
    assert.ok(answer.choices[0].logprobs.content.length > 1);
  });
});

describe("completions", () => {
  const request = { ...GREEDY, prompt: "Once upon a time", max_tokens: 12 };

  test("at once and streamed", async () => {
    const answer = await client.completions.create(request);
    assert.equal(answer.object, "text_completion");
    assert.equal(answer.usage.completion_tokens, 12);
    assert.equal(answer.choices[0].finish_reason, "length");
    const chunks = await collect(
      await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }),
    );
    const told = chunks.flatMap((chunk) => chunk.choices);
    assert.equal(told.map((one) => one.text).join(""), answer.choices[0].text);
    assert.deepEqual(told.map((one) => one.finish_reason).filter((reason) => reason !== null), ["length"]);
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.completion_tokens, 12);
  });

  test("token ids and several prompts", async () => {
    const { tokens } = await server.json("/tokenize", { content: "Once upon a time", add_special: true });
    const one = await client.completions.create(request);
    const two = await client.completions.create({ ...request, prompt: tokens });
    assert.equal(two.choices[0].text, one.choices[0].text);
    const many = await client.completions.create({ ...request, prompt: ["Once upon a time", "The fox"] });
    assert.deepEqual(many.choices.map((choice) => choice.index), [0, 1]);
    assert.equal(many.choices[0].text, one.choices[0].text);
  });

  test("log-probabilities in the older shape", async () => {
    const answer = await client.completions.create({ ...request, max_tokens: 4, logprobs: 3 });
    const { logprobs, text } = answer.choices[0];
    assert.equal(logprobs.tokens.join(""), text);
    assert.equal(logprobs.token_logprobs.length, 4);
    assert.ok(logprobs.token_logprobs.every((value) => value <= 0));
    assert.equal(logprobs.top_logprobs.length, 4);
    assert.ok(logprobs.top_logprobs.every((one) => Object.keys(one).length >= 3));
    assert.equal(logprobs.text_offset.length, 4);
  });
});

describe("errors", () => {
  const bad = (fields) => client.chat.completions.create({ ...GREEDY, messages: OPPOSITE, ...fields });

  test("a wrong type is 400 with the field named, streamed or not", async () => {
    const wrong = {
      temperature: "hot", max_tokens: "many", top_p: [], stop: 5, seed: "x", n: 1.5, stream_options: 3,
      messages: "hello", logit_bias: "none", response_format: "json", presence_penalty: {}, logprobs: "yes",
    };
    for (const [field, value] of Object.entries(wrong)) {
      for (const stream of [false, true]) {
        await assert.rejects(bad({ stream, [field]: value }), (error) => {
          assert.ok(error instanceof OpenAI.BadRequestError, `${field}: ${error}`);
          assert.equal(error.status, 400);
          assert.equal(error.type, "invalid_request_error");
          assert.equal(error.param, field);
          assert.match(error.message, new RegExp(field));
          return true;
        });
      }
    }
  });

  test("values out of range are 400", async () => {
    const wrong = { temperature: -1, top_p: 2, n: 0, max_tokens: -7, top_k: 1e12, logit_bias: { 99999999: 1 } };
    for (const [field, value] of Object.entries(wrong)) {
      await assert.rejects(bad({ [field]: value }), OpenAI.BadRequestError, field);
    }
    await assert.rejects(bad({ messages: [] }), OpenAI.BadRequestError);
    await assert.rejects(bad({ n: 1000000 }), OpenAI.BadRequestError);
  });

  test("a prompt that is too long says both counts, also when it is to be streamed", async () => {
    const prompt = "word ".repeat(40000);
    for (const stream of [false, true]) {
      await assert.rejects(client.completions.create({ ...GREEDY, prompt, stream }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.equal(error.type, "exceed_context_size_error");
        assert.match(error.message, /\d{5}.*32768/);
        return true;
      });
    }
  });

  test("without the right key: 401", async () => {
    const stranger = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "sk-wrong", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), (error) => {
      assert.ok(error instanceof OpenAI.AuthenticationError);
      assert.equal(error.type, "authentication_error");
      return true;
    });
    // Health is open.
    assert.deepEqual(await (await fetch(`${server.url}/health`)).json(), { status: "ok" });
  });

  test("what is not there: 404", async () => {
    await assert.rejects(client.images.generate({ prompt: "a fox" }), OpenAI.NotFoundError);
    await assert.rejects(client.files.list(), OpenAI.NotFoundError);
  });

  test("a full queue: 429 with the time to wait; the client's own retries get through", async () => {
    const small = await Server.start({ words: ["-c", "32768", "-np", "1", "--max-queue", "1"] });
    try {
      const hasty = new OpenAI({ baseURL: `${small.url}/v1`, apiKey: "none", maxRetries: 0 });
      const leave = new AbortController();
      const running = [];
      for (const place of ["processing", "deferred"]) {
        running.push(hasty.completions.create(ENDLESS, { signal: leave.signal }).catch(() => {}));
        await small.untilMetric(`strata_requests_${place}`, 1);
      }
      await assert.rejects(hasty.completions.create({ ...ENDLESS, max_tokens: 1 }), (error) => {
        assert.ok(error instanceof OpenAI.RateLimitError);
        assert.ok(Number(error.headers.get("retry-after")) >= 1);
        return true;
      });
      setTimeout(() => leave.abort(), 300);
      const patient = new OpenAI({ baseURL: `${small.url}/v1`, apiKey: "none", maxRetries: 5 });
      const answer = await patient.completions.create({ ...ENDLESS, max_tokens: 1 });
      assert.equal(answer.usage.completion_tokens, 1);
      await Promise.all(running);
    } finally {
      await small.stop();
    }
  });
});

describe("leaving", () => {
  test("a stream that is left frees its place", () =>
    server.leaves(ENDLESS.max_tokens, async () => {
      let seen = 0;
      for await (const chunk of await client.completions.create({ ...ENDLESS, stream: true })) {
        seen += chunk.choices.length;
        if (seen >= 3) break;
      }
    }));

  test("a stream that is aborted before its first token, too", () =>
    server.leaves(ENDLESS.max_tokens, async () => {
      const leave = new AbortController();
      const prompt = Array.from({ length: 20000 }, (_, i) => 300 + (i % 600));
      const asked = client.completions.create(
        { ...ENDLESS, max_tokens: 10000, prompt, stream: true },
        { signal: leave.signal },
      );
      asked.catch(() => {});
      await server.until(1);
      leave.abort();
    }));

  test("an answer that is not streamed ends when its client leaves", () =>
    server.leaves(ENDLESS.max_tokens, async () => {
      const leave = new AbortController();
      const asked = client.completions.create(ENDLESS, { signal: leave.signal });
      const ended = assert.rejects(asked, OpenAI.APIUserAbortError);
      await server.until(1);
      leave.abort();
      await ended;
    }));

  test("who leaves does not end what others ask", async () => {
    const request = { ...GREEDY, messages: STORY };
    const want = (await client.chat.completions.create(request)).choices[0].message.content;
    await server.leaves(4 * ENDLESS.max_tokens, async () => {
      const others = Array.from({ length: 6 }, () => client.chat.completions.create(request));
      for (let i = 0; i < 4; ++i) {
        const leave = new AbortController();
        client.completions.create({ ...ENDLESS, max_tokens: 5000, stream: true }, { signal: leave.signal }).catch(() => {});
        setTimeout(() => leave.abort(), 20 * i);
      }
      for (const other of await Promise.all(others)) assert.equal(other.choices[0].message.content, want);
    });
  });
});
