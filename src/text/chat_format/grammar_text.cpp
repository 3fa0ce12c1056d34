#include "text/chat_format/grammar_text.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/schema_pattern.h"

namespace strata::text {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// The end of what begins at `at` with a quote or a bracket.
size_t end_of_quoted(std::string_view text, size_t at) {
  const char close = text[at] == '"' ? '"' : ']';
  for (++at; at < text.size() && text[at] != close; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

struct Token {
  std::string_view text;
  bool is_name = false;
  bool defines = false;  // a name with "::=" behind it
};

std::vector<Token> tokens_of(std::string_view gbnf) {
  std::vector<Token> out;
  for (size_t at = 0; at < gbnf.size();) {
    const char c = gbnf[at];
    size_t end = at + 1;
    Token token;
    if (c == '"' || c == '[') {
      end = end_of_quoted(gbnf, at);
    } else if (c == '{') {
      end = std::min(gbnf.find('}', at), gbnf.size() - 1) + 1;
    } else if (c == '#') {
      at = std::min(gbnf.find('\n', at), gbnf.size());
      continue;
    } else if (is_name_char(c)) {
      while (end < gbnf.size() && is_name_char(gbnf[end])) ++end;
      const size_t next = std::min(gbnf.find_first_not_of(" \t", end), gbnf.size());
      token.is_name = true;
      token.defines = gbnf.substr(next, 3) == "::=";
    }
    token.text = gbnf.substr(at, end - at);
    out.push_back(token);
    at = end;
  }
  return out;
}

std::string class_of(const std::set<uint32_t>& code_points, bool inverted) {
  std::string out = inverted ? "[^" : "[";
  for (const uint32_t c : code_points) out += fmt::format("\\U{:08X}", c);
  return out + "]";
}

// The longest ends of a text that begin a mark, as an automaton over characters.
struct MarkTree {
  struct Node {
    std::map<uint32_t, size_t> next;
    size_t fallback = 0;
    size_t mark = SIZE_MAX;
  };
  std::vector<Node> nodes{1};

  void add(std::string_view mark, size_t index) {
    size_t at = 0;
    for (size_t i = 0; i < mark.size();) {
      const Utf8Char c = decode_utf8(mark, i);
      i += c.length;
      const auto [place, is_new] = nodes[at].next.emplace(c.code_point, nodes.size());
      at = place->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[at].mark = index;
  }

  void link() {
    std::deque<size_t> open = {0};
    while (!open.empty()) {
      const size_t at = open.front();
      open.pop_front();
      for (const auto& [c, child] : nodes[at].next) {
        if (at != 0) nodes[child].fallback = step(nodes[at].fallback, c);
        if (nodes[child].mark == SIZE_MAX) nodes[child].mark = nodes[nodes[child].fallback].mark;
        open.push_back(child);
      }
    }
  }

  size_t step(size_t at, uint32_t c) const {
    for (;;) {
      const auto found = nodes[at].next.find(c);
      if (found != nodes[at].next.end()) return found->second;
      if (at == 0) return 0;
      at = nodes[at].fallback;
    }
  }
};

}  // namespace

std::string GrammarText::rule(const std::string& body) {
  const auto known = by_body_.find(body);
  if (known != by_body_.end()) return known->second;
  std::string name = declare();
  define(name, body);
  by_body_.emplace(body, name);
  return name;
}

std::string GrammarText::declare() { return fmt::format("a{}", count_++); }

void GrammarText::define(const std::string& name, const std::string& body) {
  text_ += name + " ::= " + body + "\n";
}

std::string GrammarText::embed(std::string_view gbnf) {
  const std::string prefix = fmt::format("a{}-", count_++);
  const std::vector<Token> tokens = tokens_of(gbnf);
  const auto is_shared = [](std::string_view name) { return name[0] >= 'A' && name[0] <= 'Z'; };
  // Once with the shared names as they are; if one of them means something else here, all anew.
  for (const bool rename_all : {false, true}) {
    std::vector<std::pair<std::string, std::string>> rules;  // name as it stood, text
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Token& token = tokens[i];
      if (token.defines) rules.emplace_back(token.text, "");
      if (rules.empty()) continue;
      std::string& body = rules.back().second;
      if (token.is_name && (rename_all || !is_shared(token.text))) body += prefix;
      body += token.text;
    }
    bool clash = false;
    for (auto& [name, body] : rules) {
      body.resize(body.find_last_not_of(" \n\r\t") + 1);
      body += '\n';
      const auto known = shared_.find(name);
      clash |= !rename_all && known != shared_.end() && known->second != body;
    }
    if (clash) continue;
    for (const auto& [name, body] : rules) {
      const bool shared = !rename_all && is_shared(name);
      if (!shared || shared_.emplace(name, body).second) text_ += body;
    }
    break;
  }
  return prefix + "root";
}

std::string GrammarText::text_until(const std::vector<Exit>& exits, bool may_end, bool anchored) {
  MarkTree tree;
  for (size_t i = 0; i < exits.size(); ++i) tree.add(exits[i].mark, i);
  if (!anchored) tree.link();
  std::set<uint32_t> alphabet;
  for (const MarkTree::Node& node : tree.nodes) {
    for (const auto& [c, child] : node.next) alphabet.insert(c);
  }
  std::vector<std::string> names(tree.nodes.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (tree.nodes[i].mark == SIZE_MAX) names[i] = declare();
  }
  const std::string any = anchored ? rule(".*") : std::string();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    std::string body;
    const auto add = [&](const std::string& part) { body += (body.empty() ? "" : " | ") + part; };
    std::set<uint32_t> taken;
    std::map<size_t, std::set<uint32_t>> ways;
    for (const uint32_t c : alphabet) {
      size_t to = 0;
      if (anchored) {
        const auto found = tree.nodes[i].next.find(c);
        if (found == tree.nodes[i].next.end()) continue;
        to = found->second;
      } else {
        to = tree.step(i, c);
        if (to == 0) continue;
      }
      taken.insert(c);
      ways[to].insert(c);
    }
    const std::string others = taken.empty() ? "." : class_of(taken, true);
    add(others + " " + (anchored ? any : names[0]));
    for (const auto& [to, code_points] : ways) {
      const size_t mark = tree.nodes[to].mark;
      if (mark != SIZE_MAX && exits[mark].forbidden) continue;
      add(class_of(code_points, false) + " " + (mark == SIZE_MAX ? names[to] : exits[mark].then));
    }
    if (may_end) add("\"\"");
    define(names[i], body);
  }
  return names[0];
}

std::string GrammarText::literal(std::string_view text) {
  return text.empty() ? std::string() : grammar::gbnf_literal(std::string(text));
}

std::string GrammarText::finish(const std::string& root) const {
  return "root ::= " + root + "\n" + text_;
}

}  // namespace strata::text
