// What is kept in this browser: conversations, settings, the key of this tab.
// Everything that comes out of storage or of a file is checked: it may be old, cut off or foreign.
import { newId } from "./ui.js";

const INDEX = "strata.chats";
const CHAT = "strata.chat.";
const SETTINGS = "strata.settings";
const KEY = "strata.key";
const LONGEST = 4_000_000;  // characters of one conversation

function read(storage, name) {
  try {
    return JSON.parse(storage.getItem(name));
  } catch {
    return null;
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value, most = LONGEST) => (typeof value === "string" ? value.slice(0, most) : "");
const number = (value) => (Number.isFinite(value) ? value : 0);

function cleanFiles(files) {
  if (!Array.isArray(files)) return [];
  return files.filter(isObject).slice(0, 50).map((file) => (
    { name: text(file.name, 200) || "file", size: number(file.size), text: text(file.text) }));
}

function cleanStats(stats) {
  if (!isObject(stats)) return null;
  const out = {};
  for (const [name, value] of Object.entries(stats)) {
    if (Number.isFinite(value)) out[name] = value;
  }
  return out;
}

function cleanNode(node, id) {
  const out = {
    id,
    parent: typeof node.parent === "string" ? node.parent : null,
    role: node.role === "assistant" ? "assistant" : "user",
    text: text(node.text),
    at: number(node.at),
  };
  const files = cleanFiles(node.files);
  if (files.length > 0) out.files = files;
  if (out.role === "assistant") {
    out.reasoning = text(node.reasoning);
    out.thought = number(node.thought);
    out.tools = Array.isArray(node.tools)
      ? node.tools.filter(isObject).slice(0, 100).map((tool) => (
        { name: text(tool.name, 200), arguments: text(tool.arguments) })) : [];
    out.stats = cleanStats(node.stats);
    out.error = text(node.error, 2000);
    out.finish = text(node.finish, 40);
    // An answer that was on its way when the page went is over.
    out.state = ["done", "stopped", "error"].includes(node.state) ? node.state : "broken";
  }
  return out;
}

/** A conversation from whatever was stored; null when it is none. */
export function cleanChat(raw) {
  if (!isObject(raw) || !isObject(raw.nodes)) return null;
  const nodes = {};
  for (const [id, node] of Object.entries(raw.nodes)) {
    if (isObject(node) && id.length <= 64 && id !== "__proto__") nodes[id] = cleanNode(node, id);
  }
  // Parents must be there, and nobody may be an ancestor of itself.
  for (const node of Object.values(nodes)) {
    if (node.parent !== null && !Object.hasOwn(nodes, node.parent)) node.parent = null;
  }
  const good = new Set();
  for (const node of Object.values(nodes)) {
    const way = new Set();
    for (let at = node; at !== null && !good.has(at.id);) {
      if (way.has(at.id)) { at.parent = null; break; }
      way.add(at.id);
      at = at.parent === null ? null : nodes[at.parent];
    }
    for (const id of way) good.add(id);
  }
  const ids = Object.keys(nodes);
  const head = typeof raw.head === "string" && Object.hasOwn(nodes, raw.head)
    ? raw.head : ids.length > 0 ? ids[ids.length - 1] : null;
  return {
    id: typeof raw.id === "string" && /^[\w-]{1,64}$/.test(raw.id) ? raw.id : newId(),
    title: text(raw.title, 120),
    named: raw.named === true,
    created: number(raw.created) || Date.now(),
    updated: number(raw.updated) || Date.now(),
    system: text(raw.system),
    nodes,
    head,
  };
}

export function newChat(system = "") {
  const now = Date.now();
  return { id: newId(), title: "", named: false, created: now, updated: now, system, nodes: {},
           head: null };
}

/** [{id, title, updated}], the newest first. */
export function chatList() {
  const list = read(localStorage, INDEX);
  if (!Array.isArray(list)) return [];
  return list
    .filter((one) => isObject(one) && typeof one.id === "string")
    .map((one) => ({ id: one.id, title: text(one.title, 120), updated: number(one.updated) }))
    .sort((a, b) => b.updated - a.updated);
}

export function loadChat(id) {
  const chat = cleanChat(read(localStorage, CHAT + id));
  if (chat !== null) chat.id = id;
  return chat;
}

let full = null;  // who is told that there is no room left
export function onStorageFull(tell) { full = tell; }

function write(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    full?.();
    return false;
  }
}

export function saveChat(chat) {
  if (!write(localStorage, CHAT + chat.id, chat)) return;
  const list = chatList().filter((one) => one.id !== chat.id);
  list.push({ id: chat.id, title: chat.title, updated: chat.updated });
  write(localStorage, INDEX, list);
}

export function removeChat(id) {
  localStorage.removeItem(CHAT + id);
  write(localStorage, INDEX, chatList().filter((one) => one.id !== id));
}

/** Whether a storage event is about the list, and about which conversation. */
export function changedChat(event) {
  if (event.key === null || event.key === INDEX) return "";
  return event.key.startsWith(CHAT) ? event.key.slice(CHAT.length) : null;
}

// ---- Settings

/** Sampling settings: what the user set; what is absent is the server's. */
export function loadSettings() {
  const raw = read(localStorage, SETTINGS);
  const settings = { sampling: {}, system: "" };
  if (!isObject(raw)) return settings;
  settings.system = text(raw.system);
  if (isObject(raw.sampling)) {
    for (const [name, value] of Object.entries(raw.sampling)) {
      if (Number.isFinite(value)) settings.sampling[name] = value;
    }
  }
  return settings;
}

export const saveSettings = (settings) => write(localStorage, SETTINGS, settings);

export function apiKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function setApiKey(key) {
  try {
    if (key === "") sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    // Asked for again then.
  }
}
