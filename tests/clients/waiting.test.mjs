// A stream that has nothing to say yet sends comments, so that proxies do not close it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { parseEvents, Server } from "./server.mjs";

// Proxies commonly give up after 60 seconds of silence; half of that is the rule.
const LONGEST_SILENCE = 30;
const STORY = { prompt: "Once upon a time", temperature: 0 };

let server;

before(async () => {
  server = await Server.start({ words: ["-c", "32768", "-np", "1"] });
});
after(() => server?.stop());

// What arrives until `enough` holds.
async function readUntil(answer, enough) {
  let text = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (enough(text)) break;
  }
  return text;
}

const QUESTION = { messages: [{ role: "user", content: "What is 3 + 4?" }] };
const FORMS = [
  ["/v1/chat/completions", QUESTION, /^:/m],
  ["/v1/completions", STORY, /^:/m],
  ["/completion", STORY, /^:/m],
  ["/v1/messages", QUESTION, /^event: ping$/m],
];

test("who waits in the queue hears of it, in every form", async () => {
  const leave = new AbortController();
  const { signal } = leave;
  // Those that go first keep the only place busy for longer than this waits.
  const body = JSON.stringify({ ...STORY, n_predict: 30000, ignore_eos: true, priority: 1 });
  for (let i = 0; i < 6; ++i) fetch(`${server.url}/completion`, { method: "POST", body, signal }).catch(() => {});
  await server.until(6);
  const begun = Date.now();
  await Promise.all(FORMS.map(async ([path, fields, ping]) => {
    const asked = JSON.stringify({ ...fields, max_tokens: 3, stream: true });
    const answer = await fetch(server.url + path, { method: "POST", body: asked, signal });
    assert.equal(answer.status, 200);
    const text = await readUntil(answer, (so_far) => ping.test(so_far));
    assert.match(text, ping, path);
    assert.ok(Date.now() - begun < LONGEST_SILENCE * 1000);
    // Comments are no events: what can be read is still well-formed.
    parseEvents(text);
  }));
  leave.abort();
  await server.until(0);
});
