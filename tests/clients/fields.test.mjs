// Every field with a value of every type: an answer or 400 that names a field, never a fault of the
// server's own, and it goes on answering.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Server } from "./server.mjs";

const VALUES = [null, true, 0, 7, -1, 0.5, 1e300, 2 ** 53, "", "x", "\u{1F642}\u0000", [], [[]], [null], {}, { x: {} }];
const MESSAGES = [{ role: "user", content: "What is 3 + 4?" }];
const FORMS = {
  "/v1/chat/completions": {
    base: { messages: MESSAGES, max_tokens: 1 },
    fields: [
      "messages", "model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "seed", "stream",
      "stream_options", "logprobs", "top_logprobs", "logit_bias", "presence_penalty", "frequency_penalty",
      "response_format", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs", "reasoning_effort",
      "user", "metadata", "store", "functions", "service_tier", "prediction", "modalities", "verbosity",
    ],
  },
  "/v1/completions": {
    base: { prompt: "Once", max_tokens: 1 },
    fields: ["prompt", "suffix", "echo", "best_of", "logprobs", "n", "stop", "stream", "logit_bias", "seed", "grammar"],
  },
  "/completion": {
    base: { prompt: "Once", n_predict: 1 },
    fields: [
      "prompt", "n_predict", "n_probs", "id_slot", "cache_prompt", "top_k", "min_p", "typical_p", "repeat_penalty",
      "repeat_last_n", "json_schema", "grammar", "return_tokens", "samplers", "t_max_predict_ms", "n_keep", "n_indent",
      "dynatemp_range", "mirostat", "dry_multiplier", "priority", "ignore_eos", "timings_per_token", "return_progress",
    ],
  },
  "/v1/messages": {
    base: { messages: MESSAGES, max_tokens: 1 },
    fields: [
      "messages", "max_tokens", "system", "stop_sequences", "temperature", "top_k", "top_p", "stream", "metadata",
      "tools", "tool_choice", "thinking", "model", "service_tier",
    ],
  },
  "/tokenize": { base: { content: "Once" }, fields: ["content", "add_special", "parse_special", "with_pieces"] },
  "/detokenize": { base: { tokens: [5] }, fields: ["tokens"] },
  "/apply-template": { base: { messages: MESSAGES }, fields: ["messages", "chat_template_kwargs", "tools"] },
};
// What a message and its parts hold.
const PARTS = VALUES.flatMap((value) => [
  [value], [{ role: value, content: "x" }], [{ role: "user", content: value }], [{ role: "user", content: [value] }],
  [{ role: "user", content: [{ type: value, text: "x" }] }], [{ role: "user", content: [{ type: "text", text: value }] }],
  [{ role: "assistant", content: "x", tool_calls: value }], [{ role: "tool", content: "x", tool_call_id: value }],
]);

let server;

before(async () => {
  server = await Server.start({ words: ["-c", "4096", "-np", "4"] });
});
after(() => server?.stop());

async function check(path, body) {
  const answer = await server.post(path, body);
  const text = await answer.text();
  const what = `${path} ${JSON.stringify(body)}: ${answer.status} ${text}`;
  assert.ok([200, 400].includes(answer.status), what);
  if (answer.status === 200) return;
  const { error } = JSON.parse(text);
  assert.equal(error.type, "invalid_request_error", what);
  assert.ok(error.message.length > 5, what);
}

describe("fields", () => {
  for (const [path, { base, fields }] of Object.entries(FORMS)) {
    test(`${path}: each with each type`, async () => {
      for (const field of fields) {
        await Promise.all(VALUES.map((value) => check(path, { ...base, [field]: value })));
      }
    });
  }

  test("messages of every shape", async () => {
    for (const messages of PARTS) {
      await check("/v1/chat/completions", { messages, max_tokens: 1 });
      await check("/v1/messages", { messages, max_tokens: 1 });
    }
  });

  test("bodies that are no object", async () => {
    for (const path of Object.keys(FORMS)) {
      for (const body of ["", "null", "[]", "5", '"x"', "{", '{"a":}', "\u0000", "{}{}", "[".repeat(5000)]) {
        const answer = await server.post(path, body);
        assert.equal(answer.status, 400, `${path} ${body.slice(0, 20)}`);
        await answer.text();
      }
    }
  });

  test("it still answers", async () => {
    const answer = await server.json("/v1/chat/completions", {
      messages: [{ role: "user", content: "What is the opposite of hot?" }], temperature: 0,
    });
    assert.equal(answer.choices[0].message.content, "Cold.");
  });
});
