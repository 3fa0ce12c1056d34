// Conversations: what a user does from the first message on.
import assert from "node:assert/strict";
import { wait } from "./servers.mjs";

/** Writes a message and sends it with the key. */
export async function say(page, text) {
  await page.eval(() => document.querySelector("#composer-text").focus());
  await page.type(text);
  await page.key("Enter");
}

export const idle = (page) => page.until(
  () => document.querySelector("#send").getAttribute("aria-label") === "Send" &&
    document.querySelectorAll(".message.assistant").length > 0);

const answers = (page) => page.eval(
  () => [...document.querySelectorAll(".message.assistant .prose")].map((node) => node.innerText.trim()));
const last = (page, selector) => page.eval(
  (wanted) => [...document.querySelectorAll(wanted)].at(-1)?.innerText ?? "", selector);

export const cases = [
  ["chat: the model answers, with its speed", async (context) => {
    const { proxy } = context;
    const page = await context.open();
    await say(page, "Tell me a story.");
    await page.until(() => document.querySelector(".message.user .said")?.textContent === "Tell me a story.");
    await idle(page);
    assert.equal(proxy.bodies.length, 1);
    assert.deepEqual(proxy.bodies[0].messages, [{ role: "user", content: "Tell me a story." }]);
    assert.equal(proxy.bodies[0].stream, true);
    // Nothing was set: the server's own settings count.
    assert.ok(!("temperature" in proxy.bodies[0]));
    assert.ok((await answers(page))[0].length > 0);
    assert.match(await page.text(".message.assistant .stats"), /tokens\/s · [\d,]+ tokens? · prompt \d+/);
    assert.match(await page.text("#meter-text"), /^[\d,]+ of 2,048$/);
    assert.equal(await page.text("#title"), "Tell me a story.");
    // The question is read again from the cache.
    await say(page, "And then?");
    await idle(page);
    assert.equal(proxy.bodies[1].messages.length, 3);
    assert.equal(proxy.bodies[1].messages[1].content.trim(), proxy.bodies[1].messages[1].content.trim());
    assert.match(await last(page, ".message.assistant .stats"), /cached/);
  }],

  ["chat: text grows, Esc stops, the server is told", async (context) => {
    const page = await context.open();
    context.proxy.script = async (answer) => {
      answer.begin();
      await answer.slowly("word ".repeat(400), 10, 5);
    };
    await say(page, "Go on and on");
    await page.until(() => document.querySelector(".prose")?.innerText.length > 10);
    const one = (await answers(page))[0].length;
    await page.until((before) => document.querySelector(".prose").innerText.length > before + 20, one);
    assert.equal(await page.eval(() => document.querySelector("#send").getAttribute("aria-label")), "Stop");
    assert.equal(await page.eval(() => document.querySelector(".message.assistant").getAttribute("aria-busy")), "true");
    // Enter does not send while an answer comes.
    await say(page, "too early");
    assert.equal(context.proxy.bodies.length, 1);
    await page.key("Escape");
    await idle(page);
    assert.match(await page.text(".note"), /You stopped/);
    for (let i = 0; i < 100 && !context.proxy.last.closed; ++i) await wait(20);
    assert.ok(context.proxy.last.closed, "the connection is closed");
    const kept = (await answers(page))[0];
    assert.match(kept, /^word word/);
    await wait(100);
    assert.equal((await answers(page))[0], kept);
    // What was being typed is still there.
    assert.equal(await page.eval(() => document.querySelector("#composer-text").value), "too early");
  }],

  ["chat: again, edit and the way back; reload; delete and undo", async (context) => {
    const page = await context.open();
    let n = 0;
    context.proxy.script = (answer) => {
      answer.begin();
      answer.text(`answer ${++n}`);
      answer.end();
    };
    await say(page, "first");
    await idle(page);
    await say(page, "second");
    await idle(page);
    assert.deepEqual(await answers(page), ["answer 1", "answer 2"]);

    await page.click(".message:last-child [aria-label='Answer again']");
    await page.until(() => document.querySelectorAll(".prose")[1]?.innerText.trim() === "answer 3");
    await idle(page);
    assert.deepEqual(context.proxy.bodies[2].messages.map((one) => one.content),
                     ["first", "answer 1", "second"]);
    assert.equal(await last(page, ".turns span"), "2/2");
    await page.click(".message:last-child [aria-label='The version before']");
    await page.until(() => document.querySelectorAll(".prose")[1].innerText.trim() === "answer 2");
    // The keyboard is still there.
    assert.ok(await page.eval(() => document.activeElement.closest(".message:last-child .actions") !== null));

    await page.click(".message.user [aria-label='Edit this message']");
    await page.until(() => document.activeElement.getAttribute("aria-label") === "Edit your message");
    await page.eval(() => document.activeElement.select());
    await page.type("first, put better");
    await page.key("Enter");
    await page.until(() => document.querySelector(".prose")?.innerText.trim() === "answer 4");
    await idle(page);
    assert.deepEqual(context.proxy.bodies[3].messages, [{ role: "user", content: "first, put better" }]);
    assert.deepEqual(await answers(page), ["answer 4"]);

    await page.reload();
    await page.until(() => document.querySelectorAll(".message").length === 2);
    assert.deepEqual(await answers(page), ["answer 4"]);
    assert.equal(context.proxy.bodies.length, 4, "a reload asks for nothing");
    await page.click(".message.user [aria-label='The version before']");
    await page.until(() => document.querySelectorAll(".message").length === 4);
    assert.deepEqual(await answers(page), ["answer 1", "answer 3"]);

    await page.click(".message.assistant [aria-label='Delete from here on']");
    await page.until(() => document.querySelectorAll(".message").length === 1);
    await page.click(".toast button");
    await page.until(() => document.querySelectorAll(".message").length === 4);
  }],

  ["chat: several conversations, each by itself", async (context) => {
    const page = await context.open();
    context.proxy.script = async (answer, body) => {
      answer.begin();
      await answer.slowly(`about ${body.messages.at(-1).content} `.repeat(20), 10, 40);
      answer.end();
    };
    await say(page, "apples");
    await page.until(() => document.querySelector(".prose")?.innerText.length > 0);
    // The first goes on while the second is begun.
    await page.key("n", { alt: true, code: "KeyN" });
    await page.until(() => document.querySelectorAll(".message").length === 0);
    await say(page, "pears");
    await page.until(() => document.querySelectorAll("#chat-list .chat").length === 2);
    await idle(page);
    await page.until(() => document.querySelectorAll(".pulse").length === 0);
    assert.match((await answers(page))[0], /about pears/);
    const open = async (name) => {
      await page.eval((wanted) => [...document.querySelectorAll(".chat-name")]
        .find((node) => node.textContent === wanted).click(), name);
      await page.until((wanted) => document.querySelector("#title").textContent === wanted, name);
    };
    await open("apples");
    assert.equal((await answers(page))[0], "about apples ".repeat(20).trim());

    await page.click(".chat.current [aria-haspopup]");
    await page.until(() => document.activeElement.textContent === "Rename");
    await page.key("Enter");
    await page.until(() => document.querySelector("#name-dialog").open);
    await page.type("Fruit");
    await page.key("Enter");
    await page.until(() => document.querySelector("#title").textContent === "Fruit");

    await page.eval(() => {
      window.saved = null;
      const original = URL.createObjectURL;
      URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return original(blob); };
    });
    await page.click(".chat.current [aria-haspopup]");
    await page.key("ArrowDown");
    await page.key("Enter");
    const saved = JSON.parse(await page.until(() => window.saved));
    assert.equal(saved.title, "Fruit");
    assert.equal(Object.values(saved.nodes)[0].text, "apples");

    await page.click(".chat.current [aria-haspopup]");
    await page.key("ArrowUp");
    await page.key("Enter");
    await page.until(() => document.querySelectorAll("#chat-list .chat").length === 1);
    await page.click(".toast button");
    await page.until(() => document.querySelector("#title").textContent === "Fruit");
    await page.reload();
    await page.until(() => document.querySelector("#title").textContent === "Fruit");
    assert.match((await answers(page))[0], /about apples/);

    // What comes out of a file or out of storage is checked.
    const cleaned = await page.eval(async () => {
      const { cleanChat } = await import("./web/store.js");
      return [
        cleanChat(null), cleanChat([]), cleanChat({ nodes: 3 }),
        cleanChat({ nodes: { a: { parent: "b", text: 5 }, b: { parent: "a" }, c: { parent: "none" } }, head: "x" }),
        cleanChat({ id: "../x", title: {}, nodes: { a: { role: "system", text: "t", files: [{ text: [] }, 3] } } }),
      ];
    });
    assert.deepEqual(cleaned.slice(0, 3), [null, null, null]);
    assert.ok(Object.values(cleaned[3].nodes).some((node) => node.parent === null));
    assert.equal(cleaned[3].nodes.c.parent, null);
    assert.equal(cleaned[4].nodes.a.role, "user");
    assert.match(cleaned[4].id, /^\w+$/);
  }],

  ["chat: settings and the system prompt reach the server", async (context) => {
    const page = await context.open();
    context.proxy.says("fine");
    await page.key(",", { alt: true, code: "Comma" });
    await page.until(() => document.querySelector("#settings").open);
    // What stands in the fields in grey is what the server says.
    assert.equal(await page.eval(() => document.querySelector("#set-temperature").placeholder), "0.8");
    assert.equal(await page.eval(() => document.querySelector("#set-top_k").placeholder), "40");
    const set = async (id, value) => {
      await page.eval((wanted) => { const node = document.querySelector(wanted); node.focus(); node.select?.(); }, id);
      await page.type(value);
    };
    await set("#set-temperature", "0.25");
    await set("#set-seed", "7");
    await set("#set-top_p", "3");
    assert.equal(await page.eval(() => document.querySelector("#set-top_p").getAttribute("aria-invalid")), "true");
    await set("#system-text", "Be brief.");
    await page.key("Escape");
    await page.until(() => !document.querySelector("#settings").open);
    await say(page, "hello");
    await idle(page);
    const [body] = context.proxy.bodies;
    assert.equal(body.temperature, 0.25);
    assert.equal(body.seed, 7);
    assert.ok(!("top_p" in body), "a value that cannot be is not sent");
    assert.deepEqual(body.messages[0], { role: "system", content: "Be brief." });
    assert.ok(await page.eval(() => document.querySelector("#open-settings").classList.contains("marked")));
    await page.click("#system-chip");
    await page.until(() => document.activeElement.id === "system-text");
  }],

  ["chat: files are attached, large and binary ones are not", async (context) => {
    const page = await context.open();
    context.proxy.says("read");
    const drop = (files) => page.eval((list) => {
      const data = new DataTransfer();
      for (const [name, content] of list) {
        data.items.add(new File([typeof content === "number" ? "x".repeat(content) : content], name));
      }
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }, files);
    await drop([["notes.txt", "one\n```\ntwo"], ["big.txt", 300_000], ["a.bin", "a\0b"]]);
    await page.until(() => document.querySelectorAll(".file-chip").length === 1 &&
      document.querySelectorAll(".toast").length === 2);
    assert.match(await page.text(".file-chip"), /notes\.txt\s+11 B/);
    assert.match(await page.text("#toasts"), /big\.txt has 293\.0 KiB; at most 256\.0 KiB[^]*a\.bin is not a text file/);
    await say(page, "What is in it?");
    await idle(page);
    assert.equal(context.proxy.bodies[0].messages[0].content,
                 "File notes.txt:\n````\none\n```\ntwo\n````\n\nWhat is in it?");
    assert.equal(await page.text(".message.user .file-name"), "notes.txt");
    assert.equal(await page.eval(() => document.querySelectorAll(".file-chip").length), 0);
  }],

  ["chat: thoughts are folded, calls of tools are shown", async (context) => {
    const page = await context.open();
    let go;
    const gate = new Promise((resolve) => { go = resolve; });
    context.proxy.script = async (answer) => {
      answer.begin();
      answer.send({ delta: { reasoning_content: "I wonder **why**" } });
      await gate;
      answer.text("Because.");
      const call = (more) => answer.send({ delta: { tool_calls: [{ index: 0, ...more }] } });
      call({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } });
      call({ function: { arguments: "{\"city\":" } });
      call({ function: { arguments: "\"Oslo\"}" } });
      answer.end("tool_calls");
    };
    await say(page, "Why?");
    await page.until(() => document.querySelector(".think summary")?.innerText.includes("Thinking…"));
    assert.equal(await page.eval(() => document.querySelector(".think").open), false);
    await page.click(".think summary");
    await page.until(() => document.querySelector(".think-text strong")?.textContent === "why");
    go();
    await idle(page);
    assert.match(await page.text(".think summary"), /^Thought/);
    assert.equal((await answers(page))[0], "Because.");
    assert.match(await page.text(".tool .code-head"), /Calls weather/);
    assert.deepEqual(JSON.parse(await page.text(".tool code")), { city: "Oslo" });
  }],
];
