// OpenAI's own client: tools, streamed or not, and the way there and back.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { demoName, Server } from "./server.mjs";

const STORY = [{ role: "user", content: "Tell me a story about a fox." }];
// Closed sets of values: whatever a model draws, the arguments can be checked.
const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a town.",
    parameters: {
      type: "object",
      properties: { town: { enum: ["Rome", "Oslo"] }, days: { type: "integer", minimum: 1, maximum: 5 } },
      required: ["town", "days"],
      additionalProperties: false,
    },
  },
};
const CLOCK = {
  type: "function",
  function: {
    name: "clock",
    parameters: { type: "object", properties: { utc: { type: "boolean" } }, required: ["utc"] },
  },
};
const GREEDY = { model: demoName, temperature: 0, max_tokens: 200, messages: STORY, tools: [WEATHER, CLOCK] };
const named = (name) => ({ type: "function", function: { name } });

let server;
let client;

before(async () => {
  server = await Server.start({ words: ["-c", "16384", "-np", "4"] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(() => server?.stop());

function checkCall(call) {
  assert.equal(call.type, "function");
  assert.match(call.id, /\S/);
  const given = JSON.parse(call.function.arguments);
  if (call.function.name === "weather") {
    assert.deepEqual(Object.keys(given).sort(), ["days", "town"]);
    assert.ok(["Rome", "Oslo"].includes(given.town));
    assert.ok(Number.isInteger(given.days) && given.days >= 1 && given.days <= 5);
  } else {
    assert.equal(call.function.name, "clock");
    assert.equal(typeof given.utc, "boolean");
  }
  return given;
}

// Calls of a stream, put together as OpenAI documents it: joined by index; id, type and name once.
async function collect(stream) {
  const calls = [];
  let content = "";
  let reason = null;
  for await (const chunk of stream) {
    for (const choice of chunk.choices) {
      content += choice.delta.content ?? "";
      if (choice.finish_reason !== null) {
        assert.equal(reason, null);
        reason = choice.finish_reason;
      }
      for (const delta of choice.delta.tool_calls ?? []) {
        assert.equal(typeof delta.index, "number");
        if (calls[delta.index] === undefined) {
          assert.equal(delta.index, calls.length);
          assert.equal(delta.type, "function");
          assert.match(delta.id, /\S/);
          assert.match(delta.function.name, /\S/);
          calls.push({ id: delta.id, type: delta.type, function: { name: delta.function.name, arguments: "" } });
        } else {
          assert.equal(delta.id ?? undefined, undefined);
          assert.equal(delta.function.name ?? undefined, undefined);
        }
        calls[delta.index].function.arguments += delta.function.arguments ?? "";
      }
    }
  }
  return { calls, content, reason };
}

describe("tools", () => {
  test("a named function is called, alike streamed and not", async () => {
    const request = { ...GREEDY, tool_choice: named("weather") };
    const answer = await client.chat.completions.create(request);
    const [choice] = answer.choices;
    // As OpenAI: a choice by name ends with "stop".
    assert.equal(choice.finish_reason, "stop");
    assert.equal(choice.message.tool_calls.length, 1);
    assert.equal(choice.message.tool_calls[0].function.name, "weather");
    const given = checkCall(choice.message.tool_calls[0]);
    const streamed = await collect(await client.chat.completions.create({ ...request, stream: true }));
    assert.equal(streamed.reason, "stop");
    assert.equal(streamed.calls.length, 1);
    assert.deepEqual(checkCall(streamed.calls[0]), given);
  });

  test("required: one of them is called", async () => {
    const request = { ...GREEDY, tool_choice: "required", parallel_tool_calls: false };
    const [choice] = (await client.chat.completions.create(request)).choices;
    assert.equal(choice.finish_reason, "tool_calls");
    assert.equal(choice.message.tool_calls.length, 1);
    choice.message.tool_calls.forEach(checkCall);
    const streamed = await collect(await client.chat.completions.create({ ...request, stream: true }));
    assert.equal(streamed.reason, "tool_calls");
    assert.deepEqual(streamed.calls.map((call) => call.function), choice.message.tool_calls.map((call) => call.function));
  });

  test("auto and none leave it at text when the model calls nothing", async () => {
    for (const tool_choice of ["auto", "none", undefined]) {
      const request = { ...GREEDY, max_tokens: 30, tool_choice };
      const [choice] = (await client.chat.completions.create(request)).choices;
      assert.equal(choice.message.tool_calls, undefined);
      assert.ok(["stop", "length"].includes(choice.finish_reason));
      const streamed = await collect(await client.chat.completions.create({ ...request, stream: true }));
      assert.equal(streamed.content, choice.message.content ?? "");
      assert.equal(streamed.reason, choice.finish_reason);
    }
  });

  test("the way there and back", async () => {
    const first = await client.chat.completions.create({ ...GREEDY, tool_choice: named("weather") });
    const { message } = first.choices[0];
    const messages = [
      ...STORY,
      message,
      { role: "tool", tool_call_id: message.tool_calls[0].id, content: "Sunny, 20 degrees." },
    ];
    const second = await client.chat.completions.create({ ...GREEDY, messages, tool_choice: "none", max_tokens: 20 });
    assert.ok(["stop", "length"].includes(second.choices[0].finish_reason));
    // The call and its result are in the prompt.
    const { prompt } = await server.json("/apply-template", { messages });
    assert.match(prompt, /Sunny, 20 degrees\./);
    assert.match(prompt, /weather/);
  });

  test("broken arguments in the history are text, not an error for ever", async () => {
    const call = { id: "call_1", type: "function", function: { name: "weather", arguments: "{" } };
    const messages = [
      ...STORY,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: "error" },
    ];
    const answer = await client.chat.completions.create({ ...GREEDY, messages, tool_choice: "none", max_tokens: 5 });
    assert.equal(answer.usage.completion_tokens > 0, true);
  });

  test("runTools calls the function and tells the model", async () => {
    const asked = [];
    const runner = client.chat.completions.runTools({
      ...GREEDY,
      tool_choice: named("weather"),
      tools: [{
        type: "function",
        function: {
          ...WEATHER.function,
          parse: JSON.parse,
          function: (given) => {
            asked.push(given);
            return "Sunny.";
          },
        },
      }],
    });
    await runner.done();
    assert.equal(asked.length, 1);
    assert.ok(["Rome", "Oslo"].includes(asked[0].town));
  });

  test("the client's stream puts a call together", async () => {
    const stream = client.chat.completions.stream({ ...GREEDY, tool_choice: "required", parallel_tool_calls: false });
    const answer = await stream.finalChatCompletion();
    checkCall(answer.choices[0].message.tool_calls[0]);
  });

  test("mistakes are 400: an unknown name, required without tools, a schema that cannot be kept", async () => {
    const bad = (fields) =>
      assert.rejects(client.chat.completions.create({ ...GREEDY, ...fields }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError, String(error));
        return true;
      });
    await bad({ tool_choice: named("nobody") });
    await bad({ tools: undefined, tool_choice: "required" });
    await bad({ tools: "all" });
    await bad({ tools: [{ type: "function" }] });
    const broken = { ...WEATHER.function, parameters: { $ref: "https://example.com/x.json" } };
    await bad({ tools: [{ type: "function", function: broken }], tool_choice: "required" });
  });
});
