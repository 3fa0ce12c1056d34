// Anthropic's own client: messages at once and streamed, tools, counting, errors, leaving.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { countChatTokens, demoName, parseEvents, Server } from "./server.mjs";

const OPPOSITE = [{ role: "user", content: "What is the opposite of hot?" }];
const STORY = [{ role: "user", content: "Tell me a story about a fox." }];
const GREEDY = { model: demoName, temperature: 0, max_tokens: 60 };
const WEATHER = {
  name: "weather",
  description: "The weather in a town.",
  input_schema: {
    type: "object",
    properties: { town: { enum: ["Rome", "Oslo"] }, days: { type: "integer", minimum: 1, maximum: 5 } },
    required: ["town", "days"],
  },
};

let server;
let client;

before(async () => {
  server = await Server.start({ key: "sk-ant-test", words: ["-c", "32768", "-np", "4"] });
  client = new Anthropic({ baseURL: server.url, apiKey: "sk-ant-test", maxRetries: 0 });
});
after(() => server?.stop());

describe("messages", () => {
  test("an answer", async () => {
    const answer = await client.messages.create({ ...GREEDY, messages: OPPOSITE });
    assert.equal(answer.type, "message");
    assert.equal(answer.role, "assistant");
    assert.match(answer.id, /^msg_/);
    assert.deepEqual(answer.content.map((block) => [block.type, block.text]), [["text", "Cold."]]);
    assert.equal(answer.stop_reason, "end_turn");
    assert.equal(answer.stop_sequence, null);
    const { usage } = answer;
    const prompt = usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
    assert.equal(prompt, await countChatTokens(server, OPPOSITE));
    assert.ok(usage.output_tokens > 0);
  });

  test("a stream by hand: the order of events, no [DONE]", async () => {
    const answer = await server.post("/v1/messages", { ...GREEDY, messages: OPPOSITE, stream: true });
    assert.match(answer.headers.get("content-type"), /^text\/event-stream/);
    const events = parseEvents(await answer.text());
    for (const { event, data } of events) assert.equal(JSON.parse(data).type, event);
    const names = events.map((one) => one.event).filter((name) => name !== "ping");
    assert.deepEqual(names.filter((name, i) => name !== names[i - 1]), [
      "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
      "message_stop",
    ]);
    const { message } = JSON.parse(events[0].data);
    const prompt = message.usage.input_tokens + (message.usage.cache_read_input_tokens ?? 0);
    assert.equal(prompt, await countChatTokens(server, OPPOSITE));
    assert.equal(message.stop_reason, null);
    assert.deepEqual(message.content, []);
  });

  test("the client's helper puts a stream together", async () => {
    const whole = await client.messages.create({ ...GREEDY, messages: STORY });
    const stream = client.messages.stream({ ...GREEDY, messages: STORY });
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const message = await stream.finalMessage();
    assert.equal(text, whole.content[0].text);
    assert.equal(message.content[0].text, text);
    assert.equal(message.stop_reason, whole.stop_reason);
    assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
    assert.equal(await stream.finalText(), text);
  });

  test("a system prompt as text and as blocks is the system message", async () => {
    const system = "You answer questions.";
    const count = await countChatTokens(server, [{ role: "system", content: system }, ...OPPOSITE]);
    for (const given of [system, [{ type: "text", text: system, cache_control: { type: "ephemeral" } }]]) {
      const { usage } = await client.messages.create({ ...GREEDY, messages: OPPOSITE, system: given });
      assert.equal(usage.input_tokens + (usage.cache_read_input_tokens ?? 0), count);
    }
  });

  test("turns of both sides, contents as blocks", async () => {
    const answer = await client.messages.create({
      ...GREEDY,
      messages: [
        ...OPPOSITE,
        { role: "assistant", content: [{ type: "text", text: "Cold." }] },
        { role: "user", content: [{ type: "text", text: "What is 3 + 4?" }] },
      ],
    });
    assert.match(answer.content[0].text, /7/);
  });

  test("stop_sequences end an answer and are told", async () => {
    const whole = (await client.messages.create({ ...GREEDY, messages: STORY })).content[0].text;
    const stop = whole.slice(41, 54);
    const answer = await client.messages.create({ ...GREEDY, messages: STORY, stop_sequences: ["@@@", stop] });
    assert.equal(answer.stop_reason, "stop_sequence");
    assert.equal(answer.stop_sequence, stop);
    assert.equal(answer.content[0].text, whole.slice(0, whole.indexOf(stop)));
    const streamed = await client.messages.stream({ ...GREEDY, messages: STORY, stop_sequences: [stop] }).finalMessage();
    assert.equal(streamed.content[0].text, answer.content[0].text);
    assert.equal(streamed.stop_sequence, stop);
  });

  test("max_tokens ends an answer", async () => {
    const answer = await client.messages.create({ ...GREEDY, messages: STORY, max_tokens: 4 });
    assert.equal(answer.stop_reason, "max_tokens");
    assert.equal(answer.usage.output_tokens, 4);
  });

  test("what a prompt shares with an earlier one is counted as read from the cache", async () => {
    const system = "You answer questions about towns and foxes. ".repeat(40);
    const ask = async () => (await client.messages.create({ ...GREEDY, messages: OPPOSITE, system })).usage;
    const first = await ask();
    const second = await ask();
    const sum = (usage) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
    assert.equal(sum(second), sum(first));
    assert.ok(second.cache_read_input_tokens > 0.9 * sum(first));
  });
});

