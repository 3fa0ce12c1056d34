// Puts a GBNF grammar together from parts that know nothing of each other's rules.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace strata::text {

class GrammarText {
 public:
  // The name of a rule with the body; equal bodies share one.
  std::string rule(const std::string& body);
  // A rule to be defined later, for rules that use each other.
  std::string declare();
  void define(const std::string& name, const std::string& body);

  // The rules of a whole grammar under names of their own; the name of its root. Rules with a
  // capital are those that all schemas have in common, and are taken in once.
  std::string embed(std::string_view gbnf);

  struct Exit {
    std::string mark;
    std::string then;        // an expression; empty: nothing
    bool forbidden = false;  // the mark must not be there at all
  };
  // Text that holds none of the marks but, perhaps, one at its end; what follows it is `then`.
  // Without a mark it may end only when `may_end`. `anchored`: the marks count only at the front.
  std::string text_until(const std::vector<Exit>& exits, bool may_end, bool anchored = false);

  static std::string literal(std::string_view text);  // "" for nothing
  // All rules, with the expression as root.
  std::string finish(const std::string& root) const;

 private:
  std::string text_;
  size_t count_ = 0;
  std::unordered_map<std::string, std::string> by_body_;
  std::unordered_map<std::string, std::string> shared_;
};

}  // namespace strata::text
