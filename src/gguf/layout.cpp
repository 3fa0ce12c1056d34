#include "gguf/layout.h"

#include <fmt/format.h>

#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "gguf/types.h"

namespace strata::gguf {
namespace {

// Sizes above this are refused so that sums of a size and an offset stay far from wrapping.
constexpr uint64_t k_max_size = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

std::string shape_of(const TensorInfo& tensor) {
  std::string out = "[";
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(tensor.dims[i]);
  }
  return out + "]";
}

}  // namespace

std::string check_key(std::string_view key) {
  if (key.empty()) return "a metadata key is empty";
  if (key.size() > k_max_key_bytes) {
    return fmt::format("metadata key '{}' has {} bytes, more than the {} that the format allows",
                       printable(key), key.size(), k_max_key_bytes);
  }
  return {};
}

std::string check_tensor_name(std::string_view name) {
  if (name.empty()) return "a tensor has an empty name";
  if (name.size() > k_max_tensor_name_bytes) {
    return fmt::format("tensor name '{}' has {} bytes, more than the {} that the format allows",
                       printable(name), name.size(), k_max_tensor_name_bytes);
  }
  return {};
}

std::string check_alignment(uint64_t alignment) {
  if (!is_power_of_two(alignment)) {
    return fmt::format("{} is {}, which is not a power of two", k_alignment_key, alignment);
  }
  if (alignment > k_max_alignment) {
    return fmt::format("{} is {}, more than the {} that is supported", k_alignment_key, alignment,
                       k_max_alignment);
  }
  return {};
}

SizeProblem compute_sizes(TensorInfo& tensor) {
  const std::string name = printable(tensor.name);
  const BlockType* type = find_block_type(tensor.type);
  if (type == nullptr) {
    return {fmt::format("tensor '{}' has element type {}, which is not known; a newer version, or "
                        "the program that wrote the file, may read it",
                        name, tensor.type),
            true};
  }
  if (type->retired()) {
    return {fmt::format("tensor '{}' has element type {} ({}), which was retired from the format; "
                        "make the file anew from its source with a type in use",
                        name, tensor.type, type->name),
            true};
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    if (tensor.dims[i] == 0) {
      return {
          fmt::format("tensor '{}' has shape {}: dimension {} is 0", name, shape_of(tensor), i)};
    }
    const auto product = checked_mul(elements, tensor.dims[i]);
    if (!product || *product > k_max_size) {
      return {
          fmt::format("tensor '{}' has shape {}, more elements than 2^63", name, shape_of(tensor))};
    }
    elements = *product;
  }
  if (tensor.dims[0] % type->block_elems != 0) {
    return {
        fmt::format("tensor '{}' has rows of {} elements, which is not a multiple of the {} "
                    "elements in a block of type {}",
                    name, tensor.dims[0], type->block_elems, type->name)};
  }
  const auto bytes = checked_mul(elements / type->block_elems, type->block_bytes);
  if (!bytes || *bytes > k_max_size) {
    return {fmt::format("tensor '{}' has shape {} of type {}, more bytes than 2^63", name,
                        shape_of(tensor), type->name)};
  }
  tensor.elements = elements;
  tensor.bytes = *bytes;
  return {};
}

}  // namespace strata::gguf
