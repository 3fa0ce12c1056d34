// The variable `loop` of a for statement.
#pragma once

#include <optional>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

struct ForNode;

struct Loop final : Object {
  const ForNode* node = nullptr;
  Scope* scope = nullptr;  // around the for statement, for recursion
  Value source;            // what is walked; its length is asked first
  bool source_has_length = false;
  Iterator* iterator = nullptr;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value before;
  Value current;
  std::optional<Value> after;  // looked at early
  bool after_known = false;
  std::optional<int64_t> length;
  std::optional<std::vector<Value>> last_changed;

  // Moves to the next item; false at the end.
  bool advance(Runtime& runtime);
  const std::optional<Value>& peek(Runtime& runtime);
  int64_t get_length(Runtime& runtime);
};

// loop.index, loop.first, ...; nullopt for a name it does not have.
std::optional<Value> loop_attribute(Runtime& runtime, Loop& loop, std::string_view name);
const MethodDef* find_loop_method(std::string_view name);

inline Loop& Value::loop() const { return *static_cast<Loop*>(object); }

}  // namespace strata::text::jinja
