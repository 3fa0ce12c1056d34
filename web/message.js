// One message on the page: what was said, what it took, what can be done with it.
import { MarkdownView } from "./render.js";
import { siblings, contentOf } from "./tree.js";
import { bytes, copyButton, count, duration, el, icon, iconButton, rate } from "./ui.js";

const FINISH = {
  context: "The context is full: the answer ends here. Begin a new conversation, delete messages, " +
    "or start the server with a larger context (-c).",
  length: "The answer reached its limit of tokens (Settings, Most tokens).",
};
const STATES = {
  stopped: "You stopped this answer.",
  broken: "This answer was cut off when the page was closed.",
};

function fileChip(file) {
  const body = el("details", { class: "file" },
    el("summary", {}, icon("file"), el("span", { class: "file-name", text: file.name }),
       el("span", { class: "dim", text: bytes(file.size) })),
    el("pre", { tabindex: "0", text: file.text.length > 20_000
      ? `${file.text.slice(0, 20_000)}\n…` : file.text }));
  return body;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // not whole yet, or never to be
  }
}

function toolNode(tool) {
  return el("div", { class: "code tool" },
    el("div", { class: "code-head" }, icon("tool"), el("span", { text: `Calls ${tool.name || "a tool"}` }),
       copyButton("Copy the arguments", () => tool.arguments)),
    el("pre", { tabindex: "0" }, el("code", { text: pretty(tool.arguments) })));
}

function statsText(stats) {
  const parts = [];
  if (stats.speed > 0) parts.push(`${rate(stats.speed)} tokens/s`);
  if (stats.made > 0) parts.push(`${count(stats.made)} ${stats.made === 1 ? "token" : "tokens"}`);
  if (stats.prompt > 0) {
    const cached = stats.cached > 0 ? ` (${count(stats.cached)} cached)` : "";
    parts.push(`prompt ${count(stats.prompt)}${cached}`);
  }
  if (stats.read > 0) parts.push(`read at ${rate(stats.read)}/s`);
  return parts.join(" · ");
}

/**
 * The element of a message and how to bring it up to date. `act` does what its buttons say:
 * edit(node, text), again(node), remove(node), turn(node, step), key().
 */
export class MessageView {
  constructor(chat, node, act) {
    this.chat = chat;
    this.node = node;
    this.act = act;
    this.root = el("article", { class: `message ${node.role}`, "data-id": node.id,
                                "aria-label": node.role === "user" ? "You" : "Answer" });
    if (node.role === "user") this.#makeUser();
    else this.#makeAnswer();
    this.update();
  }

