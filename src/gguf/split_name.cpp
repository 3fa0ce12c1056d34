// Names of split files: "prefix-00001-of-00003.gguf".
#include <fmt/format.h>

#include "gguf/file.h"

namespace strata::gguf {
namespace {

// Takes `text` off the end of `from`.
bool drop_suffix(std::string_view& from, std::string_view text) {
  if (!from.ends_with(text)) return false;
  from.remove_suffix(text.size());
  return true;
}

// Takes five digits off the end.
std::optional<uint32_t> drop_number(std::string_view& from) {
  constexpr size_t k_digits = 5;
  if (from.size() < k_digits) return std::nullopt;
  uint32_t number = 0;
  for (const char c : from.substr(from.size() - k_digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  from.remove_suffix(k_digits);
  return number;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view path) {
  if (!drop_suffix(path, ".gguf")) return std::nullopt;
  const auto count = drop_number(path);
  if (!count || !drop_suffix(path, "-of-")) return std::nullopt;
  const auto number = drop_number(path);
  if (!number || !drop_suffix(path, "-")) return std::nullopt;
  if (*number == 0 || *number > *count) return std::nullopt;
  return SplitName{std::string(path), *number - 1, *count};
}

std::string split_name(std::string_view prefix, uint32_t index, uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, uint64_t{index} + 1, count);
}

}  // namespace strata::gguf
