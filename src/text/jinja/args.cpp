#include "text/jinja/args.h"

#include <string_view>

namespace strata::text::jinja {

Params::Params(Runtime& runtime, const char* callee, const CallArgs& args,
               std::initializer_list<const char*> names, size_t required)
    : runtime_(runtime), callee_(callee) {
  if (names.size() == 0 && !args.positional.empty()) {
    runtime.fail("{} takes no arguments ({} given)", callee, args.positional.size());
  }
  if (args.positional.size() > names.size()) {
    runtime.fail("{} takes at most {} argument(s), {} given", callee, names.size(),
                 args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    values_[i] = args.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : args.named) {
    runtime.step();
    const std::string& wanted = name->text.bytes();
    size_t index = 0;
    for (const char* candidate : names) {
      if (*candidate != 0 && wanted == candidate) break;
      ++index;
    }
    if (index == names.size()) {
      runtime.fail("{} got an unexpected keyword argument '{}'", callee, wanted);
    }
    if (given_[index]) runtime.fail("{} got multiple values for argument '{}'", callee, wanted);
    values_[index] = value;
    given_[index] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (given_[i]) continue;
    const char* name = names.begin()[i];
    if (*name == 0) runtime.fail("{} takes at least {} argument(s)", callee, required);
    runtime.fail("{} is missing a required argument: '{}'", callee, name);
  }
}

int64_t Params::integer(size_t index) const {
  return require_integer(runtime_, values_[index], callee_);
}

int64_t Params::integer_or(size_t index, int64_t fallback) const {
  return given_[index] ? integer(index) : fallback;
}

const String& Params::string(size_t index) const {
  require_defined(runtime_, values_[index]);
  if (!values_[index].is_string()) {
    runtime_.fail("{}: expected a string, found '{}'", callee_, type_name(values_[index]));
  }
  return values_[index].string();
}

}  // namespace strata::text::jinja
