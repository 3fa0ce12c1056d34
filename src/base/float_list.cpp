#include "base/float_list.h"

#include <fmt/format.h>

#include <iterator>

namespace strata {

void append_floats(std::string& out, std::span<const float> values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", values[i]);
  }
  out += ']';
}

}  // namespace strata
