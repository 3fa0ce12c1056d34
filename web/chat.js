// The conversation: what is shown, what is being answered.
//
// Answers go on while another conversation is looked at; each conversation has at most one.
import { ServerError, streamChat } from "./api.js";
import { MessageView } from "./message.js";
import * as store from "./store.js";
import * as tree from "./tree.js";
import { $, announce, count, el, icon, toast } from "./ui.js";

const SAVE_MS = 1000;
const FRAME_SHARE = 6;  // drawing takes at most one part in so many of the time

export class Chat {
  /** `app`: settings(), props(), changed() after a conversation's title or list changed, askKey(). */
  constructor(app) {
    this.app = app;
    this.chat = null;
    this.views = new Map();  // by id of the message
    this.runs = new Map();   // by id of the conversation
    this.scroll = $("scroll");
    this.list = $("messages");
    this.stuck = true;
    this.scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#follow()).observe(this.list);
    $("to-end").append(icon("down"));
    $("to-end").addEventListener("click", () => { this.stuck = true; this.#follow(); });
    window.addEventListener("pagehide", () => {
      for (const run of this.runs.values()) store.saveChat(run.chat);
    });
    this.act = {
      edit: (node, text) => this.edit(node, text),
      again: (node) => this.again(node),
      remove: (node) => this.remove(node),
      turn: (node, step) => this.#change(() => tree.turn(this.chat, node, step), node),
      key: () => app.askKey(),
    };
  }

  // ---- What is shown

  open(chat) {
    // One that is being answered is the one in memory, not the one in storage.
    this.chat = this.runs.get(chat.id)?.chat ?? chat;
    this.views.clear();
    this.list.replaceChildren();
    this.stuck = true;
    this.render();
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  render() {
    const nodes = tree.path(this.chat);
    const wanted = new Set(nodes.map((node) => node.id));
    for (const [id, view] of this.views) {
      if (wanted.has(id)) continue;
      view.root.remove();
      this.views.delete(id);
    }
    let before = null;
    for (const node of nodes) {
      let view = this.views.get(node.id);
      if (view === undefined || view.node !== node) {
        view?.root.remove();
        view = new MessageView(this.chat, node, this.act);
        this.views.set(node.id, view);
      } else {
        view.shownState = null;  // its siblings may be others now
        view.update();
      }
      const next = before === null ? this.list.firstElementChild : before.nextElementSibling;
      if (next !== view.root) this.list.insertBefore(view.root, next);
      before = view.root;
    }
    $("empty").hidden = nodes.length > 0;
    if (nodes.length === 0) this.#showEmpty();
    this.app.changed();
    this.#meter();
    this.#follow();
  }

  #showEmpty() {
    const props = this.app.props();
    const facts = props === null ? [] : [
      props.model_family,
      props.n_ctx ? `context of ${count(props.n_ctx)} tokens` : null,
    ].filter(Boolean);
    const lacks = props !== null && (props.chat_template === false || props.chat_template === "");
    const logo = document.querySelector(".brand svg").cloneNode(true);
    $("empty").replaceChildren(
      logo,
      el("h2", { text: props?.model_alias ?? "Strata" }),
      el("p", { class: "dim", text: facts.join(" · ") || "A model on your own machine." }),
      lacks ? el("p", { class: "warn", text: "This model has no chat template, so it cannot hold a " +
        "conversation. Start the server with --chat-template-file, or use /v1/completions." }) : "");
  }

  get nearEnd() {
    return this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < 60;
  }

  #scrolled() {
    // Going up lets go of the end, coming back to it takes hold again.
    const top = this.scroll.scrollTop;
    if (top < (this.lastTop ?? 0) - 2 && !this.nearEnd) this.stuck = false;
    else if (this.nearEnd) this.stuck = true;
    this.lastTop = top;
    $("to-end").hidden = this.stuck || this.nearEnd;
  }

  #follow() {
    if (this.stuck) this.scroll.scrollTop = this.scroll.scrollHeight;
    this.lastTop = this.scroll.scrollTop;
    $("to-end").hidden = this.stuck || this.nearEnd;
  }

