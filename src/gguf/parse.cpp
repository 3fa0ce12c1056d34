// The header of one file: bytes to metadata and a checked table of tensors.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "gguf/file.h"
#include "gguf/layout.h"

namespace strata::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

constexpr const char* k_cut_short = "the file is cut short; download or copy it again";
constexpr const char* k_damaged = "the file is damaged or from a faulty converter";

// The fewest bytes that an entry of each table takes: they bound the counts.
constexpr uint64_t k_min_key_value_bytes = 8 + 1 + 4 + 1;
constexpr uint64_t k_min_tensor_bytes = 8 + 1 + 4 + 4 + 8;

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name, const ParseOptions& options)
      : bytes_(bytes), name_(printable(name, 400)), options_(options) {
    header_.metadata.set_origin(name);
  }

  Header run() {
    read_magic();
    header_.file_bytes = bytes_.size();
    const uint64_t tensor_count = read_count("tensors", k_min_tensor_bytes);
    const uint64_t key_count = read_count("metadata keys", k_min_key_value_bytes);
    for (uint64_t i = 0; i < key_count; ++i) read_key_value();
    // The table of tensors begins here; what is left must still have room for it.
    check_count("tensors", tensor_count, k_min_tensor_bytes, k_tensor_count_at);
    header_.tensors.reserve(tensor_count);
    info_at_.reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i) read_tensor();
    place_data();
    check_names();
    check_placement();
    return std::move(header_);
  }

 private:
  static constexpr uint64_t k_tensor_count_at = 8;

  template <class... Args>
  [[noreturn]] void fail_at(ErrorCode code, uint64_t at, fmt::format_string<Args...> format,
                            Args&&... args) const {
    fail(code, "'{}', byte {}: {}", name_, at, fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t left() const { return bytes_.size() - at_; }

  // Takes the next `size` bytes; `what` is being read.
  const std::byte* take(uint64_t size, std::string_view what) {
    if (size > left()) {
      fail_at(ErrorCode::bad_file, at_, "{} needs {} bytes but only {} are left; {}", what, size,
              left(), k_cut_short);
    }
    const std::byte* out = bytes_.data() + at_;
    at_ += size;
    return out;
  }

  template <class T>
  T read(std::string_view what) {
    T out;
    std::memcpy(&out, take(sizeof out, what), sizeof out);
    return out;
  }

  std::string_view read_text(std::string_view what) {
    const uint64_t start = at_;
    const auto size = read<uint64_t>(what);
    if (size > left()) {
      fail_at(ErrorCode::bad_file, start, "{} claims {} bytes but only {} are left; {}", what, size,
              left(), k_cut_short);
    }
    return {reinterpret_cast<const char*>(take(size, what)), size};
  }

  void read_magic() {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    if (text.empty()) {
      fail_at(ErrorCode::bad_file, 0, "the file is empty; download or convert it again");
    }
    if (!text.starts_with("GGUF")) {
      fail_at(ErrorCode::bad_file, 0, "not a GGUF file: it begins with \"{}\"; {}",
              printable(text.substr(0, 4), 16), hint_for(text));
    }
    take(4, "the magic");
    const auto version = read<uint32_t>("the version");
    if (version == 1) {
      fail_at(ErrorCode::unsupported, 4,
              "GGUF version 1 is obsolete and not supported; convert the model again from its "
              "source");
    }
    if (version != 0 && (version & 0xFFFF) == 0) {
      fail_at(ErrorCode::unsupported, 4,
              "the file is big-endian (version {} byte-swapped), which is not supported; convert "
              "it to little-endian",
              __builtin_bswap32(version));
    }
    if (version < k_min_version || version > k_max_version) {
      fail_at(ErrorCode::unsupported, 4,
              "GGUF version {} is not supported, only {} and {}; use a newer release or convert "
              "the model again",
              version, k_min_version, k_max_version);
    }
    header_.version = version;
  }

  // What a file that is not GGUF probably is, and what to do about it.
  static const char* hint_for(std::string_view text) {
    if (text.starts_with("version https://git-lfs")) {
      return "it is a Git LFS pointer; fetch the file itself with git lfs pull";
    }
    if (text.starts_with("<")) return "it looks like a web page; download the file itself";
    if (text.starts_with("PK")) return "it looks like a PyTorch checkpoint; convert it to GGUF";
    for (const char* old : {"lmgg", "fmgg", "tjgg", "algg"}) {
      if (text.starts_with(old)) return "it is of GGUF's predecessors; convert it to GGUF";
    }
    if (text.size() > 9 && text.substr(8).starts_with("{\"")) {
      return "it looks like a safetensors file; convert it to GGUF";
    }
    if (std::string_view("GGUF").starts_with(text)) return k_cut_short;
    return "give the path of a .gguf file";
  }

  uint64_t read_count(const char* what, uint64_t min_bytes) {
    const uint64_t start = at_;
    const auto count = read<uint64_t>(what);
    check_count(what, count, min_bytes, start);
    return count;
  }

  void check_count(const char* what, uint64_t count, uint64_t min_bytes, uint64_t count_at) const {
    if (count > left() / min_bytes) {
      fail_at(ErrorCode::bad_file, count_at,
              "the file claims {} {} but has only {} bytes left for them; it is cut short or "
              "damaged",
              count, what, left());
    }
  }

  void read_key_value() {
    const uint64_t start = at_;
    const std::string_view key = read_text("a metadata key");
    if (const std::string problem = check_key(key); !problem.empty()) {
      fail_at(ErrorCode::bad_file, start, "{}; {}", problem, k_damaged);
    }
    key_ = printable(key);
    if (header_.metadata.has(key)) {
      fail_at(ErrorCode::bad_file, start, "metadata key '{}' appears twice; {}", key_, k_damaged);
    }
    const uint64_t type_at = at_;
    const auto type = read<uint32_t>("a metadata type");
    const uint64_t value_at = at_;
    Value value = read_value(type, type_at);
    if (key == k_alignment_key) read_alignment(value, value_at);
    header_.metadata.set(std::string(key), std::move(value));
  }

  void read_alignment(const Value& value, uint64_t value_at) {
    const auto alignment = to_uint(value);
    if (!alignment) {
      fail_at(ErrorCode::bad_file, value_at, "{} is {}, not an integer; {}", k_alignment_key,
              to_display(value), k_damaged);
    }
    if (const std::string problem = check_alignment(*alignment); !problem.empty()) {
      fail_at(ErrorCode::bad_file, value_at, "{}; {}", problem, k_damaged);
    }
    header_.alignment = *alignment;
  }

  Value read_value(uint32_t type, uint64_t type_at) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8:
        return read_scalar<uint8_t>();
      case ValueType::i8:
        return read_scalar<int8_t>();
      case ValueType::u16:
        return read_scalar<uint16_t>();
      case ValueType::i16:
        return read_scalar<int16_t>();
      case ValueType::u32:
        return read_scalar<uint32_t>();
      case ValueType::i32:
        return read_scalar<int32_t>();
      case ValueType::f32:
        return read_scalar<float>();
      case ValueType::boolean:
        check_bools(at_, 1);
        return read_scalar<uint8_t>() != 0;
      case ValueType::string:
        return std::string(read_text(value_name()));
      case ValueType::array:
        return read_array();
      case ValueType::u64:
        return read_scalar<uint64_t>();
      case ValueType::i64:
        return read_scalar<int64_t>();
      case ValueType::f64:
        return read_scalar<double>();
    }
    fail_at(ErrorCode::bad_file, type_at,
            "metadata key '{}' has value type {}, which is not known; {}", key_, type, k_damaged);
  }

  std::string value_name() const { return fmt::format("the value of metadata key '{}'", key_); }

  template <class T>
  T read_scalar() {
    if (left() < sizeof(T)) take(sizeof(T), value_name());
    return read<T>({});
  }

  Array read_array() {
    const uint64_t type_at = at_;
    const auto type = read_scalar<uint32_t>();
    const uint64_t count_at = at_;
    const auto count = read_scalar<uint64_t>();
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8:
        return read_elements<uint8_t>(count, count_at);
      case ValueType::i8:
        return read_elements<int8_t>(count, count_at);
      case ValueType::u16:
        return read_elements<uint16_t>(count, count_at);
      case ValueType::i16:
        return read_elements<int16_t>(count, count_at);
      case ValueType::u32:
        return read_elements<uint32_t>(count, count_at);
      case ValueType::i32:
        return read_elements<int32_t>(count, count_at);
      case ValueType::f32:
        return read_elements<float>(count, count_at);
      case ValueType::boolean: {
        check_array_count(count, 1, count_at);
        check_bools(at_, count);
        return BoolArray{read_elements<uint8_t>(count, count_at)};
      }
      case ValueType::string:
        return read_strings(count, count_at);
      case ValueType::array:
        fail_at(ErrorCode::bad_file, type_at,
                "metadata key '{}' is an array of arrays, which the format does not allow; {}",
                key_, k_damaged);
      case ValueType::u64:
        return read_elements<uint64_t>(count, count_at);
      case ValueType::i64:
        return read_elements<int64_t>(count, count_at);
      case ValueType::f64:
        return read_elements<double>(count, count_at);
    }
    fail_at(ErrorCode::bad_file, type_at,
            "metadata key '{}' is an array of type {}, which is not known; {}", key_, type,
            k_damaged);
  }

  void check_array_count(uint64_t count, uint64_t min_bytes, uint64_t count_at) const {
    if (count > left() / min_bytes) {
      fail_at(ErrorCode::bad_file, count_at,
              "metadata key '{}' claims an array of {} elements but only {} bytes are left; the "
              "file is cut short or damaged",
              key_, count, left());
    }
  }

  template <class T>
  std::vector<T> read_elements(uint64_t count, uint64_t count_at) {
    check_array_count(count, sizeof(T), count_at);
    std::vector<T> out(count);
    const std::byte* from = take(count * sizeof(T), {});
    if (count > 0) std::memcpy(out.data(), from, count * sizeof(T));
    return out;
  }

  std::vector<std::string> read_strings(uint64_t count, uint64_t count_at) {
    check_array_count(count, 8, count_at);
    const std::string what = fmt::format("an element of metadata key '{}'", key_);
    std::vector<std::string> out;
    out.reserve(count);
    for (uint64_t i = 0; i < count; ++i) out.emplace_back(read_text(what));
    return out;
  }

  // Booleans are bytes 0 and 1; `count` bytes from `from`, as far as there are any, are checked.
  void check_bools(uint64_t from, uint64_t count) const {
    const uint64_t end = from + std::min<uint64_t>(count, bytes_.size() - from);
    for (uint64_t at = from; at < end; ++at) {
      const auto value = static_cast<unsigned>(bytes_[at]);
      if (value > 1) {
        fail_at(ErrorCode::bad_file, at,
                "metadata key '{}' has a boolean with the byte {}, not 0 or 1; {}", key_, value,
                k_damaged);
      }
    }
  }

  void read_tensor() {
    const uint64_t start = at_;
    TensorInfo tensor;
    tensor.name = read_text("a tensor's name");
    if (const std::string problem = check_tensor_name(tensor.name); !problem.empty()) {
      fail_at(ErrorCode::bad_file, start, "{}; {}", problem, k_damaged);
    }
    const std::string what = fmt::format("the entry of tensor '{}'", printable(tensor.name));
    tensor.n_dims = read<uint32_t>(what);
    if (tensor.n_dims > k_max_dims) {
      fail_at(ErrorCode::bad_file, at_ - 4, "tensor '{}' has {} dimensions, more than {}; {}",
              printable(tensor.name), tensor.n_dims, k_max_dims, k_damaged);
    }
    for (uint32_t i = 0; i < tensor.n_dims; ++i) tensor.dims[i] = read<uint64_t>(what);
    const uint64_t type_at = at_;
    tensor.type = read<uint32_t>(what);
    tensor.offset = read<uint64_t>(what);
    if (const SizeProblem problem = compute_sizes(tensor); !problem.text.empty()) {
      if (problem.unsupported) fail_at(ErrorCode::unsupported, type_at, "{}", problem.text);
      fail_at(ErrorCode::bad_file, start, "{}; {}", problem.text, k_damaged);
    }
    header_.tensors.push_back(std::move(tensor));
    info_at_.push_back(start);
  }

  void place_data() {
    // A file without tensors ends with its metadata: no data section, no padding.
    header_.data_offset = header_.tensors.empty() ? at_ : *checked_align(at_, header_.alignment);
  }

  std::vector<size_t> sorted_tensors(bool (*less)(const TensorInfo&, const TensorInfo&)) const {
    std::vector<size_t> order(header_.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return less(header_.tensors[a], header_.tensors[b]);
    });
    return order;
  }

  void check_names() const {
    const auto order =
        sorted_tensors([](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& tensor = header_.tensors[order[i]];
      if (tensor.name == header_.tensors[order[i - 1]].name) {
        fail_at(ErrorCode::bad_file, info_at_[order[i]], "tensor '{}' appears twice; {}",
                printable(tensor.name), k_damaged);
      }
    }
  }

  // Every tensor aligned, inside the file, and apart from all others.
  void check_placement() const {
    for (size_t i = 0; i < header_.tensors.size(); ++i) {
      const TensorInfo& tensor = header_.tensors[i];
      if (tensor.offset % header_.alignment != 0) {
        fail_at(ErrorCode::bad_file, info_at_[i],
                "tensor '{}' lies at offset {} of the data, which is not a multiple of the "
                "alignment {}; {}",
                printable(tensor.name), tensor.offset, header_.alignment, k_damaged);
      }
      const auto begin = checked_add(header_.data_offset, tensor.offset);
      const auto end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
      if (!end || (*end > bytes_.size() && !options_.allow_missing_data)) {
        fail_at(ErrorCode::bad_file, info_at_[i],
                "tensor '{}' needs {} bytes from offset {} of the data (byte {}), but the file has "
                "{} bytes; {}",
                printable(tensor.name), tensor.bytes, tensor.offset, header_.data_offset,
                bytes_.size(), k_cut_short);
      }
    }
    const auto order = sorted_tensors(
        [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = header_.tensors[order[i - 1]];
      const TensorInfo& tensor = header_.tensors[order[i]];
      if (tensor.offset - before.offset < before.bytes) {
        fail_at(ErrorCode::bad_file, info_at_[order[i]],
                "tensor '{}' at offset {} overlaps tensor '{}' ({} bytes at offset {}); {}",
                printable(tensor.name), tensor.offset, printable(before.name), before.bytes,
                before.offset, k_damaged);
      }
    }
  }

  std::span<const std::byte> bytes_;
  std::string name_;
  ParseOptions options_;
  uint64_t at_ = 0;
  std::string key_;  // being read, printable
  Header header_;
  std::vector<uint64_t> info_at_;  // of each tensor's entry in the table
};

}  // namespace

Header parse_header(std::span<const std::byte> bytes, const std::string& name,
                    const ParseOptions& options) {
  return Parser(bytes, name, options).run();
}

}  // namespace strata::gguf
