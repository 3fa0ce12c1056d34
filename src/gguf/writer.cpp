#include "gguf/writer.h"

#include <cstring>
#include <set>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "gguf/layout.h"

namespace strata::gguf {
namespace {

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

void put_array(std::string& out, const Array& array) {
  put(out, static_cast<uint32_t>(element_type_of(array)));
  put<uint64_t>(out, size_of(array));
  std::visit(
      [&out](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, BoolArray>) {
          for (const uint8_t value : held.values) put<uint8_t>(out, value != 0 ? 1 : 0);
        } else if constexpr (std::is_same_v<Held, std::vector<std::string>>) {
          for (const std::string& text : held) put_text(out, text);
        } else {
          out.append(reinterpret_cast<const char*>(held.data()),
                     held.size() * sizeof(typename Held::value_type));
        }
      },
      array);
}

void put_value(std::string& out, const Value& value) {
  put(out, static_cast<uint32_t>(type_of(value)));
  std::visit(
      [&out](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, Array>) {
          put_array(out, held);
        } else if constexpr (std::is_same_v<Held, std::string>) {
          put_text(out, held);
        } else if constexpr (std::is_same_v<Held, bool>) {
          put<uint8_t>(out, held ? 1 : 0);
        } else {
          put(out, held);
        }
      },
      value);
}

uint64_t alignment_of(const Metadata& metadata) {
  const Value* value = metadata.find(k_alignment_key);
  if (value == nullptr) return k_default_alignment;
  const auto alignment = to_uint(*value);
  if (!alignment) {
    fail(ErrorCode::bad_request, "{} is {}, not an integer", k_alignment_key, to_display(*value));
  }
  if (const std::string problem = check_alignment(*alignment); !problem.empty()) {
    fail(ErrorCode::bad_request, "{}", problem);
  }
  return *alignment;
}

// Sizes and offsets of the tensors, one after the other, each padded to the alignment.
std::vector<TensorInfo> lay_out(std::span<const TensorSpec> specs, uint64_t alignment) {
  std::vector<TensorInfo> out;
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    if (const std::string problem = check_tensor_name(spec.name); !problem.empty()) {
      fail(ErrorCode::bad_request, "{}", problem);
    }
    if (!names.insert(spec.name).second) {
      fail(ErrorCode::bad_request, "tensor '{}' is given twice", printable(spec.name));
    }
    if (spec.dims.size() > k_max_dims) {
      fail(ErrorCode::bad_request, "tensor '{}' has {} dimensions, more than {}",
           printable(spec.name), spec.dims.size(), k_max_dims);
    }
    TensorInfo tensor;
    tensor.name = spec.name;
    tensor.n_dims = static_cast<uint32_t>(spec.dims.size());
    for (size_t i = 0; i < spec.dims.size(); ++i) tensor.dims[i] = spec.dims[i];
    tensor.type = spec.type;
    if (const SizeProblem problem = compute_sizes(tensor); !problem.text.empty()) {
      fail(ErrorCode::bad_request, "{}", problem.text);
    }
    tensor.offset = offset;
    const auto end = checked_add(offset, tensor.bytes);
    const auto next = end ? checked_align(*end, alignment) : std::nullopt;
    if (!next) {
      fail(ErrorCode::bad_request, "the tensors up to '{}' take more bytes than 2^64",
           printable(spec.name));
    }
    offset = *next;
    out.push_back(std::move(tensor));
  }
  return out;
}

std::string encode(const Metadata& metadata, std::span<const TensorInfo> tensors,
                   uint64_t alignment, uint32_t version) {
  if (version < k_min_version || version > k_max_version) {
    fail(ErrorCode::bad_request, "GGUF version {} cannot be written, only {} and {}", version,
         k_min_version, k_max_version);
  }
  std::string out = "GGUF";
  put(out, version);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, metadata.entries().size());
  for (const auto& [key, value] : metadata.entries()) {
    if (const std::string problem = check_key(key); !problem.empty()) {
      fail(ErrorCode::bad_request, "{}", problem);
    }
    put_text(out, key);
    put_value(out, value);
  }
  for (const TensorInfo& tensor : tensors) {
    put_text(out, tensor.name);
    put(out, tensor.n_dims);
    for (uint32_t i = 0; i < tensor.n_dims; ++i) put(out, tensor.dims[i]);
    put(out, tensor.type);
    put(out, tensor.offset);
  }
  if (!tensors.empty()) out.resize(align_up(out.size(), alignment), '\0');
  return out;
}

}  // namespace

Writer::Writer(const std::string& path, const Metadata& metadata, std::vector<TensorSpec> tensors,
               uint32_t version)
    : out_(path),
      tensors_(lay_out(tensors, alignment_of(metadata))),
      alignment_(alignment_of(metadata)) {
  out_.write(encode(metadata, tensors_, alignment_, version));
}

uint64_t Writer::tensor_bytes(size_t index) const { return tensors_.at(index).bytes; }

void Writer::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (current_ == tensors_.size()) {
    fail(ErrorCode::bad_request, "{} bytes are written after the last tensor", bytes.size());
  }
  const TensorInfo& tensor = tensors_[current_];
  if (bytes.size() > tensor.bytes - written_) {
    fail(ErrorCode::bad_request, "tensor '{}' takes {} bytes; {} are written beyond its end",
         printable(tensor.name), tensor.bytes, bytes.size() - (tensor.bytes - written_));
  }
  out_.write(bytes.data(), bytes.size());
  written_ += bytes.size();
  if (written_ < tensor.bytes) return;
  out_.write(std::string(align_up(tensor.bytes, alignment_) - tensor.bytes, '\0'));
  ++current_;
  written_ = 0;
}

void Writer::close() {
  if (current_ < tensors_.size()) {
    fail(ErrorCode::bad_request, "tensor '{}' is not complete: {} of {} bytes are written",
         printable(tensors_[current_].name), written_, tensors_[current_].bytes);
  }
  out_.close();
}

std::string encode_header(const Metadata& metadata, std::span<const TensorSpec> tensors,
                          uint32_t version) {
  const uint64_t alignment = alignment_of(metadata);
  return encode(metadata, lay_out(tensors, alignment), alignment, version);
}

}  // namespace strata::gguf