  /** How much of the context the conversation takes. */
  #meter() {
    const size = this.app.props()?.n_ctx ?? 0;
    const last = tree.path(this.chat).findLast((node) => node.stats?.prompt > 0);
    const used = last === undefined ? 0 : last.stats.prompt + (last.stats.made ?? 0);
    $("meter").hidden = size === 0 || used === 0;
    const share = Math.min(1, used / Math.max(1, size));
    $("meter-fill").style.width = `${Math.max(2, share * 100)}%`;
    $("meter").classList.toggle("tight", share > 0.85);
    $("meter-text").textContent = `${count(used)} of ${count(size)}`;
    $("meter").title = "Tokens of the context that this conversation takes";
  }

  // ---- What is done

  get running() { return this.chat !== null && this.runs.has(this.chat.id); }

  send(text, files) {
    if (this.running) return false;
    const { chat } = this;
    const node = tree.add(chat, chat.head, "user", files.length > 0 ? { text, files } : { text });
    if (!chat.named && chat.title === "") {
      chat.title = tree.titleFrom(text) || files[0]?.name || "";
    }
    this.#answer(chat, node.id);
    return true;
  }

  edit(node, text) {
    if (this.running) this.stop();
    const fields = node.files ? { text, files: node.files } : { text };
    const made = tree.add(this.chat, node.parent, "user", fields);
    this.#answer(this.chat, made.id);
  }

  again(node) {
    if (this.running) return;
    // What failed before a word was said leaves nothing worth keeping.
    if (node.state === "error" && node.text === "" && node.reasoning === "") {
      tree.remove(this.chat, node);
    }
    this.#answer(this.chat, node.parent);
  }

  remove(node) {
    if (this.running) this.stop();
    const { chat } = this;
    const taken = tree.remove(chat, node);
    store.saveChat(chat);
    this.render();
    toast("Deleted.", "Undo", () => {
      tree.restore(chat, taken);
      store.saveChat(chat);
      if (this.chat === chat) this.render();
    });
  }

  editLast() {
    const last = tree.path(this.chat).findLast((node) => node.role === "user");
    if (last !== undefined) this.views.get(last.id)?.edit();
    return last !== undefined;
  }

  stop(id = this.chat?.id) { this.runs.get(id)?.abort.abort(); }

  forget(id) {
    const run = this.runs.get(id);
    if (run === undefined) return;
    run.gone = true;
    run.abort.abort();
  }

  #change(what, node) {
    if (this.running) return;
    what();
    store.saveChat(this.chat);
    this.render();
    // Buttons were made anew: the keyboard stays with the message in this place.
    const shown = tree.siblings(this.chat, node).find((one) => this.views.has(one.id));
    this.views.get(shown?.id)?.actions.querySelector("button:not(:disabled)")?.focus();
  }

  async #answer(chat, parent) {
    const node = tree.add(chat, parent, "assistant",
      { reasoning: "", thought: 0, tools: [], stats: null, error: "", finish: "", state: "streaming" });
    const run = { chat, node, abort: new AbortController(), gone: false, drawn: 0, cost: 0, timer: 0,
                  saved: performance.now() };
    this.runs.set(chat.id, run);
    store.saveChat(chat);
    this.stuck = true;
    this.render();
    announce("Answering");
    const body = {
      messages: tree.messagesTo(chat, parent),
      stream: true,
      stream_options: { include_usage: true },
      ...this.app.settings(),
    };
    const begun = performance.now();
    let thinking = 0;
    let first = 0;
    let pieces = 0;
    let model = "";
    try {
      await streamChat(body, run.abort.signal, (chunk) => {
        const choice = chunk.choices?.[0];
        const delta = choice?.delta ?? {};
        const now = performance.now();
        const thought = delta.reasoning_content ?? delta.reasoning ?? "";
        const said = typeof delta.content === "string" ? delta.content : "";
        if (thought !== "") {
          if (thinking === 0) thinking = now;
          node.reasoning += thought;
        }
        if (said !== "") {
          if (thinking > 0 && node.text === "") node.thought = (now - thinking) / 1000;
          node.text += said;
        }
        addTools(node.tools, delta.tool_calls);
        if (thought !== "" || said !== "" || delta.tool_calls) {
          if (first === 0) first = now;
          else ++pieces;
          // Until the server says, as many as have come.
          node.stats = { ...node.stats, made: pieces + 1,
                         speed: now - first > 500 ? (1000 * pieces) / (now - first) : 0 };
        }
        if (typeof chunk.model === "string") model = chunk.model;
        if (choice?.finish_reason) node.finish = choice.finish_reason;
        takeFigures(node, chunk);
        this.#draw(run);
      });
      node.state = "done";
      const size = this.app.props()?.n_ctx ?? 0;
      const used = (node.stats?.prompt ?? 0) + (node.stats?.made ?? 0);
      if (node.finish === "length" && size > 0 && used >= size - 1) node.finish = "context";
    } catch (error) {
      if (error.name === "AbortError") {
        node.state = "stopped";
      } else {
        node.state = "error";
        node.kind = error.kind;
        node.error = error instanceof ServerError
          ? error.message : `The page failed: ${error.message}`;
        if (error.kind === "key") this.app.askKey();
      }
    }
    if (node.reasoning !== "" && node.thought === 0) node.thought = (performance.now() - thinking) / 1000;
    node.model = model;
    chat.updated = Date.now();
    clearTimeout(run.timer);
    this.runs.delete(chat.id);
    if (run.gone) return;
    store.saveChat(chat);
    if (this.chat === chat) {
      this.render();
      announce(node.state === "done" ? `The answer is there, ${node.text.length} characters.`
        : node.state === "stopped" ? "Stopped" : node.error);
    } else {
      this.app.changed();
    }
    this.app.answered?.(performance.now() - begun);
  }

  // Draws as often as the browser does, and less often when drawing takes long.
  #draw(run) {
    if (run.timer !== 0) return;
    const wait = Math.max(0, run.drawn + run.cost * FRAME_SHARE - performance.now());
    run.timer = setTimeout(() => {
      const paint = () => {
        run.timer = 0;
        if (run.node.state !== "streaming") return;
        const from = performance.now();
        if (this.chat === run.chat) {
          this.views.get(run.node.id)?.update();
          this.#follow();
        }
        if (from - run.saved > SAVE_MS && !run.gone) {
          store.saveChat(run.chat);
          run.saved = from;
        }
        run.drawn = performance.now();
        run.cost = run.drawn - from;
      };
      if (document.visibilityState === "visible") requestAnimationFrame(paint);
      else paint();
    }, wait);
  }
}

