// The page: puts its parts together, knows which view is shown, takes the keys.
//
// The address names a view only (#chat/ID, #memory). Nothing in it is ever sent or typed.
import { getJson } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { MemoryView } from "./memory.js";
import { Settings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import * as store from "./store.js";
import { $, icon, toast } from "./ui.js";

let props = null;
let view = "chat";

const app = {
  props: () => props,
  chat: () => chat.chat,
  settings: () => settings.sampling(),
  running: (id) => chat.runs.has(id),
  forget: (id) => chat.forget(id),
  askKey: () => askKey(),
  setKey(key) {
    store.setApiKey(key);
    connect();
  },
  open(id) {
    const found = chat.runs.get(id)?.chat ?? store.loadChat(id);
    if (found === null) {
      toast("This conversation is no longer there.");
      app.fresh();
      return;
    }
    turnTo(found);
  },
  fresh() { turnTo(store.newChat(settings.values.system)); },
  renamed(id, title) {
    const one = chat.chat.id === id ? chat.chat : chat.runs.get(id)?.chat ?? store.loadChat(id);
    if (one === null) return;
    one.title = title;
    one.named = true;
    store.saveChat(one);
    app.changed();
  },
  systemChanged() {
    if (Object.keys(chat.chat.nodes).length > 0) store.saveChat(chat.chat);
    composer.setSystem(chat.chat.system);
  },
  changed() {
    sidebar.render();
    composer.setBusy(chat.running);
    composer.setSystem(chat.chat.system);
    const title = chat.chat.title || "New conversation";
    $("title").textContent = view === "memory" ? "Memory" : title;
    document.title = view === "memory" ? "Memory · Strata" : `${title} · Strata`;
    tellAddress();
  },
};

const chat = new Chat(app);
const settings = new Settings({ ...app, chat: () => chat.chat });
const composer = new Composer({
  send: (text, files) => chat.send(text, files),
  stop: () => chat.stop(),
  editLast: () => chat.editLast(),
  system: () => settings.open("system"),
});
const sidebar = new Sidebar(app);
const memory = new MemoryView($("memory-view"), app);

// ---- Views

function turnTo(next) {
  const before = chat.chat?.id ?? null;
  composer.turnTo(before, next.id);
  chat.open(next);
  showView("chat");
  composer.focus();
}

function showView(name) {
  view = name;
  const inMemory = name === "memory";
  $("chat-view").hidden = inMemory;
  $("memory-view").hidden = !inMemory;
  $("tab-chat").setAttribute("aria-pressed", String(!inMemory));
  $("tab-memory").setAttribute("aria-pressed", String(inMemory));
  memory.show(inMemory);
  app.changed();
}

/** The address says what is shown, so that a reload shows it again. */
function tellAddress() {
  const stored = Object.keys(chat.chat.nodes).length > 0;
  const hash = view === "memory" ? "#memory" : stored ? `#chat/${chat.chat.id}` : "";
  if (location.hash === hash) return;
  history.replaceState(null, "", hash === "" ? location.pathname + location.search : hash);
}

function fromAddress() {
  const [, id] = /^#chat\/([\w-]{1,64})$/.exec(location.hash) ?? [];
  const list = store.chatList();
  const known = list.some((one) => one.id === id);
  const inMemory = location.hash === "#memory";
  if (known && id !== chat.chat?.id) app.open(id);
  else if (chat.chat === null) {
    // A reload finds the conversation again; a new visit begins with a new one.
    if (inMemory && list.length > 0) app.open(list[0].id);
    else app.fresh();
  }
  showView(inMemory ? "memory" : "chat");
}

// ---- The server

let tries = 0;
let retry = 0;

async function connect() {
  clearTimeout(retry);
  try {
    props = await getJson("props");
    tries = 0;
    $("notice").hidden = true;
    $("model-name").textContent = props.model_alias ?? "";
    $("model-name").title = props.model_family ?? "";
    if (settings.dialog.open) settings.show();
    chat.render();
  } catch (error) {
    if (error.kind === "key") {
      askKey();
      return;
    }
    $("notice").textContent = error.message;
    $("notice").hidden = false;
    retry = setTimeout(connect, Math.min(15_000, 1000 * 2 ** tries++));
  }
}


function askKey() {
  const dialog = $("key-dialog");
  if (dialog.open) return;
  const before = store.apiKey();
  if (before !== "") {
    $("key-why").textContent = "The server does not take the key that it got. Check it for a letter too " +
      "many or too few.";
  }
  $("key-input").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  $("key-input").focus();
}

$("key-dialog").addEventListener("close", () => {
  const key = $("key-input").value.trim();
  $("key-input").value = "";
  if ($("key-dialog").returnValue !== "ok" || key === "") {
    $("notice").textContent = "Without its key the server does not answer.";
    $("notice").hidden = false;
    return;
  }
  app.setKey(key);
});

// ---- Theme

const THEMES = { auto: ["half", "Theme: as the system has it"], light: ["sun", "Theme: light"],
                 dark: ["moon", "Theme: dark"] };

function showTheme() {
  const name = document.documentElement.dataset.theme ?? "auto";
  const [glyph, label] = THEMES[name];
  $("theme").replaceChildren(icon(glyph));
  $("theme").setAttribute("aria-label", label);
  $("theme").title = label;
}

$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const at = names.indexOf(document.documentElement.dataset.theme ?? "auto");
  const next = names[(at + 1) % names.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("strata.theme");
    else localStorage.setItem("strata.theme", next);
  } catch {
    // For this visit only then.
  }
  showTheme();
});

// ---- Keys

function openKeys() {
  if (document.querySelector("dialog[open]") === null) $("keys-dialog").showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "/") {
    event.preventDefault();
    openKeys();
    return;
  }
  if (document.querySelector("dialog[open]") !== null) return;
  if (event.key === "Escape") {
    if (sidebar.over) sidebar.toggle(false);
    else if (chat.running) chat.stop();
    return;
  }
  if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    const run = {
      KeyN: () => app.fresh(),
      KeyM: () => showView(view === "memory" ? "chat" : "memory"),
      Comma: () => settings.open(),
    }[event.code];
    if (run !== undefined) {
      event.preventDefault();
      run();
    }
    return;
  }
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing && !event.ctrlKey && view === "chat") {
    event.preventDefault();
    $("composer-text").focus();
  }
});

// ---- Beginning

$("open-settings").append(icon("gear"));
$("open-settings").addEventListener("click", () => settings.open());
$("open-keys").addEventListener("click", openKeys);
// Not buttons that submit: Enter in a field would press the first of them.
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
$("tab-chat").addEventListener("click", () => { showView("chat"); composer.focus(); });
$("tab-memory").addEventListener("click", () => showView("memory"));
window.addEventListener("hashchange", fromAddress);
window.addEventListener("storage", (event) => {
  const id = store.changedChat(event);
  if (id === null) return;
  // Another tab went on with this conversation.
  if (id === chat.chat.id && !chat.running) {
    const found = store.loadChat(id);
    if (found !== null) chat.open(found);
  } else {
    sidebar.render();
  }
});
let told = false;
store.onStorageFull(() => {
  if (told) return;
  told = true;
  toast("The browser's storage is full: new messages are not kept. Export or delete conversations.");
});

showTheme();
fromAddress();
settings.show();
connect();
composer.focus();
