// Markdown drawn as elements: createElement and textContent only, whatever the model wrote.
//
// MarkdownView takes an answer as it comes. Blocks that are behind the last one are final; of the
// last one only what has changed is drawn again: the items of a list, the rows of a table, the end
// of a piece of code.
import { highlight } from "./highlight.js";
import { parseInline } from "./inline.js";
import { parseBlocks } from "./markdown.js";
import { copyButton, el } from "./ui.js";

function inlineNode(node) {
  switch (node.t) {
    case "text": return document.createTextNode(node.v);
    case "br": return el("br");
    case "code": return el("code", { text: node.v });
    case "math": return el("code", { class: "math", text: node.v });
    case "strong": return el("strong", {}, ...node.c.map(inlineNode));
    case "em": return el("em", {}, ...node.c.map(inlineNode));
    case "del": return el("del", {}, ...node.c.map(inlineNode));
    case "link":
      return el("a", { href: node.href, target: "_blank", rel: "noopener noreferrer nofollow",
                       title: node.href }, node.image ? "🖼 " : null, ...node.c.map(inlineNode));
    default: return document.createTextNode("");
  }
}

function fillInline(element, text, hopeful) {
  element.replaceChildren(...parseInline(text, { hopeful }).map(inlineNode));
  return element;
}

function codeBlock(block) {
  const code = el("code");
  const box = el("div", { class: "code" },
    el("div", { class: "code-head" }, el("span", { text: block.lang || "text" }),
       copyButton("Copy code", () => code.textContent)),
    el("pre", { tabindex: "0" }, code));
  fillCode(box, block, "");
  return box;
}

// While a piece of code grows, text is added to it; colours come when it is whole.
function fillCode(box, block, before) {
  const code = box.querySelector("code");
  if (block.closed) {
    code.replaceChildren(...highlight(block.text, block.lang).map(
      ([kind, text]) => (kind === "" ? document.createTextNode(text)
                                     : el("span", { class: `c-${kind}`, text }))));
  } else if (before !== "" && block.text.startsWith(before) && code.lastChild !== null) {
    code.lastChild.appendData(block.text.slice(before.length));
  } else {
    code.replaceChildren(document.createTextNode(block.text));
  }
}

function listItem(item, loose, hopeful) {
  const node = el("li");
  if (item.checked !== null) {
    node.className = "task";
    node.append(el("input", { type: "checkbox", disabled: true, checked: item.checked,
                              "aria-label": item.checked ? "done" : "open" }));
  }
  for (const [k, block] of item.blocks.entries()) {
    const last = hopeful && k === item.blocks.length - 1;
    if (!loose && block.type === "paragraph") {
      node.append(...fillInline(el("span"), block.text, last).childNodes);
    } else {
      node.append(blockNode(block, last));
    }
  }
  return node;
}

function tableRow(cells, align, name, hopeful) {
  return el("tr", {}, ...cells.map(
    (cell, k) => fillInline(el(name, { class: align[k] }), cell, hopeful)));
}

function blockNode(block, hopeful) {
  switch (block.type) {
    case "heading":
      // The page has its own first headings.
      return fillInline(el(`h${Math.min(block.level + 2, 6)}`, { class: `h${block.level}` }),
                        block.text, hopeful);
    case "paragraph": return fillInline(el("p"), block.text, hopeful);
    case "code": return codeBlock(block);
    case "math": return el("pre", { class: "math", tabindex: "0" }, el("code", { text: block.text }));
    case "rule": return el("hr");
    case "quote":
      return el("blockquote", {}, ...block.blocks.map(
        (one, k) => blockNode(one, hopeful && k === block.blocks.length - 1)));
    case "list": {
      const list = el(block.ordered ? "ol" : "ul", {
        start: block.ordered && block.first !== 1 ? block.first : null,
        class: block.items.some((item) => item.checked !== null) ? "tasks" : null });
      list.append(...block.items.map(
        (item, k) => listItem(item, block.loose, hopeful && k === block.items.length - 1)));
      return list;
    }
    case "table": {
      const body = el("tbody", {}, ...block.rows.map((row) => tableRow(row, block.align, "td", false)));
      return el("div", { class: "table", tabindex: "0" }, el("table", {},
        el("thead", {}, tableRow(block.head, block.align, "th", hopeful)), body));
    }
    default: return document.createTextNode("");
  }
}

/** Draws only what is new in a block; false when it must be drawn from its beginning. */
function patch(node, before, after, hopeful) {
  if (before.type !== after.type) return false;
  switch (after.type) {
    case "code":
      if (before.lang !== after.lang) return false;
      fillCode(node, after, before.text);
      return true;
    case "paragraph":
      fillInline(node, after.text, hopeful);
      return true;
    case "list": {
      if (before.ordered !== after.ordered || before.first !== after.first ||
          before.loose !== after.loose || after.items.length < before.items.length) return false;
      after.items.forEach((item, k) => {
        const last = k === after.items.length - 1;
        const old = before.items[k];
        // The item that was the last may have been drawn with open ends.
        if (old !== undefined && old.raw === item.raw && k < before.items.length - 1) return;
        const made = listItem(item, after.loose, hopeful && last);
        if (old === undefined) node.append(made);
        else node.children[k].replaceWith(made);
      });
      return true;
    }
    case "table": {
      if (before.head.length !== after.head.length || after.rows.length < before.rows.length ||
          before.align.join() !== after.align.join()) return false;
      const body = node.querySelector("tbody");
      after.rows.forEach((row, k) => {
        if (k < before.rows.length - 1) return;
        const made = tableRow(row, after.align, "td", hopeful && k === after.rows.length - 1);
        if (k < before.rows.length) body.children[k].replaceWith(made);
        else body.append(made);
      });
      return true;
    }
    default:
      return false;
  }
}

export class MarkdownView {
  /** Draws into `root`, which is emptied. */
  constructor(root) {
    this.root = root;
    this.reset();
  }

  reset() {
    this.root.replaceChildren();
    this.text = "";
    this.at = 0;       // where the blocks that may still change begin
    this.final = 0;    // elements in front of them
    this.tail = [];    // those blocks
    this.hopeful = false;
  }

  /** Shows `text`; `open` when more is to come. */
  show(text, open = false) {
    if (!text.startsWith(this.text.slice(0, this.at))) this.reset();
    if (text === this.text && open === this.hopeful) return;
    this.text = text;
    const blocks = parseBlocks(text.slice(this.at));
    const nodes = this.root.children;
    blocks.forEach((block, k) => {
      const last = k === blocks.length - 1;
      const hopeful = open && last;
      const before = this.tail[k];
      const node = nodes[this.final + k];
      // The last one of before may have been drawn with open ends.
      const same = before !== undefined && before.raw === block.raw && before.type === block.type &&
        before.hopeful === hopeful;
      block.hopeful = hopeful;
      if (same) return;
      if (before !== undefined && patch(node, before, block, hopeful)) return;
      const made = blockNode(block, hopeful);
      if (node === undefined) this.root.append(made);
      else node.replaceWith(made);
    });
    while (nodes.length > this.final + blocks.length) this.root.lastElementChild.remove();
    this.tail = blocks;
    this.hopeful = open;
    // A block is final when a whole line stands behind its end: half a line may yet turn out to
    // belong to it.
    let done = 0;
    for (let k = 1; k < blocks.length; ++k) {
      if (text.indexOf("\n", this.at + blocks[k].start) >= 0) done = k;
    }
    if (open && done > 0) {
      const from = blocks[done].start;
      this.at += from;
      this.final += done;
      this.tail = blocks.slice(done);
    }
  }
}
