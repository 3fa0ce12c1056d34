// The functions every template has.
#include <iterator>

#include "base/utf8.h"
#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

// As jinja2's sandbox has it.
constexpr uint64_t k_max_range = 100'000;

Value global_range(Runtime& runtime, const CallArgs& args) {
  const Params params(runtime, "range", args, {"", "", ""}, 1);
  Range* range = runtime.make<Range>(0);
  if (params.given(1)) {
    range->start = params.integer(0);
    range->stop = params.integer(1);
    range->step = params.integer_or(2, 1);
  } else {
    range->stop = params.integer(0);
  }
  if (range->step == 0) runtime.fail("range() arg 3 must not be zero");
  const bool up = range->step > 0;
  if (up ? range->start < range->stop : range->start > range->stop) {
    // Distances fit in an unsigned number even from one end of the range to the other.
    const uint64_t distance =
        up ? static_cast<uint64_t>(range->stop) - static_cast<uint64_t>(range->start)
           : static_cast<uint64_t>(range->start) - static_cast<uint64_t>(range->stop);
    const uint64_t step =
        up ? static_cast<uint64_t>(range->step) : ~static_cast<uint64_t>(range->step) + 1;
    const uint64_t size = (distance - 1) / step + 1;
    if (size > k_max_range) {
      runtime.fail("Range too big. Ranges larger than {} are refused.", k_max_range);
    }
    range->size = static_cast<int64_t>(size);
  }
  return Value::of(Kind::range, range);
}

// dict(mapping or pairs, name=value, ...)
Dict* make_dict(Runtime& runtime, const char* callee, const CallArgs& args) {
  if (args.positional.size() > 1) {
    runtime.fail("{} expected at most 1 argument, got {}", callee, args.positional.size());
  }
  Dict* out = runtime.dict();
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::dict)) {
      for (const Dict::Entry& entry : source.dict().entries()) {
        runtime.step();
        if (entry.live) runtime.set(*out, entry.key, entry.value);
      }
    } else {
      Iterator* iterator = iterate(runtime, source);
      Value pair;
      while (iterator->next(runtime, pair)) {
        const std::vector<Value> parts = items_of(runtime, pair);
        if (parts.size() != 2) {
          runtime.fail("dictionary update sequence element has length {}; 2 is required",
                       parts.size());
        }
        runtime.set(*out, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    runtime.set(*out, Value::of(const_cast<String*>(name)), value);
  }
  return out;
}

Value global_dict(Runtime& runtime, const CallArgs& args) {
  return Value::of(Kind::dict, make_dict(runtime, "dict", args));
}

Value global_namespace(Runtime& runtime, const CallArgs& args) {
  return Value::of(Kind::space, runtime.make<Space>(0, make_dict(runtime, "namespace", args)));
}

Value global_cycler(Runtime& runtime, const CallArgs& args) {
  if (!args.named.empty()) runtime.fail("cycler takes no keyword arguments");
  if (args.positional.empty()) runtime.fail("at least one item has to be provided");
  const uint64_t cost = args.positional.size() * sizeof(Value);
  return Value::of(Kind::cycler, runtime.make<Cycler>(cost, args.positional));
}

Value global_joiner(Runtime& runtime, const CallArgs& args) {
  const Params params(runtime, "joiner", args, {"sep"});
  const Value separator = params.given(0) ? params[0] : runtime.text(", ", true);
  return Value::of(Kind::joiner, runtime.make<Joiner>(0, separator));
}

Value global_raise_exception(Runtime& runtime, const CallArgs& args) {
  const Params params(runtime, "raise_exception", args, {"message"}, 1);
  throw Failure{to_text(runtime, params[0]).bytes(), runtime.line, true};
}

// strftime knows no fractions of a second; Python writes them for %f.
std::string without_fractions(const std::string& format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && i + 1 < format.size()) {
      if (format[i + 1] == 'f') {
        out += "000000";
      } else {
        out.append(format, i, 2);
      }
      ++i;
    } else {
      out += format[i];
    }
  }
  return out;
}

Value global_strftime_now(Runtime& runtime, const CallArgs& args) {
  const Params params(runtime, "strftime_now", args, {"format"}, 1);
  const Text& format = params.string(0).text;
  constexpr size_t k_max_format = 1024;
  constexpr size_t k_max_output = 16 * 1024;
  if (format.size() > k_max_format || format.bytes().find('\0') != std::string::npos) {
    runtime.fail("strftime_now: the format is longer than {} bytes or holds a NUL", k_max_format);
  }
  if (format.empty()) return runtime.text("", true);
  const std::tm now = runtime.now();
  // One character more tells an empty result from one that does not fit.
  const std::string pattern = without_fractions(format.bytes()) + "x";
  std::string out(k_max_output, '\0');
  const size_t length = std::strftime(out.data(), out.size(), pattern.c_str(), &now);
  if (length == 0) runtime.fail("strftime_now: the result is too long");
  out.resize(length - 1);
  return runtime.text(replace_invalid_utf8(out), format.all_from_template());
}

constexpr FunctionDef k_globals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"raise_exception", global_raise_exception},
    {"strftime_now", global_strftime_now},
};

}  // namespace

const FunctionDef* find_global(std::string_view name) {
  for (const FunctionDef& function : k_globals) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

}  // namespace strata::text::jinja
