// Markdown's blocks: from text to a tree of plain objects. No DOM here.
//
// Every block knows the part of the text that it was made from (`raw`), and top-level ones where it
// begins (`start`), so that what has not changed need not be drawn again.
// Blocks: heading {level, text}, paragraph {text}, code {lang, text, closed}, math {text}, rule,
// quote {blocks}, list {ordered, first, loose, items: [{blocks, checked, raw}]},
// table {align, head, rows}.
// Depth: quotes and lists within one another up to MOST_DEPTH; deeper ones are paragraphs.

const MOST_DEPTH = 12;

const indentOf = (line) => {
  let n = 0;
  while (line[n] === " ") ++n;
  return n;
};
const blank = (line) => /^\s*$/.test(line);
const untab = (line) => {
  if (!line.includes("\t")) return line;
  const lead = /^[ \t]*/.exec(line)[0];
  let wide = "";
  for (const ch of lead) wide += ch === "\t" ? " ".repeat(4 - (wide.length % 4)) : " ";
  return wide + line.slice(lead.length);
};

function fenceOf(line) {
  const match = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line);
  if (match === null || (match[1][0] === "`" && match[2].includes("`"))) return null;
  return { mark: match[1], indent: indentOf(line), lang: match[2].trim().split(/[\s{,]/)[0] };
}

function headingOf(line) {
  const match = /^ {0,3}(#{1,6})(?=[ \t]|$)/.exec(line);
  if (match === null) return null;
  let text = line.slice(match[0].length).trim();
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") --end;
  if (end === 0 || text[end - 1] === " ") text = text.slice(0, end).trim();
  return { level: match[1].length, text };
}

const isRule = (line) => {
  if (indentOf(line) > 3) return false;
  const marks = line.replace(/[ \t]/g, "");
  return marks.length >= 3 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
};

function markerOf(line) {
  const match = /^( {0,12})(?:([-*+])|(\d{1,9})([.)]))(?=[ \t]|$)/.exec(line);
  if (match === null) return null;
  const mark = match[0].length;
  const rest = line.slice(mark);
  const spaces = indentOf(rest);
  const empty = blank(rest);
  return {
    indent: match[1].length,
    content: mark + (empty || spaces > 4 ? 1 : spaces),
    kind: match[2] ?? match[4],
    number: match[3] === undefined ? null : Number(match[3]),
    empty,
  };
}

/** Cells of a table's row; a bar behind a backslash is text. */
function cellsOf(line) {
  const cells = [];
  let cell = "";
  const text = line.trim();
  for (let i = text[0] === "|" ? 1 : 0; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") {
      cell += "|";
      ++i;
    } else if (text[i] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += text[i];
    }
  }
  if (cell.trim() !== "" || text[text.length - 1] !== "|") cells.push(cell.trim());
  return cells;
}

