// Colours for code: comments, strings, numbers and words that a language keeps for itself.
// One pass; what it does not know stays plain. Not a parser, and not meant as one.

const LONGEST = 60_000;  // characters; longer pieces stay plain

const words = (text) => new Set(text.split(" "));
const C_LIKE = "break case continue default do else for goto if return sizeof static struct switch " +
  "while const enum union void int char long short float double unsigned signed bool true false";

const FAMILIES = {
  c: { line: "//", block: true, words: words(`${C_LIKE} auto class namespace template typename ` +
    "public private protected virtual override new delete nullptr using try catch throw constexpr " +
    "operator inline extern typedef final noexcept concept requires include define ifdef endif") },
  js: { line: "//", block: true, quotes: "\"'`", words: words("async await break case catch class const " +
    "continue default delete do else export extends false finally for from function if import in " +
    "instanceof interface let new null of return static super switch this throw true try type " +
    "typeof undefined var void while yield enum implements readonly") },
  java: { line: "//", block: true, words: words(`${C_LIKE} abstract boolean byte catch class extends ` +
    "final finally implements import instanceof interface new null package private protected " +
    "public super this throw throws try var val fun when object override data record using " +
    "namespace string async await let func guard nil self protocol foreach in is as") },
  go: { line: "//", block: true, quotes: "\"'`", words: words("break case chan const continue default " +
    "defer else fallthrough for func go goto if import interface map package range return select " +
    "struct switch type var true false nil string int error byte bool float64") },
  rust: { line: "//", block: true, quotes: "\"", words: words("as async await break const continue crate " +
    "dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self " +
    "Self static struct super trait true type unsafe use where while i32 i64 u8 u32 u64 usize f32 " +
    "f64 str String Vec Option Result Some None Ok Err") },
  python: { line: "#", triple: true, words: words("and as assert async await break class continue def " +
    "del elif else except False finally for from global if import in is lambda None nonlocal not " +
    "or pass raise return True try while with yield match case self") },
  ruby: { line: "#", words: words("alias and begin break case class def do else elsif end ensure false for " +
    "if in module next nil not or redo rescue retry return self super then true undef unless until " +
    "when while yield require puts") },
  shell: { line: "#", words: words("if then else elif fi for in do done while until case esac function " +
    "return export local echo exit set unset cd sudo source") },
  sql: { line: "--", block: true, fold: true, words: words("select from where insert into values update " +
    "delete create table drop alter join left right inner outer on group by order having limit as " +
    "and or not null is in like between distinct union all primary key foreign references index " +
    "case when then else end count sum avg min max with set") },
  json: { words: words("true false null") },
  yaml: { line: "#", words: words("true false null yes no on off") },
  css: { block: true, words: words("important media supports keyframes import from to var calc") },
  lua: { line: "--", words: words("and break do else elseif end false for function if in local nil not or " +
    "repeat return then true until while") },
};

const NAMES = {
  c: "c", h: "c", cpp: "c", "c++": "c", cc: "c", hpp: "c", cuda: "c", glsl: "c", objc: "c",
  js: "js", javascript: "js", jsx: "js", mjs: "js", ts: "js", typescript: "js", tsx: "js",
  java: "java", kotlin: "java", kt: "java", cs: "java", csharp: "java", "c#": "java", swift: "java",
  scala: "java", dart: "java", php: "java",
  go: "go", golang: "go", rust: "rust", rs: "rust", zig: "rust",
  python: "python", py: "python", python3: "python", ruby: "ruby", rb: "ruby", elixir: "ruby",
  sh: "shell", bash: "shell", shell: "shell", zsh: "shell", console: "shell", dockerfile: "shell",
  makefile: "shell", cmake: "shell", powershell: "shell", r: "python", julia: "ruby",
  sql: "sql", json: "json", jsonc: "js", yaml: "yaml", yml: "yaml", toml: "yaml", ini: "yaml",
  css: "css", scss: "css", lua: "lua", haskell: "lua",
};

const escaped = (text) => text.replace(/[-/*+.?^$|(){}[\]\\]/g, "\\$&");

function lexer(family) {
  const quotes = family.quotes ?? "\"'";
  const parts = [];
  if (family.line) parts.push(`(?<comment>${escaped(family.line)}[^\\n]*)`);
  if (family.block) parts.push("(?<block>/\\*[^]*?(?:\\*/|$(?![^])))");
  if (family.triple) parts.push("(?<triple>\"\"\"[^]*?(?:\"\"\"|$(?![^]))|'''[^]*?(?:'''|$(?![^])))");
  for (const [k, quote] of [...quotes].entries()) {
    const line = quote === "`" ? "" : "\\n";
    parts.push(`(?<string${k}>${quote}(?:[^${quote}\\\\${line}]|\\\\[^])*${quote}?)`);
  }
  parts.push("(?<number>\\b(?:0[xXbB][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][-+]?\\d+)?)\\w{0,3}\\b)");
  parts.push("(?<word>[A-Za-z_$][\\w$]*)");
  return new RegExp(parts.join("|"), "g");
}

const lexers = new Map();

function markup(text) {
  return split(text, /(<!--[^]*?(?:-->|$(?![^])))|(<\/?[A-Za-z][\w:-]*|\/?>)|("[^"\n]*"|'[^'\n]*')/g,
               ["comment", "word", "string"]);
}

function diff(text) {
  return split(text, /^(@@.*|diff .*|index .*)$|^(\+.*)$|^(-.*)$/gm, ["comment", "add", "cut"]);
}

function split(text, expression, kinds) {
  const out = [];
  let at = 0;
  for (const match of text.matchAll(expression)) {
    if (match.index > at) out.push(["", text.slice(at, match.index)]);
    out.push([kinds[match.slice(1).findIndex((one) => one !== undefined)] ?? "", match[0]]);
    at = match.index + match[0].length;
  }
  if (at < text.length) out.push(["", text.slice(at)]);
  return out;
}

/** [[kind, text]]; together the text as it was. Kinds: comment, string, number, word, call, add, cut. */
export function highlight(text, language) {
  const name = String(language).toLowerCase();
  if (text.length > LONGEST) return [["", text]];
  if (name === "diff" || name === "patch") return diff(text);
  if (["html", "xml", "svg", "vue"].includes(name)) return markup(text);
  const family = Object.hasOwn(NAMES, name) ? NAMES[name] : null;
  if (family === null) return [["", text]];
  if (!lexers.has(family)) lexers.set(family, lexer(FAMILIES[family]));
  const rules = FAMILIES[family];
  const out = [];
  const add = (kind, piece) => {
    const last = out[out.length - 1];
    if (last !== undefined && last[0] === kind) last[1] += piece;
    else if (piece !== "") out.push([kind, piece]);
  };
  let at = 0;
  for (const match of text.matchAll(lexers.get(family))) {
    add("", text.slice(at, match.index));
    at = match.index + match[0].length;
    const { comment, block, number, word } = match.groups;
    if (comment !== undefined || block !== undefined) add("comment", match[0]);
    else if (number !== undefined) add("number", number);
    else if (word === undefined) add("string", match[0]);
    else if (rules.words.has(rules.fold ? word.toLowerCase() : word)) add("word", word);
    else if (text[at] === "(") add("call", word);
    else add("", word);
  }
  add("", text.slice(at));
  return out;
}
