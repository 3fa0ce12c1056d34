// The memory view: the plan as a picture. One bar per device with what lies in it, the cache as it
// fills, what runs. Asks once a second, only while it is looked at.
import { getJson } from "./api.js";
import { bytes, count, duration, el, parameters, rate, svg } from "./ui.js";

const EVERY_MS = 1000;
const KEPT = 60;          // samples in the small graph
const SMOOTH = 3;         // seconds that a rate is taken over
const LITTLE = 0.4;       // a device whose held part is smaller gets a magnified bar

// In the order of the bar. The cache has three parts.
const PARTS = [
  ["weights", "Weights"],
  ["kv-used", "Cache, in use"],
  ["kv-kept", "Cache, kept for later prompts"],
  ["kv-empty", "Cache, empty"],
  ["compute", "Compute"],
  ["free", "Free of the budget"],
];

function split(device, kv) {
  const { planned } = device;
  const blocks = Math.max(1, kv.blocks);
  const used = (planned.kv_cache * kv.used) / blocks;
  const kept = (planned.kv_cache * kv.kept) / blocks;
  const budget = device.budget_bytes > 0 ? device.budget_bytes : device.memory_bytes;
  return {
    budget,
    held: planned.total,
    "weights": planned.weights,
    "kv-used": used,
    "kv-kept": kept,
    "kv-empty": Math.max(0, planned.kv_cache - used - kept),
    "compute": planned.total - planned.weights - planned.kv_cache,
    "free": Math.max(0, budget - planned.total),
  };
}

const percent = (share) => {
  const value = share * 100;
  return value > 0 && value < 0.1 ? "<0.1 %" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
};

/** "0–11, 14". */
function ranges(list) {
  const out = [];
  for (let i = 0; i < list.length;) {
    let end = i;
    while (end + 1 < list.length && list[end + 1] === list[end] + 1) ++end;
    out.push(end === i ? `${list[i]}` : `${list[i]}–${list[end]}`);
    i = end + 1;
  }
  return out.join(", ");
}

class Bar {
  constructor(names, label) {
    this.parts = new Map(names.map((name) => [name, el("span", { class: `part ${name}` })]));
    this.root = el("div", { class: "bar", role: "img", "aria-label": label }, ...this.parts.values());
  }
  set(shares, label) {
    for (const [name, part] of this.parts) {
      const share = shares[name];
      part.hidden = !(share > 0);
      part.style.flexGrow = String(Math.max(share, 0) * 1000);
    }
    this.root.setAttribute("aria-label", label);
  }
}