function tableAt(lines, i) {
  if (i + 1 >= lines.length || !lines[i].includes("|") || indentOf(lines[i]) > 3) return null;
  const second = lines[i + 1];
  if (!second.includes("-") || !/^[ |:\-\t]+$/.test(second)) return null;
  if (!second.includes("|") && !lines[i].trim().startsWith("|")) return null;
  const marks = cellsOf(second);
  if (!marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  const head = cellsOf(lines[i]);
  if (head.length !== marks.length || head.length > 100) return null;
  const align = marks.map((mark) => {
    const left = mark[0] === ":";
    const right = mark[mark.length - 1] === ":";
    return left && right ? "center" : right ? "right" : "";
  });
  return { head, align };
}

/** Whether a line begins something that ends the paragraph before it. */
function interrupts(lines, i) {
  const line = lines[i];
  if (blank(line) || fenceOf(line) !== null || headingOf(line) !== null || isRule(line)) return true;
  if (/^ {0,3}>/.test(line) || mathOf(line) !== null || tableAt(lines, i) !== null) return true;
  const marker = markerOf(line);
  return marker !== null && marker.indent <= 3 && !marker.empty &&
    (marker.number === null || marker.number === 1);
}

function mathOf(line) {
  const match = /^ {0,3}(\$\$|\\\[)/.exec(line);
  if (match === null) return null;
  const close = match[1] === "$$" ? "$$" : "\\]";
  const rest = line.slice(match[0].length);
  const at = rest.indexOf(close);
  // More behind it on the line: a piece of a sentence.
  if (at >= 0 && rest.slice(at + 2).trim() !== "") return null;
  return { close, whole: at >= 0 };
}

function parseLines(lines, depth) {
  const blocks = [];
  let i = 0;
  const done = (from, block) => {
    block.line = from;
    block.raw = lines.slice(from, i).join("\n");
    blocks.push(block);
  };
  while (i < lines.length) {
    const line = lines[i];
    if (blank(line)) {
      ++i;
      continue;
    }
    const from = i;
    const fence = fenceOf(line);
    if (fence !== null) {
      const body = [];
      let closed = false;
      for (++i; i < lines.length && !closed; ++i) {
        const end = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(lines[i]);
        closed = end !== null && end[1][0] === fence.mark[0] && end[1].length >= fence.mark.length;
        if (!closed) body.push(lines[i].slice(Math.min(fence.indent, indentOf(lines[i]))));
      }
      done(from, { type: "code", lang: fence.lang, text: body.join("\n"), closed });
      continue;
    }
    const heading = headingOf(line);
    if (heading !== null) {
      ++i;
      done(from, { type: "heading", ...heading });
      continue;
    }
    if (isRule(line)) {
      ++i;
      done(from, { type: "rule" });
      continue;
    }
    const math = mathOf(line);
    if (math !== null) {
      ++i;
      if (!math.whole) {
        while (i < lines.length && !lines[i].includes(math.close)) ++i;
        if (i < lines.length) ++i;
      }
      done(from, { type: "math", text: lines.slice(from, i).join("\n").trim() });
      continue;
    }
    if (/^ {0,3}>/.test(line) && depth < MOST_DEPTH) {
      const inner = [];
      for (; i < lines.length; ++i) {
        const match = /^ {0,3}> ?/.exec(lines[i]);
        if (match !== null) inner.push(lines[i].slice(match[0].length));
        // A line without a mark goes on with the paragraph that the quote ends in.
        else if (!blank(inner[inner.length - 1]) && !interrupts(lines, i) &&
                 fenceOf(inner[inner.length - 1]) === null) inner.push(lines[i]);
        else break;
      }
      done(from, { type: "quote", blocks: parseLines(inner, depth + 1) });
      continue;
    }
    const marker = markerOf(line);
    if (marker !== null && marker.indent <= 3 && depth < MOST_DEPTH) {
      const [list, end] = listAt(lines, i, marker, depth);
      i = end;
      done(from, list);
      continue;
    }
    const table = tableAt(lines, i);
    if (table !== null) {
      const rows = [];
      for (i += 2; i < lines.length && !blank(lines[i]); ++i) {
        if (!lines[i].includes("|") && interrupts(lines, i)) break;
        const cells = cellsOf(lines[i]).slice(0, table.head.length);
        while (cells.length < table.head.length) cells.push("");
        rows.push(cells);
      }
      done(from, { type: "table", ...table, rows });
      continue;
    }
    if (indentOf(line) >= 4) {
      const body = [];
      let last = i;
      for (; i < lines.length && (blank(lines[i]) || indentOf(lines[i]) >= 4); ++i) {
        body.push(lines[i].slice(4));
        if (!blank(lines[i])) last = i;
      }
      i = last + 1;
      body.length = i - from;
      done(from, { type: "code", lang: "", text: body.join("\n"), closed: i < lines.length });
      continue;
    }
    let level = 0;
    for (++i; i < lines.length; ++i) {
      const under = /^ {0,3}(={2,}|-{2,})[ \t]*$/.exec(lines[i]);
      if (under !== null && tableAt(lines, i - 1) === null) {
        level = under[1][0] === "=" ? 1 : 2;
        break;
      }
      if (interrupts(lines, i)) break;
    }
    const text = lines.slice(from, i).map((one) => one.trimStart()).join("\n").trimEnd();
    if (level > 0) ++i;
    done(from, level > 0 ? { type: "heading", level, text } : { type: "paragraph", text });
  }
  return blocks;
}

/** The list that begins at a line, and the line behind it. */
function listAt(lines, from, first, depth) {
  const items = [];
  let loose = false;
  let i = from;
  let marker = first;
  while (marker !== null) {
    const begun = i;
    const body = [lines[i].slice(marker.content)];
    let fence = fenceOf(body[0]);
    let gap = false;
    let next = null;
    for (++i; i < lines.length; ++i) {
      const line = lines[i];
      if (blank(line)) {
        body.push("");
        continue;
      }
      const indent = indentOf(line);
      const other = markerOf(line);
      // Lists in lists are often indented by two, whatever the mark's width is.
      const nested = other !== null && indent >= marker.indent + 2;
      if (indent >= marker.content || nested) {
        body.push(line.slice(Math.min(indent, marker.content)));
        const mark = fenceOf(body[body.length - 1]);
        if (mark !== null) fence = fence === null ? mark : null;
        continue;
      }
      gap = body.length > 1 && body[body.length - 1] === "";
      if (other !== null && !isRule(line) && other.kind === marker.kind) next = other;
      else if (!gap && fence === null && !interrupts(lines, i)) {
        body.push(line.trimStart());
        continue;
      }
      break;
    }
    while (body.length > 1 && body[body.length - 1] === "") body.pop();
    const raw = lines.slice(begun, begun + body.length).join("\n");
    const task = /^\[([ xX])\][ \t]+/.exec(body[0]);
    if (task !== null) body[0] = body[0].slice(task[0].length);
    const blocks = parseLines(body, depth + 1);
    items.push({ blocks, checked: task === null ? null : task[1] !== " ", raw });
    if (next !== null && gap) loose = true;
    // A gap between two paragraphs of an item; one before a list in it does not count.
    for (let k = 1; k < blocks.length; ++k) {
      const before = blocks[k - 1];
      const end = before.line + before.raw.split("\n").length;
      if (blocks[k].line > end && blocks[k].type !== "list" && before.type !== "list") loose = true;
    }
    marker = next;
    if (next === null) i = begun + body.length;
  }
  const ordered = first.number !== null;
  return [{ type: "list", ordered, first: first.number ?? 1, loose, items }, i];
}

/** The blocks of a text; `start` is the offset of each. */
export function parseBlocks(text) {
  const source = text.split("\n");
  const lines = source.map((line) => untab(line.endsWith("\r") ? line.slice(0, -1) : line));
  const blocks = parseLines(lines, 0);
  let line = 0;
  let offset = 0;
  for (const block of blocks) {
    for (; line < block.line; ++line) offset += source[line].length + 1;
    block.start = offset;
  }
  return blocks;
}
