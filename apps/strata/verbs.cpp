#include "base/error.h"
#include "base/suggest.h"
#include "strata/verb.h"

namespace strata::app {

std::span<const Verb> verb_table() {
  static const std::vector<Verb> table = [] {
    std::vector<Verb> verbs{
#define VERB(name, arguments, n_arguments, summary, usage) \
  Verb{#name, k_##name, arguments, n_arguments, summary, usage, name##_verb},
#include "strata/verbs.def"
#undef VERB
    };
    for (Verb& verb : verbs) {
      if (verb.name == "options_doc") verb.name = "options-doc";
    }
    return verbs;
  }();
  return table;
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : verb_table()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

std::vector<std::string> verb_names(uint32_t verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verb_table()) {
    if ((verb.bit & verbs) != 0 && !verb.summary.empty()) names.emplace_back(verb.name);
  }
  return names;
}

std::string join_verbs() { return join_names(verb_names()); }

void fail_unknown_verb(const std::string& name) {
  const std::string near = nearest_name(name, verb_names());
  if (!near.empty()) {
    fail(ErrorCode::usage, "unknown verb '{}'; did you mean '{}'?", printable(name), near);
  }
  fail(ErrorCode::usage, "unknown verb '{}'; verbs are {}", printable(name), join_verbs());
}

std::string_view version() { return STRATA_VERSION; }

const std::string& require_model(const Options& options) {
  if (options.model.empty()) {
    fail(ErrorCode::usage, "no model given; use -m FILE or set STRATA_MODEL");
  }
  return options.model;
}

}  // namespace strata::app