  #makeUser() {
    this.body = el("div", { class: "bubble" });
    this.actions = el("div", { class: "actions" });
    this.root.append(this.body, this.actions);
  }

  #makeAnswer() {
    this.thinkLabel = el("span", { text: "Thinking" });
    this.thinkText = el("div", { class: "think-text" });
    this.think = el("details", { class: "think" },
                    el("summary", {}, icon("think"), this.thinkLabel), this.thinkText);
    this.thinkView = new MarkdownView(this.thinkText);
    this.think.addEventListener("toggle", () => this.update());
    this.body = el("div", { class: "prose" });
    this.view = new MarkdownView(this.body);
    this.tools = el("div", { class: "tools" });
    this.note = el("div", { class: "note" });
    this.stats = el("span", { class: "stats" });
    this.actions = el("div", { class: "actions" });
    this.foot = el("div", { class: "foot" }, this.actions, this.stats);
    this.root.append(this.think, this.body, this.tools, this.note, this.foot);
  }

  update() {
    if (this.node.role === "user") this.#updateUser();
    else this.#updateAnswer();
  }

  #updateUser() {
    if (this.editing) return;
    const { node } = this;
    this.body.replaceChildren(...(node.files ?? []).map(fileChip),
      ...(node.text === "" ? [] : [el("div", { class: "said", text: node.text })]));
    this.#setActions([
      copyButton("Copy this message", () => contentOf(node)),
      iconButton("edit", "Edit this message", () => this.edit()),
      iconButton("bin", "Delete from here on", () => this.act.remove(node)),
    ]);
  }

  #updateAnswer() {
    const { node } = this;
    const live = node.state === "streaming";
    this.root.classList.toggle("live", live);
    this.root.setAttribute("aria-busy", String(live));

    const thinking = node.reasoning !== "";
    this.think.hidden = !thinking;
    if (thinking) {
      const busy = live && node.text === "";
      this.think.classList.toggle("busy", busy);
      this.thinkLabel.textContent = busy ? "Thinking…"
        : node.thought >= 1 ? `Thought for ${duration(node.thought)}` : "Thoughts";
      if (this.think.open) this.thinkView.show(node.reasoning, busy);
    }
    this.view.show(node.text, live);
    this.body.hidden = node.text === "";

    const tools = JSON.stringify(node.tools);
    if (tools !== this.shownTools) {
      this.shownTools = tools;
      this.tools.replaceChildren(...node.tools.map(toolNode));
    }

    const waits = live && node.text === "" && !thinking && node.tools.length === 0;
    const stateKey = [node.state, node.error, node.finish, waits, live ? "" : node.text.length].join("|");
    if (stateKey !== this.shownState) {
      this.shownState = stateKey;
      this.note.replaceChildren();
      this.note.className = "note";
      if (waits) {
        this.note.append(el("span", { class: "waiting", "aria-hidden": "true" }, el("i"), el("i"), el("i")));
      } else if (node.state === "error") {
        this.note.classList.add("error");
        this.note.setAttribute("role", "alert");
        this.note.append(el("p", { text: node.error }),
          el("div", { class: "row" },
             node.kind === "key" ? el("button", { type: "button", class: "button", text: "Enter the key",
                                                  onclick: () => this.act.key() }) : null,
             el("button", { type: "button", class: "button primary", text: "Try again",
                            onclick: () => this.act.again(node) })));
      } else if (STATES[node.state]) {
        this.note.append(el("p", { text: STATES[node.state] }));
      } else if (FINISH[node.finish]) {
        this.note.append(el("p", { text: FINISH[node.finish] }));
      } else if (!live && node.text === "" && node.tools.length === 0) {
        this.note.append(el("p", { text: "The model ended without saying anything." }));
      }
      this.#setActions(live ? [] : [
        ...(node.text === "" ? [] : [copyButton("Copy this answer", () => node.text)]),
        iconButton("again", "Answer again", () => this.act.again(node)),
        iconButton("bin", "Delete from here on", () => this.act.remove(node)),
      ]);
    }
    this.stats.textContent = node.stats ? statsText(node.stats) : "";
  }

  #setActions(buttons) {
    const all = siblings(this.chat, this.node);
    const at = all.indexOf(this.node);
    const turns = all.length < 2 || this.node.state === "streaming" ? [] : [
      el("span", { class: "turns" },
         iconButton("left", "The version before", () => this.act.turn(this.node, -1),
                    { disabled: at === 0 }),
         el("span", { text: `${at + 1}/${all.length}` }),
         iconButton("right", "The next version", () => this.act.turn(this.node, 1),
                    { disabled: at === all.length - 1 }))];
    this.actions.replaceChildren(...turns, ...buttons);
  }

  edit() {
    if (this.editing) return;
    this.editing = true;
    const { node } = this;
    const area = el("textarea", { rows: "2", "aria-label": "Edit your message" });
    area.value = node.text;
    const fit = () => { area.style.height = "auto"; area.style.height = `${area.scrollHeight + 2}px`; };
    const end = () => { this.editing = false; this.root.classList.remove("editing"); this.update(); };
    const send = () => {
      if (area.value.trim() === "" && !node.files?.length) return;
      end();
      this.act.edit(node, area.value);
    };
    area.addEventListener("input", fit);
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        end();
        this.actions.querySelector("[aria-label='Edit this message']")?.focus();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send();
      }
    });
    this.root.classList.add("editing");
    this.body.replaceChildren(...(node.files ?? []).map(fileChip), area);
    this.actions.replaceChildren(
      el("button", { type: "button", class: "button", text: "Cancel", onclick: end }),
      el("button", { type: "button", class: "button primary", text: "Send", onclick: send }));
    fit();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}