describe("counting", () => {
  test("countTokens says what a message then costs", async () => {
    const system = "You answer questions.";
    const { input_tokens } = await client.messages.countTokens({ model: demoName, messages: OPPOSITE, system });
    assert.equal(input_tokens, await countChatTokens(server, [{ role: "system", content: system }, ...OPPOSITE]));
  });

  test("tools count", async () => {
    const count = async (more) =>
      (await client.messages.countTokens({ model: demoName, messages: OPPOSITE, ...more })).input_tokens;
    assert.ok((await count({ tools: [WEATHER] })) > (await count({})));
  });
});

describe("tools", () => {
  const request = { ...GREEDY, max_tokens: 200, messages: STORY, tools: [WEATHER] };

  function check(message) {
    const blocks = message.content.filter((block) => block.type === "tool_use");
    assert.equal(message.stop_reason, "tool_use");
    assert.ok(blocks.length >= 1);
    for (const block of blocks) {
      assert.equal(block.name, "weather");
      assert.match(block.id, /\S/);
      assert.ok(["Rome", "Oslo"].includes(block.input.town));
      assert.ok(Number.isInteger(block.input.days) && block.input.days >= 1 && block.input.days <= 5);
    }
    return blocks;
  }

  test("a named tool is called with arguments that its schema allows", async () => {
    const tool_choice = { type: "tool", name: "weather", disable_parallel_tool_use: true };
    check(await client.messages.create({ ...request, tool_choice }));
    const stream = client.messages.stream({ ...request, tool_choice });
    let json = "";
    stream.on("inputJson", (delta) => (json += delta));
    const [block] = check(await stream.finalMessage());
    assert.deepEqual(JSON.parse(json), block.input);
  });

  test("any tool", async () => {
    check(await client.messages.create({ ...request, tool_choice: { type: "any" } }));
  });

  test("auto may answer with text, none must", async () => {
    const auto = await client.messages.create({ ...request, tool_choice: { type: "auto" } });
    assert.ok(["end_turn", "max_tokens", "tool_use"].includes(auto.stop_reason));
    const none = await client.messages.create({ ...request, tool_choice: { type: "none" } });
    assert.deepEqual(none.content.map((block) => block.type), ["text"]);
  });

  test("the way there and back", async () => {
    const first = await client.messages.create({ ...request, tool_choice: { type: "tool", name: "weather" } });
    const [call] = check(first);
    const answer = await client.messages.create({
      ...request,
      messages: [
        ...STORY,
        { role: "assistant", content: first.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "Sunny, 20 degrees." }] },
      ],
      tool_choice: { type: "none" },
    });
    assert.ok(["end_turn", "max_tokens"].includes(answer.stop_reason));
    assert.equal(answer.content[0].type, "text");
  });
});

describe("errors", () => {
  test("wrong fields are 400 in Anthropic's form", async () => {
    const wrong = [
      { max_tokens: "many" }, { messages: "hello" }, { messages: [] }, { temperature: {} }, { stop_sequences: 5 },
      { max_tokens: undefined }, { max_tokens: 0 }, { system: 5 },
    ];
    for (const fields of wrong) {
      await assert.rejects(client.messages.create({ ...GREEDY, messages: OPPOSITE, ...fields }), (error) => {
        assert.ok(error instanceof Anthropic.BadRequestError, `${JSON.stringify(fields)}: ${error}`);
        assert.equal(error.error.type, "error");
        assert.equal(error.error.error.type, "invalid_request_error");
        assert.match(error.error.error.message, new RegExp(Object.keys(fields)[0]));
        return true;
      });
    }
  });

  test("a prompt that is too long is 400, also when it is to be streamed", async () => {
    const messages = [{ role: "user", content: "word ".repeat(40000) }];
    await assert.rejects(client.messages.create({ ...GREEDY, messages }), Anthropic.BadRequestError);
    await assert.rejects(client.messages.create({ ...GREEDY, messages, stream: true }), Anthropic.BadRequestError);
  });

  test("without the right key: 401", async () => {
    const stranger = new Anthropic({ baseURL: server.url, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.messages.create({ ...GREEDY, messages: OPPOSITE }), (error) => {
      assert.ok(error instanceof Anthropic.AuthenticationError);
      assert.equal(error.error.error.type, "authentication_error");
      return true;
    });
    // The key may come as a bearer token as well.
    const bearer = new Anthropic({ baseURL: server.url, apiKey: null, authToken: "sk-ant-test", maxRetries: 0 });
    assert.equal((await bearer.messages.create({ ...GREEDY, messages: OPPOSITE })).content[0].text, "Cold.");
  });

  test("what is not there: 404 in Anthropic's form", async () => {
    await assert.rejects(client.messages.batches.list(), (error) => {
      assert.ok(error instanceof Anthropic.NotFoundError);
      assert.equal(error.error.error.type, "not_found_error");
      return true;
    });
  });

  test("a picture is refused, not ignored", async () => {
    const source = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
    const messages = [{ role: "user", content: [{ type: "image", source }] }];
    await assert.rejects(client.messages.create({ ...GREEDY, messages }), Anthropic.BadRequestError);
  });
});

describe("leaving", () => {
  const request = { model: demoName, max_tokens: 30000, messages: STORY, ignore_eos: true };

  test("a stream", () =>
    server.leaves(request.max_tokens, async () => {
      const stream = client.messages.stream(request);
      const ended = assert.rejects(stream.done(), Anthropic.APIUserAbortError);
      await new Promise((done) => stream.once("text", done));
      stream.abort();
      await ended;
    }));

  test("what is not streamed", () =>
    server.leaves(request.max_tokens, async () => {
      const leave = new AbortController();
      const asked = client.messages.create(request, { signal: leave.signal, timeout: 600000 });
      const ended = assert.rejects(asked, Anthropic.APIUserAbortError);
      await server.until(1);
      leave.abort();
      await ended;
    }));
});
