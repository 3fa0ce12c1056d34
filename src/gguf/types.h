// Element types as GGUF files number them: names and block sizes.
//
// Purpose: the one table of ids, names and sizes. What the bytes of a block mean is the tensor
// room's business, which builds on this table.
// Threads: constant tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace strata::gguf {

struct BlockType {
  uint32_t id = 0;
  std::string_view name;     // lower case: "q4_k"
  uint32_t block_elems = 0;  // consecutive elements of a row per block; 0 for a retired type
  uint32_t block_bytes = 0;

  bool retired() const { return block_elems == 0; }
};

// Every known type, retired ones included, in ascending id.
std::span<const BlockType> block_types();

// The type with this id, or nullptr when it is not known.
const BlockType* find_block_type(uint32_t id);

}  // namespace strata::gguf
