// Small helpers of every view: elements, icons, numbers in words, copying, notices.
// Elements are made with createElement and textContent only: no string is ever parsed as HTML.

export const $ = (id) => document.getElementById(id);

/** An element. Attributes with on... are listeners; null and false are left out. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h10",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M8 8h8v8H8z",
  attach: "M20 11.5l-8.3 8.3a5 5 0 0 1-7.1-7.1l8.6-8.6a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.7",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  again: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  down: "M12 5v14M6 13l6 6 6-6",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6l1.4 1.4M17 17l1.4 1.4M18.4 5.6L17 7M7 17l-1.4 1.4",
  moon: "M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.5 9.5",
  half: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  think: "M12 4a6 6 0 0 0-3 11v2h6v-2a6 6 0 0 0-3-11M10 20h4",
  tool: "M5 19l7-7M14 5a4 4 0 0 0 5 5l-4 4-5-5z",
  export: "M12 4v11M7.5 8.5L12 4l4.5 4.5M5 15v5h14v-5",
};

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" },
             svg("path", { d: PATHS[name] }));
}

/** A button that shows an icon; its label is what a screen reader says and the tooltip. */
export function iconButton(name, label, onclick, extra = {}) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label,
                        onclick, ...extra }, icon(name));
}

// ---- Numbers

export const count = (n) => Math.round(n).toLocaleString("en-US");

export function bytes(n) {
  if (n < 1024) return `${Math.round(n)} B`;
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MiB`;
  return `${(n / 1024 ** 3).toFixed(2)} GiB`;
}

export const rate = (n) => (n >= 100 ? n.toFixed(0) : n.toFixed(1));

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function parameters(n) {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)} B parameters`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M parameters`;
  return `${count(n)} parameters`;
}

// ---- Saying things

/** Told to screen readers, shown to nobody. */
export function announce(text) {
  const live = $("live");
  live.textContent = "";
  setTimeout(() => { live.textContent = text; }, 50);
}

/** A short line at the bottom; with an action it stays longer. */
export function toast(text, action = null, run = null) {
  const box = el("div", { class: "toast", role: "status" }, el("span", { text }));
  const end = () => box.remove();
  if (action !== null) {
    box.append(el("button", { type: "button", class: "quiet strong", text: action,
                              onclick: () => { end(); run(); } }));
  }
  $("toasts").append(box);
  while ($("toasts").children.length > 3) $("toasts").firstChild.remove();
  setTimeout(end, action === null ? 3500 : 9000);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS on another machine's address there is no clipboard: the old way.
  }
  const area = el("textarea", { class: "hidden", "aria-hidden": "true" });
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** A button that copies what `text()` gives and says so. */
export function copyButton(label, text, extra = {}) {
  const button = iconButton("copy", label, async () => {
    const done = await copyText(text());
    button.replaceChildren(icon(done ? "check" : "close"));
    announce(done ? "Copied" : "Copying failed");
    if (!done) toast("The browser does not let this page copy.");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  }, extra);
  return button;
}

export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** A name that cannot be guessed wrong: works without a secure context too. */
export function newId() {
  const random = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(random, (byte) => byte.toString(36).padStart(2, "0")).join("");
}
