#include "text/grammar/code_points.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace strata::text::grammar {
namespace {

// `first` and `last` have UTF-8 of the same length.
void split_range(uint32_t first, uint32_t last, std::vector<Utf8Sequence>& out) {
  if (first >= 0x80) {
    // Cut until all bytes but one run over everything or stand still.
    for (int i = 1; i < 4; ++i) {
      const uint32_t low = (1u << (6 * i)) - 1;
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        split_range(first, first | low, out);
        split_range((first | low) + 1, last, out);
        return;
      }
      if ((last & low) != low) {
        split_range(first, (last & ~low) - 1, out);
        split_range(last & ~low, last, out);
        return;
      }
    }
  }
  std::string a, b;
  append_utf8(a, first);
  append_utf8(b, last);
  Utf8Sequence sequence{};
  sequence.length = static_cast<uint32_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sequence.bytes[i] = {static_cast<uint8_t>(a[i]), static_cast<uint8_t>(b[i])};
  }
  out.push_back(sequence);
}

}  // namespace

CodePointSet normalise(CodePointSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  CodePointSet out;
  for (const CodePointRange& range : set) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePointRange& range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= k_last_code_point) out.push_back({next, k_last_code_point});
  return out;
}

CodePointSet intersect(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet out;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const uint32_t first = std::max(a[i].first, b[k].first);
    const uint32_t last = std::min(a[i].last, b[k].last);
    if (first <= last) out.push_back({first, last});
    if (a[i].last < b[k].last) {
      ++i;
    } else {
      ++k;
    }
  }
  return out;
}

std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set) {
  // Where the length of the UTF-8 changes, and around the surrogates.
  constexpr CodePointRange parts[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, k_last_code_point}};
  std::vector<Utf8Sequence> out;
  for (const CodePointRange& range : set) {
    for (const CodePointRange& part : parts) {
      const uint32_t first = std::max(range.first, part.first);
      const uint32_t last = std::min(range.last, part.last);
      if (first <= last) split_range(first, last, out);
    }
  }
  return out;
}

}  // namespace strata::text::grammar
