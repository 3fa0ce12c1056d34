// How the page looks and is handled: narrow windows, colours, the keyboard, the memory view.
import assert from "node:assert/strict";
import { idle, say } from "./chat.mjs";
import { wait } from "./servers.mjs";

const RICH = `## What a plan holds

A plan says **before a byte is read** what every device will hold:

1. weights, where they lie
2. the cache, in blocks of 32 tokens
   - in use
   - kept for prompts that begin alike

| Part | Where | Size |
|:-----|:------|-----:|
| weights | \`cpu:0\` | 2.7 MiB |
| cache | \`cpu:1\` | 8.0 MiB |

> The plan is the run.

\`\`\`cpp
// Bytes on one device by purpose.
uint64_t total() const { return weights + kv + activations + boundary + logits + scratch; }
const char* name = "strata";
\`\`\`

- [x] planned
- [ ] measured, see [the docs](https://strata.example/docs/plan) or \`strata plan --help\`

A_very_long_word_${"without_an_end_".repeat(12)} and then an address: https://strata.example/${"path/".repeat(30)}`;

const overflow = (page) => page.eval(() => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) return `the page is ${wide} px too wide`;
  // Nothing but what scrolls by itself reaches beyond the window.
  const out = [...document.querySelectorAll("#stage *, dialog[open] *, body.side-over #sidebar *")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) &&
      node.closest("pre, .table, .hidden, .skip") === null;
  });
  return out.length === 0 ? "" : `beyond the window: ${out.slice(0, 3).map((node) => node.outerHTML.slice(0, 120)).join("; ")}`;
});

/** The field to write in is in sight, and so is the end of the answer. */
const atEnd = (page) => page.eval(() => {
  const field = document.querySelector("#composer").getBoundingClientRect();
  const end = document.querySelector("#messages").lastElementChild.getBoundingClientRect();
  return field.bottom <= innerHeight && field.top > 100 && end.bottom <= field.top + 1 && end.bottom > 0;
});

/** Contrast of text with what is behind it, of every element with text of its own. */
const faint = (page, selector) => page.eval((wanted) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = (c) => {
    const [r, g, b] = [c[0], c[1], c[2]].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node !== null; node = node.parentElement) {
      const colour = rgba(getComputedStyle(node).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const out = [];
  for (const node of document.querySelectorAll(wanted)) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== "");
    if (!own || node.closest("[hidden], :disabled, .hidden, .skip") || node.getClientRects().length === 0) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) out.push(`${node.tagName}.${node.className} "${node.textContent.trim().slice(0, 20)}" ${ratio.toFixed(2)}`);
  }
  return [...new Set(out)];
}, selector);

/** What a screen reader has no name for. */
const nameless = (page) => page.eval(() => [...document.querySelectorAll("button, input, textarea, a, [role=img]")]
  .filter((node) => node.type !== "file" && !node.closest("[hidden]"))
  .filter((node) => (node.getAttribute("aria-label") ?? "").trim() === "" && node.textContent.trim() === "" &&
    !node.hasAttribute("aria-labelledby") && !(node.labels?.length > 0))
  .map((node) => node.outerHTML.slice(0, 100)));

