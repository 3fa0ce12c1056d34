// Markdown within a line: emphasis, code, links. From text to a tree of plain objects.
//
// Time: linear but for emphasis that closes nothing, where it is bounded as CommonMark's own method
// is. Depth: at most MOST_DEPTH; what is deeper stays as it was written.
// Nodes: {t: "text" | "code" | "math", v}, {t: "strong" | "em" | "del", c}, {t: "link", href, c},
// {t: "br"}.

const MOST_DEPTH = 20;
const LONGEST_LINK = 2000;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ANY_PUNCTUATION = /[\p{P}\p{S}]/u;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ndash: "–",
                   mdash: "—", hellip: "…", rarr: "→", larr: "←", times: "×", deg: "°", copy: "©" };

/** The address as it may be followed, or null: only the web and mail. */
export function safeLink(text) {
  // A scheme must be written out: nothing relative, nothing that only looks like one.
  if (!/^(https?:\/\/|mailto:)/i.test(text)) return null;
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function entity(text, at) {
  const match = /&(?:([a-zA-Z]{2,8})|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));/y;
  match.lastIndex = at;
  const found = match.exec(text);
  if (found === null) return null;
  if (found[1] !== undefined) {
    return Object.hasOwn(ENTITIES, found[1]) ? [ENTITIES[found[1]], found[0].length] : null;
  }
  const code = found[2] !== undefined ? Number(found[2]) : parseInt(found[3], 16);
  const good = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return [good ? String.fromCodePoint(code) : "\ufffd", found[0].length];
}