class DeviceCard {
  constructor(device, layers) {
    const here = device.layers;
    const both = new Set(here.attention);
    const ffn = new Set(here.feed_forward);
    const cells = Array.from({ length: Math.min(layers, 256) }, (_, k) => el("i", {
      class: both.has(k) && ffn.has(k) ? "here" : both.has(k) ? "upper" : ffn.has(k) ? "lower" : "" }));
    const all = [...new Set([...here.attention, ...here.feed_forward])].sort((a, b) => a - b);
    const more = [here.embedding ? "the embedding" : null, here.head ? "the output" : null].filter(Boolean);
    const says = all.length === 0 ? "No layers"
      : `${all.length === 1 ? "Layer" : "Layers"} ${ranges(all)}${more.length > 0 ? `, with ${more.join(" and ")}` : ""}`;

    this.held = el("strong");
    this.of = el("span", { class: "dim" });
    this.busyText = el("span", { class: "busy-text" });
    this.busyFill = el("span", {});
    this.whole = new Bar(["held", "free"], "");
    this.lens = svg("svg", { class: "lens", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
                    svg("path", { d: "" }));
    this.wholeBox = el("div", { class: "whole" }, this.whole.root, this.lens);
    this.bar = new Bar(PARTS.map(([name]) => name), "");
    this.rows = new Map();
    const legend = el("dl", { class: "legend" });
    for (const [name, label] of PARTS) {
      const amount = el("dd");
      const row = el("div", { class: name }, el("dt", {}, el("i", { class: `swatch ${name}` }), label), amount);
      legend.append(row);
      this.rows.set(name, amount);
    }
    this.root = el("section", { class: "device", "aria-label": `Device ${device.name}` },
      el("header", {},
        el("div", { class: "device-name" }, el("h3", { text: device.name }),
           el("p", { class: "dim", text: [device.description, device.instruction_set,
             device.units > 0 ? `${device.units} ${device.units === 1 ? "core" : "cores"}` : ""]
             .filter(Boolean).join(", ") })),
        el("div", { class: "device-held" }, el("p", {}, this.held, this.of),
           el("p", { class: "busy" }, el("span", { class: "busy-bar" }, this.busyFill), this.busyText))),
      this.wholeBox, this.bar.root, legend,
      el("div", { class: "layers" }, el("div", { class: "cells", "aria-hidden": "true" }, ...cells),
         el("p", { class: "dim", text: says })));
  }

  set(device, kv, busy) {
    const s = split(device, kv);
    const small = s.budget > 0 && s.held / s.budget < LITTLE;
    this.held.textContent = bytes(s.held);
    this.of.textContent = ` of ${bytes(s.budget)}`;
    this.busyText.textContent = busy === null ? "" : `busy ${percent(busy)}`;
    this.busyFill.style.width = `${(busy ?? 0) * 100}%`;
    this.wholeBox.hidden = !small;
    const held = s.budget > 0 ? s.held / s.budget : 1;
    if (small) {
      this.whole.set({ held, free: 1 - held }, `${bytes(s.held)} held of a budget of ${bytes(s.budget)}`);
      this.lens.firstChild.setAttribute("d", `M0 0H${Math.max(held * 100, 0.4)}L100 10H0z`);
    }
    const total = small ? s.held : Math.max(s.budget, s.held);
    const shares = {};
    for (const [name] of PARTS) shares[name] = name === "free" && small ? 0 : s[name] / Math.max(1, total);
    this.bar.set(shares, PARTS.filter(([name]) => s[name] > 0)
      .map(([name, label]) => `${label} ${bytes(s[name])}`).join(", "));
    for (const [name, amount] of this.rows) {
      amount.replaceChildren(el("span", { text: bytes(s[name]) }),
        el("span", { class: "dim", text: percent(s[name] / Math.max(1, s.budget)) }));
    }
  }
}

function tile(label) {
  const value = el("strong", { text: "–" });
  const note = el("span", { class: "dim" });
  const root = el("div", { class: "tile" }, el("span", { class: "tile-label", text: label }), value, note);
  return { root, value, note };
}

export class MemoryView {
  /** Draws into `root`. `app`: askKey(). */
  constructor(root, app) {
    this.root = root;
    this.app = app;
    this.shown = false;
    this.timer = 0;
    this.samples = [];
    this.key = "";
    document.addEventListener("visibilitychange", () => this.#wake());
  }

  show(on) {
    if (on === this.shown) return;
    this.shown = on;
    this.#wake();
  }

  #wake() {
    clearTimeout(this.timer);
    this.abort?.abort();
    if (!this.shown || document.visibilityState !== "visible") return;
    this.abort = new AbortController();
    this.#poll(this.abort.signal);
  }

  async #poll(signal) {
    const begun = performance.now();
    try {
      const state = await getJson("memory", signal);
      if (signal.aborted) return;
      this.#draw(state);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.kind === "key") this.app.askKey();
      this.#fail(error.message);
    }
    this.timer = setTimeout(() => this.#poll(signal), Math.max(200, EVERY_MS - (performance.now() - begun)));
  }

  #fail(message) {
    if (this.key === "") {
      this.root.replaceChildren(el("p", { class: "memory-note", text: message }));
      return;
    }
    this.root.classList.add("stale");
    this.note.textContent = message;
  }