/** Calls come in pieces: each names its place, the first also its name. */
function addTools(tools, pieces) {
  if (!Array.isArray(pieces)) return;
  for (const piece of pieces) {
    const at = Number.isInteger(piece.index) && piece.index >= 0 && piece.index < 64
      ? piece.index : tools.length;
    while (tools.length <= at) tools.push({ name: "", arguments: "" });
    if (typeof piece.function?.name === "string") tools[at].name += piece.function.name;
    if (typeof piece.function?.arguments === "string") tools[at].arguments += piece.function.arguments;
  }
}

function takeFigures(node, chunk) {
  const { timings, usage } = chunk;
  if (timings) {
    node.stats = {
      made: timings.predicted_n ?? 0,
      speed: timings.predicted_per_second ?? 0,
      prompt: (timings.prompt_n ?? 0) + (timings.cache_n ?? 0),
      cached: timings.cache_n ?? 0,
      read: timings.prompt_n > 16 ? timings.prompt_per_second ?? 0 : 0,
    };
  } else if (usage && !(node.stats?.prompt > 0)) {
    node.stats = { ...node.stats, made: usage.completion_tokens ?? 0, prompt: usage.prompt_tokens ?? 0,
                   cached: usage.prompt_tokens_details?.cached_tokens ?? 0 };
  }
}
