#include "tensor/types.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "gguf/types.h"
#include "tensor/blocks.h"

namespace strata {
namespace {

constexpr ElementType k_supported[] = {
    ElementType::f32,    ElementType::f16,    ElementType::q4_0, ElementType::q4_1,
    ElementType::q5_0,   ElementType::q5_1,   ElementType::q8_0, ElementType::q2_k,
    ElementType::q3_k,   ElementType::q4_k,   ElementType::q5_k, ElementType::q6_k,
    ElementType::iq4_nl, ElementType::iq4_xs, ElementType::bf16, ElementType::mxfp4,
};

// Indexed by id, as the table it is made from.
const std::vector<TypeInfo>& table() {
  static const std::vector<TypeInfo> infos = [] {
    std::vector<TypeInfo> out;
    for (const gguf::BlockType& type : gguf::block_types()) {
      const bool supported = std::find(std::begin(k_supported), std::end(k_supported),
                                       static_cast<ElementType>(type.id)) != std::end(k_supported);
      out.push_back({type.id, type.name, type.block_elems, type.block_bytes, supported});
    }
    return out;
  }();
  return infos;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

uint64_t block_count(ElementType type, uint64_t elems) {
  const TypeInfo& t = info(type);
  if (elems % t.block_elems != 0) {
    fail(ErrorCode::internal, "{} elements are not a whole number of {} blocks of {}", elems,
         t.name, t.block_elems);
  }
  return elems / t.block_elems;
}

using Dequantizer = void (*)(const uint8_t*, float*, size_t);

// The dequantiser of a block format; nullptr for the types without blocks.
Dequantizer dequantizer(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::f16:
    case ElementType::bf16:
      return nullptr;
    case ElementType::q4_0:
      return blocks::dequantize_q4_0;
    case ElementType::q4_1:
      return blocks::dequantize_q4_1;
    case ElementType::q5_0:
      return blocks::dequantize_q5_0;
    case ElementType::q5_1:
      return blocks::dequantize_q5_1;
    case ElementType::q8_0:
      return blocks::dequantize_q8_0;
    case ElementType::q2_k:
      return blocks::dequantize_q2_k;
    case ElementType::q3_k:
      return blocks::dequantize_q3_k;
    case ElementType::q4_k:
      return blocks::dequantize_q4_k;
    case ElementType::q5_k:
      return blocks::dequantize_q5_k;
    case ElementType::q6_k:
      return blocks::dequantize_q6_k;
    case ElementType::iq4_nl:
      return blocks::dequantize_iq4_nl;
    case ElementType::iq4_xs:
      return blocks::dequantize_iq4_xs;
    case ElementType::mxfp4:
      return blocks::dequantize_mxfp4;
  }
  return nullptr;
}

}  // namespace

const TypeInfo* find_type(uint32_t id) { return id < table().size() ? &table()[id] : nullptr; }

const TypeInfo& info(ElementType type) {
  const TypeInfo* found = find_type(static_cast<uint32_t>(type));
  if (found == nullptr || !found->supported) {
    fail(ErrorCode::unsupported, "element type {} cannot be computed", static_cast<uint32_t>(type));
  }
  return *found;
}

std::optional<ElementType> parse_type(std::string_view name) {
  for (const ElementType type : k_supported) {
    if (equal_ignoring_case(name, info(type).name)) return type;
  }
  return std::nullopt;
}

std::span<const ElementType> supported_types() { return k_supported; }

uint64_t row_bytes(ElementType type, uint64_t elems) {
  const auto bytes = checked_mul(block_count(type, elems), info(type).block_bytes);
  if (!bytes) {
    fail(ErrorCode::internal, "{} elements of {} take more bytes than 2^64", elems,
         info(type).name);
  }
  return *bytes;
}

void dequantize(ElementType type, const void* src, float* dst, size_t elems) {
  const auto* bytes = static_cast<const uint8_t*>(src);
  const uint64_t count = block_count(type, elems);
  if (const Dequantizer blockwise = dequantizer(type)) {
    blockwise(bytes, dst, count);
  } else if (type == ElementType::f32) {
    if (elems > 0) std::memcpy(dst, bytes, elems * sizeof(float));
  } else if (type == ElementType::f16) {
    for (size_t i = 0; i < elems; ++i) dst[i] = blocks::load_f16(bytes + 2 * i);
  } else {
    for (size_t i = 0; i < elems; ++i) dst[i] = bf16_to_f32(blocks::load_u16(bytes + 2 * i));
  }
}

void quantize(ElementType type, const float* src, void* dst, size_t elems) {
  auto* bytes = static_cast<uint8_t*>(dst);
  const uint64_t count = block_count(type, elems);
  switch (type) {
    case ElementType::f32:
      if (elems > 0) std::memcpy(bytes, src, elems * sizeof(float));
      return;
    case ElementType::f16:
      return blocks::quantize_f16(src, bytes, elems);
    case ElementType::bf16:
      return blocks::quantize_bf16(src, bytes, elems);
    case ElementType::q8_0:
      return blocks::quantize_q8_0(src, bytes, count);
    case ElementType::q4_0:
      return blocks::quantize_q4_0(src, bytes, count);
    default:
      fail(ErrorCode::unsupported,
           "values cannot be quantised to {} here; use f32, f16, bf16, q8_0 or q4_0",
           info(type).name);
  }
}

}  // namespace strata
