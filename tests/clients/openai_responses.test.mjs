// OpenAI's own client: responses, at once and streamed, with tools and forms.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { countChatTokens, demoName, parseEvents, Server } from "./server.mjs";

const OPPOSITE = "What is the opposite of hot?";
const STORY = "Tell me a story about a fox.";
const GREEDY = { model: demoName, temperature: 0, max_output_tokens: 100 };
const WEATHER = {
  type: "function",
  name: "weather",
  description: "The weather in a town.",
  strict: true,
  parameters: {
    type: "object",
    properties: { town: { enum: ["Rome", "Oslo"] }, days: { type: "integer", minimum: 1, maximum: 5 } },
    required: ["town", "days"],
    additionalProperties: false,
  },
};

let server;
let client;

before(async () => {
  server = await Server.start({ words: ["-c", "16384", "-np", "4"] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(() => server?.stop());

describe("responses", () => {
  test("a text", async () => {
    const answer = await client.responses.create({ ...GREEDY, input: OPPOSITE });
    assert.equal(answer.object, "response");
    assert.match(answer.id, /^resp_/);
    assert.equal(answer.status, "completed");
    assert.equal(answer.error, null);
    assert.equal(answer.output_text, "Cold.");
    const message = answer.output.find((item) => item.type === "message");
    assert.equal(message.role, "assistant");
    assert.equal(message.status, "completed");
    assert.equal(message.content[0].type, "output_text");
    assert.deepEqual(message.content[0].annotations, []);
    assert.equal(answer.usage.input_tokens, await countChatTokens(server, [{ role: "user", content: OPPOSITE }]));
    assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
    assert.ok(answer.usage.input_tokens_details.cached_tokens >= 0);
  });

  test("instructions and a list of messages", async () => {
    const messages = [
      { role: "system", content: "You answer questions." },
      { role: "user", content: OPPOSITE },
      { role: "assistant", content: "Cold." },
      { role: "user", content: "What is 3 + 4?" },
    ];
    const answer = await client.responses.create({
      ...GREEDY,
      instructions: messages[0].content,
      input: [
        { role: "user", content: [{ type: "input_text", text: OPPOSITE }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Cold.", annotations: [] }] },
        { role: "user", content: "What is 3 + 4?" },
      ],
    });
    assert.match(answer.output_text, /7/);
    assert.equal(answer.usage.input_tokens, await countChatTokens(server, messages));
  });

  test("max_output_tokens leaves it incomplete", async () => {
    const answer = await client.responses.create({ ...GREEDY, input: STORY, max_output_tokens: 5 });
    assert.equal(answer.status, "incomplete");
    assert.equal(answer.incomplete_details.reason, "max_output_tokens");
    assert.equal(answer.usage.output_tokens, 5);
  });

  test("a stream: named events in order, the same ids and text as at the end", async () => {
    const events = [];
    for await (const event of await client.responses.create({ ...GREEDY, input: STORY, stream: true })) events.push(event);
    assert.equal(events[0].type, "response.created");
    // The story may be longer than it was to be.
    const { response } = events.at(-1);
    assert.equal(events.at(-1).type, `response.${response.status}`);
    assert.ok(["completed", "incomplete"].includes(response.status));
    const numbers = events.map((event) => event.sequence_number);
    assert.deepEqual(numbers, numbers.map((_, i) => numbers[0] + i));
    assert.equal(response.id, events[0].response.id);
    const text = events.filter((one) => one.type === "response.output_text.delta").map((one) => one.delta).join("");
    const done = events.find((one) => one.type === "response.output_text.done");
    assert.equal(done.text, text);
    const added = events.find((one) => one.type === "response.output_item.added");
    const message = response.output.find((item) => item.type === "message");
    assert.equal(added.item.id, message.id);
    assert.equal(message.content[0].text, text);
    const whole = await client.responses.create({ ...GREEDY, input: STORY });
    assert.equal(text, whole.output_text);
  });

  test("on the wire: event lines, no [DONE]", async () => {
    const answer = await server.post("/v1/responses", { ...GREEDY, input: OPPOSITE, stream: true });
    const events = parseEvents(await answer.text());
    for (const { event, data } of events) assert.equal(JSON.parse(data).type, event);
  });

  test("the client's helper puts a stream together", async () => {
    const stream = client.responses.stream({ ...GREEDY, input: OPPOSITE });
    const answer = await stream.finalResponse();
    assert.equal(answer.output_text, "Cold.");
  });

  test("a JSON schema", async () => {
    const schema = { type: "object", properties: { legs: { enum: [2, 4] } }, required: ["legs"], additionalProperties: false };
    const answer = await client.responses.create({
      ...GREEDY, input: STORY, text: { format: { type: "json_schema", name: "legs", schema, strict: true } },
    });
    assert.ok([2, 4].includes(JSON.parse(answer.output_text).legs));
  });

  test("a function is called; its result goes back", async () => {
    const request = { ...GREEDY, tools: [WEATHER], tool_choice: { type: "function", name: "weather" } };
    const first = await client.responses.create({ ...request, input: STORY });
    const call = first.output.find((item) => item.type === "function_call");
    assert.equal(call.name, "weather");
    assert.match(call.call_id, /\S/);
    const given = JSON.parse(call.arguments);
    assert.ok(["Rome", "Oslo"].includes(given.town) && given.days >= 1 && given.days <= 5);
    const second = await client.responses.create({
      ...request,
      tool_choice: "auto",
      max_output_tokens: 10,
      input: [
        { role: "user", content: STORY },
        ...first.output,
        { type: "function_call_output", call_id: call.call_id, output: "Sunny." },
      ],
    });
    assert.ok(["completed", "incomplete"].includes(second.status));
    assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  });

  test("a function's call as a stream", async () => {
    const events = [];
    const request = { ...GREEDY, input: STORY, tools: [WEATHER], tool_choice: "required", stream: true };
    for await (const event of await client.responses.create(request)) events.push(event);
    const json = events
      .filter((one) => one.type === "response.function_call_arguments.delta")
      .map((one) => one.delta)
      .join("");
    const done = events.find((one) => one.type === "response.function_call_arguments.done");
    assert.equal(done.arguments, json);
    const call = events.at(-1).response.output.find((item) => item.type === "function_call");
    assert.equal(call.arguments, json);
    assert.equal(done.item_id, call.id);
    assert.ok(["Rome", "Oslo"].includes(JSON.parse(json).town));
  });

  test("kinds of tools that it does not have are left out, not an error", async () => {
    const answer = await client.responses.create({ ...GREEDY, input: OPPOSITE, tools: [{ type: "web_search" }] });
    assert.equal(answer.output_text, "Cold.");
  });

  test("mistakes are 400", async () => {
    for (const fields of [{ input: 5 }, { temperature: "hot" }, { max_output_tokens: "x" }, { input: undefined }]) {
      await assert.rejects(client.responses.create({ ...GREEDY, input: OPPOSITE, ...fields }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError, `${JSON.stringify(fields)}: ${error}`);
        return true;
      });
    }
  });

  test("who leaves frees the place", () =>
    server.leaves(15000, async () => {
      const request = { ...GREEDY, input: STORY, max_output_tokens: 15000, ignore_eos: true, stream: true };
      for await (const event of await client.responses.create(request)) {
        if (event.type === "response.output_text.delta") break;
      }
    }));
});
