#include "text/jinja/find.h"

#include <vector>

namespace strata::text::jinja {
namespace {

// Up to this length the plain search does at most so many comparisons per byte.
constexpr size_t k_short = 8;

// Knuth, Morris and Pratt over [0, count), reading both strings through `index`, so that the same
// code searches from the left and from the right. Gives the position, in that reading, where the
// first match begins.
template <class TextAt, class WantedAt>
size_t find_linear(size_t count, size_t wanted_size, TextAt text, WantedAt wanted) {
  std::vector<size_t> border(wanted_size, 0);
  for (size_t i = 1, k = 0; i < wanted_size; ++i) {
    while (k > 0 && wanted(i) != wanted(k)) k = border[k - 1];
    if (wanted(i) == wanted(k)) ++k;
    border[i] = k;
  }
  for (size_t i = 0, k = 0; i < count; ++i) {
    while (k > 0 && text(i) != wanted(k)) k = border[k - 1];
    if (text(i) == wanted(k)) ++k;
    if (k == wanted_size) return i + 1 - wanted_size;
  }
  return std::string_view::npos;
}

}  // namespace

size_t find_bytes(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.size() <= k_short) return text.find(wanted, from);
  if (wanted.size() > text.size() - from) return std::string_view::npos;
  const size_t found = find_linear(
      text.size() - from, wanted.size(), [&](size_t i) { return text[from + i]; },
      [&](size_t i) { return wanted[i]; });
  return found == std::string_view::npos ? found : from + found;
}

size_t rfind_bytes(std::string_view text, std::string_view wanted, size_t end) {
  text = text.substr(0, end);
  if (wanted.size() <= k_short) return text.rfind(wanted);
  if (wanted.size() > text.size()) return std::string_view::npos;
  const size_t found = find_linear(
      text.size(), wanted.size(), [&](size_t i) { return text[text.size() - 1 - i]; },
      [&](size_t i) { return wanted[wanted.size() - 1 - i]; });
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

}  // namespace strata::text::jinja