  #make(state) {
    this.facts = el("p", { class: "dim" });
    this.note = el("p", { class: "memory-note", role: "status" });
    this.speed = tile("Tokens a second");
    this.runs = tile("Sequences");
    this.cache = tile("Cache in use");
    this.hits = tile("Prompts from the cache");
    this.graph = svg("svg", { class: "graph", viewBox: `0 0 ${KEPT - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { class: "graph-area" }), svg("path", { class: "graph-line" }));
    this.speed.root.append(this.graph);
    this.dots = el("div", { class: "dots", "aria-hidden": "true" });
    this.runs.root.append(this.dots);
    this.fill = el("span", { class: "tile-bar" }, el("i", { class: "kv-used" }), el("i", { class: "kv-kept" }));
    this.cache.root.append(this.fill);
    this.hitFill = el("i", { class: "hit" });
    this.hits.root.append(el("span", { class: "tile-bar plain" }, this.hitFill));
    this.cards = state.devices.map((device) => new DeviceCard(device, state.model.layers));
    this.root.replaceChildren(el("div", { class: "memory" },
      el("header", {}, el("h2", { text: state.model.name }), this.facts),
      this.note,
      el("div", { class: "tiles" }, this.speed.root, this.runs.root, this.cache.root, this.hits.root),
      ...this.cards.map((card) => card.root),
      el("p", { class: "dim fine-print", text: "Everything here was planned before the model was read, and is all that " +
        "this program takes for it. Only the cache's filling changes." })));
  }

  #draw(state) {
    const key = JSON.stringify([state.model, state.devices.map((device) => [device.name, device.layers])]);
    if (key !== this.key) {
      this.key = key;
      this.samples = [];
      this.#make(state);
    }
    this.root.classList.remove("stale");
    this.note.textContent = "";
    const { kv, requests, tokens } = state;

    // After a pause, or another server, the old figures say nothing.
    const last = this.samples[this.samples.length - 1];
    if (last !== undefined && (state.time_seconds - last.time > 5 || tokens.generated < last.generated)) {
      this.samples = [];
    }
    this.samples.push({ time: state.time_seconds, generated: tokens.generated, speed: 0,
                        busy: state.devices.map((device) => device.busy_seconds) });
    if (this.samples.length > KEPT) this.samples.shift();
    const now = this.samples[this.samples.length - 1];
    const then = this.samples[Math.max(0, this.samples.length - 1 - SMOOTH)];
    const time = now.time - then.time;
    now.speed = time > 0 ? (now.generated - then.generated) / time : 0;

    this.facts.textContent = [state.model.family, parameters(state.model.parameters),
      `${state.model.layers} layers`, `context of ${count(state.n_ctx)} tokens`,
      `pipeline ${state.pipeline}`].join(" · ");
    this.speed.value.textContent = time > 0 ? rate(now.speed) : "–";
    this.speed.note.textContent = `${count(tokens.generated)} so far`;
    this.#drawGraph();

    this.runs.value.textContent = `${requests.running} of ${requests.parallel}`;
    this.runs.note.textContent = requests.waiting > 0 ? `${requests.waiting} waiting`
      : `nobody waits · ${count(requests.finished)} answered`;
    const places = Math.min(requests.parallel, 64);
    while (this.dots.children.length > places) this.dots.lastChild.remove();
    while (this.dots.children.length < places) this.dots.append(el("i"));
    [...this.dots.children].forEach((dot, k) => dot.classList.toggle("on", k < requests.running));

    const blocks = Math.max(1, kv.blocks);
    this.cache.value.textContent = percent(kv.used / blocks);
    this.cache.note.textContent = `${count(kv.used * kv.block_tokens)} of ${count(kv.blocks * kv.block_tokens)} ` +
      `tokens · ${count(kv.kept * kv.block_tokens)} kept`;
    this.fill.children[0].style.width = `${(100 * kv.used) / blocks}%`;
    this.fill.children[1].style.width = `${(100 * kv.kept) / blocks}%`;
    const read = tokens.prompt + tokens.cached;
    this.hits.value.textContent = read > 0 ? percent(tokens.cached / read) : "–";
    this.hitFill.style.width = `${(100 * tokens.cached) / Math.max(1, read)}%`;
    this.hits.note.textContent = `${count(tokens.cached)} of ${count(read)} tokens`;

    state.devices.forEach((device, k) => {
      // Told at the end of steps, so that a long one may count for more than the time looked at.
      const busy = time > 0 ? Math.min(1, Math.max(0, (device.busy_seconds - then.busy[k]) / time)) : null;
      this.cards[k].set(device, kv, busy);
    });
  }

  #drawGraph() {
    const most = Math.max(1, ...this.samples.map((one) => one.speed));
    const offset = KEPT - this.samples.length;
    const points = this.samples.map((one, k) => `${offset + k} ${(19 - (one.speed / most) * 17).toFixed(2)}`);
    const [area, line] = this.graph.children;
    line.setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
    area.setAttribute("d", points.length > 1 ? `M${offset} 20L${points.join("L")}L${KEPT - 1} 20z` : "");
    this.graph.setAttribute("aria-label", `at most ${rate(most)} in the last ${duration(this.samples.length)}`);
  }
}
