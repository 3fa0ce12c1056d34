#include "text/grammar/integer_range.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace strata::text::grammar {
namespace {

constexpr size_t k_digits = 16;

std::string digit_range(char first, char last) {
  return first == last ? fmt::format("\"{}\"", first) : fmt::format("[{}-{}]", first, last);
}

// Numbers from a to b, both with the same number of digits.
std::string same_length(const std::string& a, const std::string& b) {
  const size_t n = a.size();
  if (n == 1) return digit_range(a[0], b[0]);
  const std::string low = a.substr(1), high = b.substr(1);
  const std::string zeros(n - 1, '0'), nines(n - 1, '9');
  if (a[0] == b[0]) return fmt::format("\"{}\" {}", a[0], same_length(low, high));
  std::string out = "(";
  char first = a[0], last = b[0];
  if (low != zeros) {
    out += fmt::format("\"{}\" {} | ", first, same_length(low, nines));
    ++first;
  }
  const bool whole_end = high == nines;
  if (!whole_end) --last;
  if (first <= last) {
    out += fmt::format("{} [0-9]{{{}}} | ", digit_range(first, last), n - 1);
  }
  if (!whole_end) out += fmt::format("\"{}\" {} | ", b[0], same_length(zeros, high));
  return out.substr(0, out.size() - 3) + ")";
}

std::string magnitudes(const std::string& a, const std::string& b) {
  std::string out;
  for (size_t n = a.size(); n <= b.size(); ++n) {
    const std::string low = n == a.size() ? a : "1" + std::string(n - 1, '0');
    const std::string high = n == b.size() ? b : std::string(n, '9');
    out += (out.empty() ? "" : " | ") + same_length(low, high);
  }
  return "(" + out + ")";
}

}  // namespace

std::string gbnf_of_integers(std::optional<int64_t> min, std::optional<int64_t> max) {
  const auto text = [](uint64_t value) { return std::to_string(value); };
  const auto most = [](const std::string& least) {
    return std::string(std::max(k_digits, least.size()), '9');
  };
  // -2^63 has no positive twin among signed numbers.
  const auto magnitude = [](int64_t value) { return uint64_t{0} - static_cast<uint64_t>(value); };
  std::vector<std::string> parts;
  if (!min || *min < 0) {
    const std::string low = max && *max < 0 ? text(magnitude(*max)) : "1";
    const std::string high = min ? text(magnitude(*min)) : most(low);
    parts.push_back("\"-\" " + magnitudes(low, high));
  }
  if (!max || *max >= 0) {
    const std::string low = min && *min > 0 ? text(static_cast<uint64_t>(*min)) : "0";
    parts.push_back(magnitudes(low, max ? text(static_cast<uint64_t>(*max)) : most(low)));
  }
  return parts.size() == 1 ? parts[0] : "(" + parts[0] + " | " + parts[1] + ")";
}

}  // namespace strata::text::grammar
