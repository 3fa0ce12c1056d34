// The renderer of Markdown, in the page itself. What is wanted follows CommonMark's text, written
// out as HTML by a small serialiser here.
import assert from "node:assert/strict";

const CASES = [
  ["plain", "<p>plain</p>"],
  ["a *b* **c** ***d*** ~~e~~", "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del></p>"],
  ["snake_case_name and _so_", "<p>snake_case_name and <em>so</em></p>"],
  ["2 * 3 * 4 and ** no **", "<p>2 * 3 * 4 and ** no **</p>"],
  ["**a *b** c*", "<p><em><em>a <em>b</em></em> c</em></p>"],
  ["*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"],
  ["`a*b*` ``c`d`` ` e", "<p><code>a*b*</code> <code>c`d</code> ` e</p>"],
  ["\\*no\\* &lt;b&gt; &amp; &copy; &#65;", "<p>*no* &lt;b&gt; &amp; © A</p>"],
  ["a<br>b\nc", "<p>a<br>b<br>c</p>"],
  ["[x](http://a.example/p?q=1 \"t\")", '<p><a href="http://a.example/p?q=1">x</a></p>'],
  ["[x](<http://a.example/a b>)", '<p><a href="http://a.example/a%20b">x</a></p>'],
  ["[a [b]](http://a.example)", '<p><a href="http://a.example/">a [b]</a></p>'],
  ["see http://a.example/b_(c)). Then", '<p>see <a href="http://a.example/b_(c)">http://a.example/b_(c)</a>). Then</p>'],
  ["<https://a.example> <me@a.example>", '<p><a href="https://a.example/">https://a.example</a> <a href="mailto:me@a.example">me@a.example</a></p>'],
  ["[x](javascript:alert(1))", "<p>x (javascript:alert(1))</p>"],
  ["[1] and [ ]", "<p>[1] and [ ]</p>"],
  ["# One\n## Two ##\n####### seven", '<h3>One</h3><h4>Two</h4><p>####### seven</p>'],
  ["Title\n===\nOther\n---\ntext", "<h3>Title</h3><h4>Other</h4><p>text</p>"],
  ["a\n\n---\n\n* * *", "<p>a</p><hr><hr>"],
  ["> a\nlazy\n\n> > b", "<blockquote><p>a<br>lazy</p></blockquote><blockquote><blockquote><p>b</p></blockquote></blockquote>"],
  ["- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"],
  ["- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
  ["3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'],
  ["1. a\n  - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"],
  ["1. a\n\n   ```js\n   x\n   ```\n\n2. b", "<ol><li><p>a</p>[js:x]</li><li><p>b</p></li></ol>"],
  ["- [x] done\n- [ ] open", "<ul><li>[x]done</li><li>[ ]open</li></ul>"],
  ["- a\n+ b", "<ul><li>a</li></ul><ul><li>b</li></ul>"],
  ["text\n- item", "<p>text</p><ul><li>item</li></ul>"],
  ["1986\\. A year\n\n1986. another", '<p>1986. A year</p><ol start="1986"><li>another</li></ol>'],
  ["```python\ndef f():\n    return '<b>'\n```", "[python:def f():\n    return '&lt;b&gt;']"],
  ["~~~\n```\n~~~", "[text:```]"],
  ["````\n```\n````\nafter", "[text:```]<p>after</p>"],
  ["```\nopen", "[text:open]"],
  ["    indented\n\n    more\n\nend", "[text:indented\n\nmore]<p>end</p>"],
  ["| a | b |\n|:--|--:|\n| 1 | `x\\|y` |\n| 2 |\n\nend", "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td><code>x|y</code></td></tr><tr><td>2</td><td></td></tr></table><p>end</p>"],
  ["not | a table\nat all", "<p>not | a table<br>at all</p>"],
  ["\\(a_1*b_2*c\\) and $$x_1$$ and $5 or $6", "<p><code>\\(a_1*b_2*c\\)</code> and <code>$$x_1$$</code> and $5 or $6</p>"],
  ["$$\na_1 = *b*\n$$", "<pre><code>$$\na_1 = *b*\n$$</code></pre>"],
  ["<div onclick=x>a</div>", "<p>&lt;div onclick=x&gt;a&lt;/div&gt;</p>"],
  ["a  \nb\r\n\r\nc", "<p>a<br>b</p><p>c</p>"],
  ["", ""],
];

const DOCUMENT = `# Report

Some *text* with **bold words**, \`code\` and a [link](https://a.example/x).
A second line_with_marks.

1. First
   - inner **one**
   - inner two

   more of the first
2. Second

> A quote
> - with a list

| Name | Value |
|------|------:|
| a    | 1     |
| b    | **2** |

\`\`\`js
const x = "y"; // z
\`\`\`

Title
-----
- [x] done
- [ ] open

    indented

End with https://a.example/path.
`;

// As the pieces above have it: code blocks as [lang:text], classes left out.
const SERIALISE = `(function serialise(node) {
  const text = (s) => s.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  let out = "";
  for (const child of node.childNodes) {
    if (child.nodeType === 3) { out += text(child.data); continue; }
    const name = child.localName;
    if (child.classList.contains("code")) {
      out += "[" + child.querySelector(".code-head span").textContent + ":" + text(child.querySelector("code").textContent) + "]";
    } else if (name === "input") out += child.checked ? "[x]" : "[ ]";
    else if (name === "br" || name === "hr") out += "<" + name + ">";
    else if (["div", "thead", "tbody", "span"].includes(name)) out += serialise(child);
    else {
      const href = name === "a" ? ' href="' + child.href + '"' : "";
      const start = child.hasAttribute("start") ? ' start="' + child.getAttribute("start") + '"' : "";
      out += "<" + name + href + start + ">" + serialise(child) + "</" + name + ">";
    }
  }
  return out;
})`;

export const cases = [
  ["render: Markdown becomes the elements that it should", async (context) => {
    const page = await context.open();
    const wrong = await page.eval(`(async () => {
      const { MarkdownView } = await import("./web/render.js");
      const serialise = ${SERIALISE};
      return ${JSON.stringify(CASES)}.map(([text, want]) => {
        const root = document.createElement("div");
        new MarkdownView(root).show(text);
        return [text, want, serialise(root)];
      }).filter(([, want, got]) => want !== got);
    })()`);
    assert.deepEqual(wrong, []);
  }],

  ["render: piece by piece is the same as at once, and leaves what is done alone", async (context) => {
    const page = await context.open();
    const result = await page.eval(`(async () => {
      const { MarkdownView } = await import("./web/render.js");
      const serialise = ${SERIALISE};
      let seed = 7;
      const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 65536) % n; };
      const parts = ["# ", "- ", "1. ", "2. ", "> ", "\\n", "\\n\\n", "  ", "    ", "\`\`\`", "\`", "**", "*", "_", "| a | b |\\n", "|---|---|\\n",
        "| 1 | 2 |\\n", "word ", "text", "---\\n", "===\\n", "[x](https://a.example)", "[", "](", "~~", "$$", "\\\\(", "&amp;", "<br>", "[ ] ", "é"];
      const texts = [${JSON.stringify(DOCUMENT)}];
      for (let i = 0; i < 150; ++i) {
        let text = "";
        for (let k = 0; k < 40; ++k) text += parts[random(parts.length)];
        texts.push(text);
      }
      const wrong = [];
      for (const text of texts) {
        const whole = document.createElement("div");
        new MarkdownView(whole).show(text);
        const grown = document.createElement("div");
        const view = new MarkdownView(grown);
        for (let at = 0; at < text.length;) {
          at += 1 + random(4);
          view.show(text.slice(0, at), true);
        }
        view.show(text, false);
        if (serialise(whole) !== serialise(grown)) wrong.push([text, serialise(whole), serialise(grown)]);
      }
      // The first paragraph is not made again while the rest comes, nor are the items of a list.
      const root = document.createElement("div");
      const view = new MarkdownView(root);
      view.show("one\\n\\n- a\\n- b\\n- c", true);
      const [paragraph, list] = root.children;
      const item = list.children[0];
      view.show("one\\n\\n- a\\n- b\\n- c\\n- d\\n\\ntwo\\n\\n\`\`\`\\nx", true);
      const code = root.querySelector("code").firstChild;
      view.show("one\\n\\n- a\\n- b\\n- c\\n- d\\n\\ntwo\\n\\n\`\`\`\\nx\\ny", true);
      const kept = root.children[0] === paragraph && root.children[1] === list && list.children[0] === item &&
        root.querySelector("code").firstChild === code && code.data === "x\\ny";
      return { wrong: wrong.slice(0, 2), count: wrong.length, kept };
    })()`);
    assert.deepEqual(result, { wrong: [], count: 0, kept: true });
  }],

  ["render: hostile text takes no long time", async (context) => {
    const page = await context.open();
    // Ten times the text may take some twenty times as long, not a hundred times.
    const slow = await page.eval(`(async () => {
      const { MarkdownView } = await import("./web/render.js");
      const { highlight } = await import("./web/highlight.js");
      const time = (run) => { const from = performance.now(); run(); return performance.now() - from; };
      // Whether one of three tries is as fast: the machine may do other work meanwhile.
      const within = (limit, run) => [1, 2, 3].some(() => time(run) <= limit);
      const pieces = ["*", "[", "\`", "**a ", "[a](", "[a](<", "\\\\(", "$$a", "_a", "a_", "~~", "<", "http://)))(", "&", "![", "*a_ ", "](",
        "> ", "- ", "- a\\n  ", "1. ", "| ", "|-|\\n", "#", "*a **b ", "a* b** "];
      const slow = [];
      const show = (text) => new MarkdownView(document.createElement("div")).show(text, true);
      for (const piece of pieces) {
        show(piece.repeat(200));
        const small = time(() => show(piece.repeat(2000 / piece.length)));
        if (!within(30 * small + 400, () => show(piece.repeat(20000 / piece.length)))) slow.push([piece, small]);
      }
      for (const language of ["js", "python", "c", "html", "sql"]) {
        for (const piece of ['"', "/*", "'''", "<!--", "a1", "\`", "\\\\", "1e"]) {
          const text = piece.repeat(20000 / piece.length);
          if (!within(1500, () => highlight(text, language))) slow.push([language, piece]);
          if (highlight(text, language).map((one) => one[1]).join("") !== text) slow.push([language, piece, "not the same text"]);
        }
      }
      return slow;
    })()`);
    assert.deepEqual(slow, []);
  }],
];