/** "(address "title")" at `at`: [address, end], or null. */
function linkTarget(text, at) {
  let i = at + 1;
  const end = Math.min(text.length, at + LONGEST_LINK);
  while (i < end && /\s/.test(text[i])) ++i;
  let address = "";
  if (text[i] === "<") {
    const close = text.slice(i, end).indexOf(">");
    if (close < 0) return null;
    address = text.slice(i + 1, i + close);
    i += close + 1;
  } else {
    let open = 0;
    const start = i;
    for (; i < end && !/[\s\0-\x1f]/.test(text[i]); ++i) {
      if (text[i] === "\\" && i + 1 < end) ++i;
      else if (text[i] === "(") ++open;
      else if (text[i] === ")" && open-- === 0) break;
    }
    address = text.slice(start, i);
  }
  while (i < end && /\s/.test(text[i])) ++i;
  if (text[i] === '"' || text[i] === "'") {
    const close = text.slice(i + 1, end).indexOf(text[i]);
    if (close < 0) return null;
    i += close + 2;
    while (i < end && /\s/.test(text[i])) ++i;
  }
  return text[i] === ")" ? [address.replace(/\\([!-/:-@[-`{-~])/g, "$1"), i + 1] : null;
}

/** An address written out, from `at`: its length without what belongs to the sentence. */
function bareLink(text, at) {
  const match = /https?:\/\/[^\s<>\x00-\x1f]{1,2000}/y;
  match.lastIndex = at;
  const found = match.exec(text);
  if (found === null) return 0;
  const url = found[0];
  const bracket = url.includes("[");
  let open = url.split("(").length - url.split(")").length;
  let n = url.length;
  for (; n > 0; --n) {
    const last = url[n - 1];
    if (last === ")" && open < 0) ++open;
    else if (!/[?!.,:;*_~'"`|]/.test(last) && (last !== "]" || bracket)) break;
  }
  return n > url.indexOf("//") + 2 ? n : 0;
}

// A list of nodes in which emphasis can be moved into one node cheaply.
class Chain {
  constructor() { this.head = { next: null, prev: null }; this.tail = this.head; }
  push(item) {
    item.prev = this.tail;
    item.next = null;
    this.tail.next = item;
    this.tail = item;
  }
}

const depthOf = (items) => items.reduce((most, item) => Math.max(most, item.d ?? 0), 0);

/** Pairs the delimiters after `start`, as CommonMark does; `hopeful` closes what is open at the end. */
function emphasis(chain, start, hopeful) {
  const bottoms = new Map();
  const openers = [];
  for (let closer = start.next; closer !== null; closer = closer.next) {
    if (closer.t !== "mark" || closer.n === 0) continue;
    if (closer.closes) {
      const kind = `${closer.ch}${closer.opens}${closer.run % 3}`;
      const bottom = bottoms.get(kind) ?? 0;
      let found = -1;
      for (let k = openers.length - 1; k >= bottom; --k) {
        const opener = openers[k];
        if (opener.ch !== closer.ch || opener.n === 0) continue;
        const odd = (opener.closes || closer.opens) && (opener.run + closer.run) % 3 === 0 &&
          !(opener.run % 3 === 0 && closer.run % 3 === 0);
        if (!odd || closer.ch === "~") { found = k; break; }
      }
      if (found >= 0) {
        const opener = openers[found];
        openers.length = found + 1;
        for (const [key, value] of bottoms) bottoms.set(key, Math.min(value, openers.length));
        const double = closer.ch === "~" || (opener.n >= 2 && closer.n >= 2);
        const n = double ? 2 : 1;
        if (wrap(chain, opener, closer, closer.ch === "~" ? "del" : double ? "strong" : "em")) {
          opener.n -= n;
          closer.n -= n;
          if (opener.n === 0) openers.pop();
          if (closer.n > 0) { closer = closer.prev; continue; }
        } else {
          // Too deep: so is all that is open around it.
          openers.length = 0;
          bottoms.clear();
        }
        continue;
      }
      bottoms.set(kind, openers.length);
    }
    if (closer.opens && closer.n > 0) openers.push(closer);
  }
  if (!hopeful) return;
  // The text is still coming: bold that has begun is shown as such.
  for (const opener of openers.slice(-4).reverse()) {
    if (opener.n >= 2 && opener.ch !== "_" && opener.next !== null) {
      if (wrap(chain, opener, null, opener.ch === "~" ? "del" : "strong")) opener.n -= 2;
    }
  }
}

function wrap(chain, opener, closer, kind) {
  const inside = [];
  for (let item = opener.next; item !== closer; item = item.next) inside.push(item);
  const depth = depthOf(inside) + 1;
  if (inside.length === 0 || depth > MOST_DEPTH) return false;
  const node = { t: kind, c: settle(inside), d: depth, prev: opener, next: closer };
  opener.next = node;
  if (closer !== null) closer.prev = node;
  else chain.tail = node;
  return true;
}

/** Marks that close nothing become text; neighbouring texts become one. */
function settle(items) {
  const out = [];
  for (const item of items) {
    let node = item;
    if (item.t === "mark") {
      if (item.n === 0) continue;
      node = { t: "text", v: item.ch.repeat(item.n) };
    }
    const last = out[out.length - 1];
    if (node.t === "text" && last?.t === "text") last.v += node.v;
    else out.push(node.t === "text" ? { t: "text", v: node.v } : node);
  }
  return out;
}

function itemsAfter(start) {
  const out = [];
  for (let item = start.next; item !== null; item = item.next) out.push(item);
  return out;
}

export function parseInline(text, { hopeful = false } = {}) {
  // Marks at the end may be half of what they will be.
  if (hopeful) text = text.replace(/[*_~`]{1,3}$/, "");
  const chain = new Chain();
  const brackets = [];        // open ones
  const noTicks = new Set();  // lengths of runs of ` that nothing closes any more
  let plain = "";
  const flush = () => {
    if (plain !== "") chain.push({ t: "text", v: plain });
    plain = "";
  };
  const put = (node) => { flush(); chain.push(node); };
  const nexts = new Map();    // where marks that close are, each looked for once
  const nextOf = (word, from) => {
    if (!nexts.has(word) || (nexts.get(word) >= 0 && nexts.get(word) < from)) {
      nexts.set(word, text.indexOf(word, from));
    }
    return nexts.get(word);
  };
  const special = /[\\`*_~[\]!<&\nh$]/g;
  let i = 0;
  while (i < text.length) {
    special.lastIndex = i;
    const found = special.exec(text);
    if (found === null) break;
    plain += text.slice(i, found.index);
    i = found.index;
    const ch = text[i];

    if (ch === "\\") {
      const next = text[i + 1];
      const close = next === "(" ? "\\)" : next === "[" ? "\\]" : null;
      const end = close === null ? -1 : nextOf(close, i + 2);
      if (end >= 0 && end - i < LONGEST_LINK) {
        put({ t: "math", v: text.slice(i, end + 2) });
        i = end + 2;
      } else if (next === "\n") {
        put({ t: "br" });
        i += 2;
      } else if (next !== undefined && PUNCTUATION.test(next)) {
        plain += next;
        i += 2;
      } else {
        plain += ch;
        ++i;
      }
    } else if (ch === "`") {
      let n = 1;
      while (text[i + n] === "`") ++n;
      const close = noTicks.has(n) ? -1 : closingTicks(text, i + n, n);
      if (close >= 0) {
        put({ t: "code", v: codeText(text.slice(i + n, close)) });
        i = close + n;
      } else if (hopeful && n < 3 && i + n < text.length && !text.slice(i).includes("\n\n")) {
        put({ t: "code", v: codeText(text.slice(i + n)) });
        i = text.length;
      } else {
        noTicks.add(n);
        plain += "`".repeat(n);
        i += n;
      }
    } else if (ch === "$") {
      const end = text[i + 1] === "$" ? nextOf("$$", i + 2) : -1;
      if (end > i + 2 && end - i < LONGEST_LINK) {
        put({ t: "math", v: text.slice(i, end + 2) });
        i = end + 2;
      } else {
        plain += ch;
        ++i;
      }
    } else if (ch === "*" || ch === "_" || ch === "~") {
      let n = 1;
      while (text[i + n] === ch) ++n;
      if (ch === "~" && n !== 2) {
        plain += ch.repeat(n);
      } else {
        put(mark(text, i, n));
      }
      i += n;
    } else if (ch === "[" || (ch === "!" && text[i + 1] === "[")) {
      const image = ch === "!";
      const node = { t: "text", v: image ? "![" : "[" };
      put(node);
      brackets.push({ node, image, live: true, at: i });
      i += image ? 2 : 1;
    } else if (ch === "]") {
      flush();
      const open = brackets.pop();
      const target = open?.live && text[i + 1] === "(" ? linkTarget(text, i + 1) : null;
      if (target !== null) {
        i = target[1];
        emphasis(chain, open.node, false);
        const inside = settle(itemsAfter(open.node));
        const href = safeLink(target[0]);
        const label = inside.length > 0 ? inside : [{ t: "text", v: target[0] }];
        chain.tail = open.node.prev;
        chain.tail.next = null;
        const depth = depthOf(inside) + 1;
        // An address that is not to be followed is shown, so that nobody is misled.
        if (href === null || depth > MOST_DEPTH) {
          for (const node of label) chain.push(node);
          if (target[0] !== "" && !open.image) chain.push({ t: "text", v: ` (${target[0]})` });
        } else {
          chain.push({ t: "link", href, image: open.image, c: label, d: depth });
        }
        if (!open.image) for (const other of brackets) if (!other.image) other.live = false;
      } else if (open?.live && hopeful && text[i + 1] === "(" && !/[\s)]/.test(text.slice(i + 2))) {
        // A link whose address is still coming: its words only.
        open.node.v = "";
        i = text.length;
      } else {
        plain += "]";
        ++i;
      }
    } else if (ch === "<") {
      const match = /<(?:(https?:\/\/[^\s<>\x00-\x1f]{1,2000}|mailto:[^\s<>]{1,300})|([\w.+-]{1,100}@[\w.-]{1,200})|(br)\s{0,4}\/?)>/iy;
      match.lastIndex = i;
      const tag = match.exec(text);
      const href = tag === null ? null : safeLink(tag[1] ?? `mailto:${tag[2]}`);
      if (tag?.[3] !== undefined) {
        put({ t: "br" });
        i += tag[0].length;
      } else if (href !== null) {
        put({ t: "link", href, c: [{ t: "text", v: tag[1] ?? tag[2] }] });
        i += tag[0].length;
      } else {
        plain += ch;
        ++i;
      }
    } else if (ch === "&") {
      const known = entity(text, i);
      plain += known === null ? "&" : known[0];
      i += known === null ? 1 : known[1];
    } else if (ch === "\n") {
      plain = plain.replace(/ {1,100}$/, "");
      put({ t: "br" });
      ++i;
      while (text[i] === " ") ++i;
    } else {  // h
      const free = i === 0 || !/[\w/]/.test(text[i - 1]);
      const n = free && !brackets.some((one) => one.live && !one.image) ? bareLink(text, i) : 0;
      const href = n > 0 ? safeLink(text.slice(i, i + n)) : null;
      if (href !== null) {
        put({ t: "link", href, c: [{ t: "text", v: text.slice(i, i + n) }] });
        i += n;
      } else {
        plain += ch;
        ++i;
      }
    }
  }
  plain += text.slice(i);
  flush();
  emphasis(chain, chain.head, hopeful);
  return settle(itemsAfter(chain.head));
}

function closingTicks(text, from, n) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    let run = 1;
    while (text[at + run] === "`") ++run;
    if (run === n) return at;
    at += run;
  }
  return -1;
}

function codeText(raw) {
  const text = raw.replaceAll("\n", " ");
  const padded = text.length > 2 && text[0] === " " && text[text.length - 1] === " " &&
    text.trim() !== "";
  return padded ? text.slice(1, -1) : text;
}

function mark(text, at, n) {
  const ch = text[at];
  const before = at === 0 ? " " : text[at - 1];
  const after = at + n >= text.length ? " " : text[at + n];
  const space = /\s/;
  const left = !space.test(after) &&
    (!ANY_PUNCTUATION.test(after) || space.test(before) || ANY_PUNCTUATION.test(before));
  const right = !space.test(before) &&
    (!ANY_PUNCTUATION.test(before) || space.test(after) || ANY_PUNCTUATION.test(after));
  const word = ch === "_";
  return { t: "mark", ch, n, run: n,
           opens: left && (!word || !right || ANY_PUNCTUATION.test(before)),
           closes: right && (!word || !left || ANY_PUNCTUATION.test(after)) };
}
