// The filters and tests a template can name.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

struct FilterDef {
  const char* name;
  Value (*apply)(Runtime& runtime, const Value& subject, const CallArgs& args);
};

struct TestDef {
  const char* name;
  bool (*holds)(Runtime& runtime, const Value& subject, const CallArgs& args);
};

// nullptr when there is none of this name.
const FilterDef* find_filter(std::string_view name);
const TestDef* find_test(std::string_view name);
const FunctionDef* find_global(std::string_view name);

// One table per file of filters; each ends with an entry without a name.
extern const FilterDef k_text_filters[];
extern const FilterDef k_wrap_filters[];
extern const FilterDef k_number_filters[];
extern const FilterDef k_sequence_filters[];
extern const FilterDef k_select_filters[];
extern const FilterDef k_json_filters[];

}  // namespace strata::text::jinja
