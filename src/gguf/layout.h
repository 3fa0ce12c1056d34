// Rules of the format that reader and writer share: limits on names, alignment, tensor sizes.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gguf/file.h"

namespace strata::gguf {

constexpr uint32_t k_min_version = 2;
constexpr uint32_t k_max_version = 3;
constexpr uint64_t k_default_alignment = 32;
constexpr uint64_t k_max_alignment = uint64_t{1} << 24;
constexpr uint32_t k_max_dims = 4;
constexpr size_t k_max_key_bytes = 65535;
constexpr size_t k_max_tensor_name_bytes = 64;
constexpr std::string_view k_alignment_key = "general.alignment";

// What is wrong with a key or a name; empty when nothing is.
std::string check_key(std::string_view key);
std::string check_tensor_name(std::string_view name);

// What is wrong with an alignment; empty when nothing is.
std::string check_alignment(uint64_t alignment);

// Fills elements and bytes from n_dims (at most k_max_dims), dims and type. Returns what is wrong
// with them, or nothing. `unsupported` tells a type nobody knows (any more) from a wrong shape.
struct SizeProblem {
  std::string text;
  bool unsupported = false;
};
SizeProblem compute_sizes(TensorInfo& tensor);

}  // namespace strata::gguf
