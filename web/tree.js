// A conversation as a tree: every message knows what it answers, `head` is the end that is shown.
// Editing or asking again makes a sibling; nothing that was said is lost.
import { newId } from "./ui.js";

/** From the first message to the head. */
export function path(chat) {
  const out = [];
  for (let id = chat.head; id !== null; id = chat.nodes[id].parent) out.push(chat.nodes[id]);
  return out.reverse();
}

export function add(chat, parent, role, fields) {
  const node = { id: newId(), parent, role, text: "", at: Date.now(), ...fields };
  chat.nodes[node.id] = node;
  chat.head = node.id;
  chat.updated = node.at;
  return node;
}

/** Messages in the same place, in the order in which they were made. */
export function siblings(chat, node) {
  return Object.values(chat.nodes).filter(
    (one) => one.parent === node.parent && one.role === node.role);
}

const children = (chat, id) => Object.values(chat.nodes).filter((one) => one.parent === id);

/** The newest end below a message. */
export function endBelow(chat, id) {
  for (;;) {
    const below = children(chat, id);
    if (below.length === 0) return id;
    id = below[below.length - 1].id;
  }
}

/** Shows the sibling `step` places on. */
export function turn(chat, node, step) {
  const all = siblings(chat, node);
  const at = all.indexOf(node) + step;
  if (at < 0 || at >= all.length) return;
  chat.head = endBelow(chat, all[at].id);
}

/** Takes a message out with everything after it; the nodes, to put back with restore(). */
export function remove(chat, node) {
  const head = chat.head;
  const all = siblings(chat, node);
  const at = all.indexOf(node);
  const taken = [];
  const take = [node.id];
  while (take.length > 0) {
    const id = take.pop();
    for (const child of children(chat, id)) take.push(child.id);
    taken.push(chat.nodes[id]);
  }
  const order = Object.keys(chat.nodes);
  for (const one of taken) delete chat.nodes[one.id];
  const other = all[at - 1] ?? all[at + 1];
  chat.head = other ? endBelow(chat, other.id) : node.parent;
  return { taken, head, order };
}

export function restore(chat, { taken, head, order }) {
  const nodes = { ...chat.nodes };
  for (const node of taken) nodes[node.id] = node;
  const known = order.filter((id) => Object.hasOwn(nodes, id));
  const later = Object.keys(nodes).filter((id) => !order.includes(id));
  chat.nodes = Object.fromEntries([...known, ...later].map((id) => [id, nodes[id]]));
  chat.head = head;
}

/** A user's message as the model reads it: attached files first, each in a fence of its own. */
export function contentOf(node) {
  if (!node.files?.length) return node.text;
  const parts = node.files.map((file) => {
    let fence = "```";
    for (const [run] of file.text.matchAll(/`{3,}/g)) {
      if (run.length >= fence.length) fence = "`".repeat(run.length + 1);
    }
    const end = file.text.endsWith("\n") ? "" : "\n";
    return `File ${file.name}:\n${fence}\n${file.text}${end}${fence}`;
  });
  return [...parts, node.text].filter((part) => part !== "").join("\n\n");
}

/**
 * What is sent for an answer below `id`. An answer that never came is left out, and the messages
 * around it become one: templates want the roles to take turns.
 */
export function messagesTo(chat, id) {
  const way = [];
  for (; id !== null; id = chat.nodes[id].parent) way.push(chat.nodes[id]);
  const out = [];
  if (chat.system.trim() !== "") out.push({ role: "system", content: chat.system });
  for (const node of way.reverse()) {
    if (node.role === "assistant" && node.text === "") continue;
    const last = out[out.length - 1];
    if (last?.role === node.role) last.content += `\n\n${contentOf(node)}`;
    else out.push({ role: node.role, content: contentOf(node) });
  }
  return out;
}

export function titleFrom(text) {
  const line = text.split("\n").find((one) => one.trim() !== "")?.trim() ?? "";
  const plain = line.replace(/^[#>*\-\s]+/, "");
  if (plain.length <= 48) return plain;
  const cut = plain.slice(0, 48);
  const space = cut.lastIndexOf(" ");
  return `${space > 24 ? cut.slice(0, space) : cut}…`;
}
