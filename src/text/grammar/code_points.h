// Sets of Unicode code points, and the byte sequences that spell them in UTF-8.
//
// Purpose: character classes of grammars and of patterns; what the grammar's automaton reads is
// bytes. Not for: classes by property (\p{...}).
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace strata::text::grammar {

constexpr uint32_t k_last_code_point = 0x10FFFF;

struct CodePointRange {
  uint32_t first;
  uint32_t last;
  bool operator==(const CodePointRange&) const = default;
};

// Ascending, disjoint, not adjacent after normalise().
using CodePointSet = std::vector<CodePointRange>;

CodePointSet normalise(CodePointSet set);
// Both arguments normalised, as is the result.
CodePointSet complement(const CodePointSet& set);
CodePointSet intersect(const CodePointSet& a, const CodePointSet& b);

// One range of values per byte: every combination is the UTF-8 of a code point of the set.
struct Utf8Sequence {
  struct ByteRange {
    uint8_t first;
    uint8_t last;
    bool operator==(const ByteRange&) const = default;
  };
  std::array<ByteRange, 4> bytes;
  uint32_t length;
};

// The whole set (normalised) without surrogates, in ascending order. The ranges of a first byte
// are equal or disjoint, and so on for the bytes after a common beginning.
std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set);

}  // namespace strata::text::grammar
