// The list of conversations.
import * as store from "./store.js";
import { $, download, el, icon, iconButton, toast } from "./ui.js";

const DAY = 86_400_000;

function when(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  if (time >= today - 7 * DAY) return "Last seven days";
  return "Earlier";
}

const fileName = (title) => `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation"}.json`;

/** Asks for a name; null when there is none. */
function askName(title) {
  const dialog = $("name-dialog");
  $("name-input").value = title;
  dialog.returnValue = "";
  dialog.showModal();
  $("name-input").select();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const name = $("name-input").value.trim();
      resolve(dialog.returnValue === "ok" && name !== "" ? name : null);
    }, { once: true });
  });
}

export class Sidebar {
  /** `app`: chat(), open(id), fresh(), running(id), forget(id), renamed(id, title). */
  constructor(app) {
    this.app = app;
    this.menu = null;
    $("side-open").append(icon("menu"));
    $("side-close").append(icon("close"));
    $("new-chat").append(icon("plus"), el("span", { text: "New conversation" }));
    $("side-open").addEventListener("click", () => this.toggle(true));
    $("side-close").addEventListener("click", () => this.toggle(false));
    $("shade").addEventListener("click", () => this.toggle(false));
    $("new-chat").addEventListener("click", () => { this.toggle(false); app.fresh(); });
    $("side-filter").addEventListener("input", () => this.render());
    $("export-all").addEventListener("click", () => {
      const chats = store.chatList().map((one) => store.loadChat(one.id)).filter(Boolean);
      if (chats.length === 0) toast("There is nothing to export yet.");
      else download("strata-conversations.json", JSON.stringify({ strata: 1, conversations: chats }, null, 1));
    });
    $("import").addEventListener("click", () => $("import-file").click());
    $("import-file").addEventListener("change", () => this.#import());
    document.addEventListener("click", (event) => {
      if (this.menu !== null && !this.menu.contains(event.target)) this.#closeMenu();
    });
    this.narrow = matchMedia("(max-width: 860px)");
    this.narrow.addEventListener("change", () => this.toggle(false));
    this.toggle(false);
  }

  /** On a narrow window the list lies over the page. */
  toggle(open) {
    const over = open && this.narrow.matches;
    document.body.classList.toggle("side-over", over);
    $("shade").hidden = !over;
    $("side-open").setAttribute("aria-expanded", String(over));
    $("sidebar").inert = this.narrow.matches && !open;
    $("stage").inert = over;
    if (over) $("side-close").focus();
    else if ($("sidebar").contains(document.activeElement)) $("side-open").focus();
  }

  get over() { return document.body.classList.contains("side-over"); }

  render() {
    const wanted = $("side-filter").value.trim().toLowerCase();
    const all = store.chatList();
    const list = all.filter((one) => one.title.toLowerCase().includes(wanted));
    const current = this.app.chat()?.id;
    const items = [];
    let group = "";
    for (const one of list) {
      const name = when(one.updated);
      if (name !== group) items.push(el("li", { class: "group", text: name }));
      group = name;
      items.push(this.#item(one, one.id === current));
    }
    if (list.length === 0) {
      items.push(el("li", { class: "none", text: all.length === 0
        ? "Conversations stay in this browser. There are none yet." : "None with these words." }));
    }
    $("chat-list").replaceChildren(...items);
    document.querySelector(".side-search").hidden = all.length < 8 && wanted === "";
    $("export-all").hidden = all.length === 0;
  }

  #item({ id, title }, current) {
    const name = title || "Untitled";
    const open = el("button", { type: "button", class: "chat-name", "aria-current": current ? "true" : null,
      title: name, onclick: () => { this.toggle(false); this.app.open(id); } },
      this.app.running(id) ? el("span", { class: "pulse", role: "img", "aria-label": "answering" }) : null,
      el("span", { text: name }));
    const more = iconButton("more", `More about ${name}`, (event) => {
      event.stopPropagation();
      this.#openMenu(more, id, name);
    }, { "aria-haspopup": "menu" });
    return el("li", { class: current ? "chat current" : "chat" }, open, more);
  }

  #openMenu(button, id, name) {
    const same = this.menu?.parentElement === button.parentElement;
    this.#closeMenu();
    if (same) return;
    const entry = (glyph, label, run) => el("button", { type: "button", role: "menuitem",
      onclick: () => { this.#closeMenu(); run(); } }, icon(glyph), el("span", { text: label }));
    this.menu = el("div", { class: "menu", role: "menu", "aria-label": name },
      entry("edit", "Rename", () => this.#rename(id)),
      entry("export", "Export", () => {
        const chat = store.loadChat(id);
        if (chat) download(fileName(name), JSON.stringify(chat, null, 1));
      }),
      entry("bin", "Delete", () => this.#delete(id)));
    this.menu.addEventListener("keydown", (event) => {
      const all = [...this.menu.children];
      const at = all.indexOf(document.activeElement);
      if (event.key === "Escape") {
        event.stopPropagation();
        this.#closeMenu();
        button.focus();
      } else if (event.key === "ArrowDown") all[(at + 1) % all.length].focus();
      else if (event.key === "ArrowUp") all[(at + all.length - 1) % all.length].focus();
      else return;
      event.preventDefault();
    });
    button.setAttribute("aria-expanded", "true");
    button.after(this.menu);
    // Near the lower end it opens upwards.
    if (this.menu.getBoundingClientRect().bottom > innerHeight - 8) this.menu.classList.add("up");
    this.menu.firstElementChild.focus();
  }

  #closeMenu() {
    this.menu?.previousElementSibling?.removeAttribute("aria-expanded");
    this.menu?.remove();
    this.menu = null;
  }

  async #rename(id) {
    const one = store.chatList().find((item) => item.id === id);
    const name = await askName(one?.title ?? "");
    if (name !== null) this.app.renamed(id, name);
  }

  #delete(id) {
    this.app.forget(id);
    const chat = store.loadChat(id);
    store.removeChat(id);
    if (this.app.chat()?.id === id) this.app.fresh();
    else this.render();
    if (chat === null) return;
    toast(`Deleted “${chat.title || "Untitled"}”.`, "Undo", () => {
      store.saveChat(chat);
      this.app.open(id);
    });
  }

  async #import() {
    const [file] = $("import-file").files;
    $("import-file").value = "";
    if (!file) return;
    try {
      if (file.size > 50_000_000) throw new Error("too large");
      const raw = JSON.parse(await file.text());
      const chats = (Array.isArray(raw?.conversations) ? raw.conversations : [raw])
        .map(store.cleanChat).filter((chat) => chat !== null && Object.keys(chat.nodes).length > 0);
      if (chats.length === 0) throw new Error("nothing in it");
      const known = new Set(store.chatList().map((one) => one.id));
      for (const chat of chats) {
        // What is there already is not written over.
        if (known.has(chat.id)) chat.id = store.newChat().id;
        store.saveChat(chat);
      }
      this.app.open(chats[0].id);
      toast(chats.length === 1 ? "Imported one conversation." : `Imported ${chats.length} conversations.`);
    } catch {
      toast("That file holds no conversation of this page.");
    }
  }
}