export const cases = [
  ["look: light, dark, and by choice", async (context) => {
    const page = await context.open();
    context.proxy.says(RICH);
    await say(page, "What does a plan hold?");
    await idle(page);
    assert.ok(await atEnd(page));
    const ground = () => page.eval(() => getComputedStyle(document.body).backgroundColor);
    const bright = (colour) => colour.match(/\d+/g).slice(0, 3).every((part) => Number(part) > 128);
    assert.ok(bright(await ground()));
    assert.deepEqual(await faint(page, "body *"), []);
    assert.deepEqual(await nameless(page), []);
    await context.picture(page, "desktop-light");
    await page.scheme("dark");
    assert.ok(!bright(await ground()));
    assert.deepEqual(await faint(page, "body *"), []);
    await context.picture(page, "desktop-dark");
    // The button goes through: as the system, light, dark.
    await page.click("#theme");
    assert.ok(bright(await ground()));
    await page.reload();
    await page.until(() => document.querySelectorAll(".message").length === 2);
    assert.ok(bright(await ground()), "the choice is kept");
    await page.click("#theme");
    assert.ok(!bright(await ground()));
    await page.scheme("light");
    assert.ok(!bright(await ground()));
    assert.deepEqual(await faint(page, "body *"), []);
    await page.scheme("light", "reduce");
    assert.equal(await page.eval(() => getComputedStyle(document.querySelector("#sidebar")).transitionDuration), "0s");
  }],

  ["look: a phone's width", async (context) => {
    const page = await context.open({ width: 360, height: 740, mobile: true });
    await page.scheme("light", "reduce");  // nothing is on its way when it is measured
    context.proxy.says(RICH);
    await page.click("#composer-text");
    await page.type(`A question ${"thatgoesonandon".repeat(8)}`);
    await page.click("#send");
    await idle(page);
    assert.equal(await overflow(page), "");
    assert.ok(await atEnd(page));
    await context.picture(page, "phone-chat");
    await page.click("#side-open");
    await page.until(() => document.body.classList.contains("side-over") && document.activeElement.id === "side-close");
    assert.equal(await overflow(page), "");
    await context.picture(page, "phone-list");
    await page.key("Escape");
    await page.until(() => !document.body.classList.contains("side-over") && document.activeElement.id === "side-open");
    await page.click("#open-settings");
    await page.until(() => document.querySelector("#settings").open);
    assert.equal(await overflow(page), "");
    await context.picture(page, "phone-settings");
    await page.key("Escape");
    await page.click("#tab-memory");
    await page.until(() => document.querySelector(".device") !== null);
    await wait(1200);
    assert.equal(await overflow(page), "");
    await context.picture(page, "phone-memory");
    await page.size(320, 600, true);
    assert.equal(await overflow(page), "");
    await page.size(1200, 820);
    await page.until(() => getComputedStyle(document.querySelector("#side-open")).display === "none" &&
      !document.querySelector("#sidebar").inert);
  }],

  ["look: by the keyboard alone", async (context) => {
    const page = await context.open();
    context.proxy.says("answer");
    assert.equal(await page.eval(() => document.activeElement.id), "composer-text");
    await page.type("one");
    await page.key("Enter", { shift: true });
    await page.type("two");
    assert.equal(await page.eval(() => document.activeElement.value), "one\ntwo");
    await page.key("Enter");
    await idle(page);
    assert.equal(context.proxy.bodies[0].messages[0].content, "one\ntwo");
    // From an empty field the arrow edits the last message; Esc leaves it as it was.
    await page.key("ArrowUp");
    await page.until(() => document.activeElement.getAttribute("aria-label") === "Edit your message");
    await page.key("Escape");
    await page.until(() => document.activeElement.getAttribute("aria-label") === "Edit this message");
    await page.key("/", { ctrl: true, code: "Slash" });
    await page.until(() => document.querySelector("#keys-dialog").open);
    await context.picture(page, "keys");
    await page.key("Escape");
    await page.until(() => !document.querySelector("#keys-dialog").open);
    await page.eval(() => document.activeElement.blur());
    await page.key("/", { code: "Slash" });
    await page.until(() => document.activeElement.id === "composer-text");
    assert.equal(await page.eval(() => document.activeElement.value), "");
    await page.key("m", { alt: true, code: "KeyM" });
    await page.until(() => !document.querySelector("#memory-view").hidden && location.hash === "#memory");
    await page.key("m", { alt: true, code: "KeyM" });
    await page.until(() => !document.querySelector("#chat-view").hidden);
    // Tab goes through everything that can be used, in the order of the page, and shows where it is.
    await page.eval(() => document.querySelector(".skip").focus());
    const seen = [];
    for (let i = 0; i < 40; ++i) {
      await page.key("Tab");
      const at = await page.eval(() => {
        const node = document.activeElement;
        const style = getComputedStyle(node);
        const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
        return { name: node.id || node.getAttribute("aria-label") || node.textContent.slice(0, 30),
                 shown: ring || node.id === "composer-text" || node === document.body };
      });
      assert.ok(at.shown, `no ring around ${at.name}`);
      seen.push(at.name);
      if (at.name === "send" || at.name === "open-keys") break;
    }
    const order = ["new-chat", "tab-chat", "tab-memory", "theme", "open-settings", "composer-text", "attach"];
    const places = order.map((name) => seen.indexOf(name));
    assert.ok(places.every((place, k) => place >= 0 && (k === 0 || place > places[k - 1])), seen.join(", "));
    assert.ok(seen.includes("Copy this answer"));
  }],

  ["look: the memory as it fills", async (context) => {
    const { proxy, strata } = context;
    const page = await context.open({}, "/#memory");
    await page.until(() => document.querySelector(".device") !== null);
    const state = await (await fetch(`${strata.url}/memory`)).json();
    assert.equal(await page.text(".device h3"), state.devices[0].name);
    const amount = (part) => page.text(`.legend .${part} dd span`);
    assert.equal(await amount("weights"), `${(state.devices[0].planned.weights / 1048576).toFixed(1)} MiB`);
    // Three answers run, each followed by the next until the picture has been seen; it says so.
    const abort = new AbortController();
    const running = [1, 2, 3].map(async (n) => {
      while (!abort.signal.aborted) {
        await fetch(`${strata.url}/v1/completions`, {
          method: "POST", signal: abort.signal,
          body: JSON.stringify({ prompt: `${n} ${"dog ".repeat(150)}`, max_tokens: 300, ignore_eos: true, stream: true }),
        }).then((answer) => answer.text()).catch(() => "");
      }
    });
    try {
      await page.until(() => document.querySelectorAll(".dots .on").length === 3);
      await page.until(() => document.querySelector(".legend .kv-used dd span").textContent !== "0 B" &&
        document.querySelector(".bar .part.kv-used").getBoundingClientRect().width > 3);
      const widths = await page.eval(() => ["weights", "kv-used", "compute"].map(
        (name) => document.querySelector(`.device > .bar .${name}`).getBoundingClientRect().width));
      assert.ok(widths.every((width) => width > 0), widths.join());
      await page.until(() => document.querySelectorAll(".tile strong")[0].textContent !== "–" &&
        Number(document.querySelectorAll(".tile strong")[0].textContent) > 0);
      assert.match(await page.text(".busy-text"), /busy/);
      assert.deepEqual(await faint(page, "#memory-view *"), []);
      await context.picture(page, "memory");
      await page.scheme("dark");
      assert.deepEqual(await faint(page, "#memory-view *"), []);
      await context.picture(page, "memory-dark");
    } finally {
      abort.abort();
      await Promise.all(running);
    }
    await page.until(() => document.querySelectorAll(".dots .on").length === 0);
    // Out of sight it asks no more.
    await page.click("#tab-chat");
    await wait(200);
    const asked = () => page.requests.filter((url) => url.endsWith("/memory")).length;
    const before = asked();
    assert.ok(before >= 2);
    await wait(1500);
    assert.equal(asked(), before);
    assert.equal(proxy.bodies.length, 0);
  }],
];
