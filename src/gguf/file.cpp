#include "gguf/file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "gguf/writer.h"

namespace strata::gguf {
namespace {

std::string shown(const std::string& path) { return printable(path, 400); }

File::Shard open_shard(const std::string& path, const ParseOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorCode::io, "'{}' is a folder; give the path of a .gguf file in it", shown(path));
  }
  MappedFile mapping(path);
  Header header;
  try {
    header = parse_header(mapping.bytes(), path, options);
  } catch (...) {
    mapping.check();  // else zeros in the place of what is gone would be the file's fault
    throw;
  }
  mapping.check();
  return {path, std::move(header), std::move(mapping)};
}

// What a file's metadata say about its place in a set.
struct SplitKeys {
  uint64_t index = 0;
  uint64_t count = 1;
  uint64_t tensors = 0;  // of the whole set
};

// nullopt for a file that is whole by itself.
std::optional<SplitKeys> read_split_keys(const File::Shard& shard) {
  const Metadata& metadata = shard.header.metadata;
  const auto read = [&](const char* key) -> std::optional<uint64_t> {
    const Value* value = metadata.find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = to_uint(*value);
    if (!number) {
      fail(ErrorCode::bad_file,
           "'{}': metadata key '{}' is {}, not a non-negative integer; the file is damaged",
           shown(shard.path), key, to_display(*value));
    }
    return number;
  };
  const auto count = read("split.count");
  const auto index = read("split.no");
  const auto tensors = read("split.tensors.count");
  if (!count) {
    if (index && *index != 0) {
      fail(ErrorCode::bad_file,
           "'{}': metadata key 'split.no' is {} but 'split.count' is missing; the file is damaged",
           shown(shard.path), *index);
    }
    return std::nullopt;
  }
  if (*count <= 1 && index.value_or(0) == 0) return std::nullopt;
  if (!index || !tensors) {
    fail(ErrorCode::bad_file,
         "'{}' is one of {} split files, but its metadata key '{}' is missing; the file is damaged",
         shown(shard.path), *count, index ? "split.tensors.count" : "split.no");
  }
  if (*index >= *count || *count > 99999) {
    fail(ErrorCode::bad_file,
         "'{}': metadata keys 'split.no' = {} and 'split.count' = {} do not make sense; the file "
         "is damaged",
         shown(shard.path), *index, *count);
  }
  return SplitKeys{*index, *count, *tensors};
}

// Keys that two shards of one set may each have for themselves.
bool is_own_key(std::string_view key) { return key == "split.no" || key == "general.alignment"; }

// A shard that repeats the first one's metadata must agree with it: otherwise it is of another
// model.
void check_same_model(const File::Shard& first, const File::Shard& shard) {
  for (const auto& [key, value] : shard.header.metadata.entries()) {
    if (is_own_key(key)) continue;
    const Value* other = first.header.metadata.find(key);
    if (other != nullptr && *other != value) {
      fail(ErrorCode::bad_file,
           "'{}' and '{}' are not of one set: metadata key '{}' is {} and {}; gather the files of "
           "one download",
           shown(first.path), shown(shard.path), printable(key), to_display(*other),
           to_display(value));
    }
  }
}

// A shard's metadata must say what its name says.
void check_place(const File::Shard& shard, const std::optional<SplitKeys>& keys, uint32_t index,
                 uint32_t count) {
  if (keys && keys->index == index && keys->count == count) return;
  fail(ErrorCode::bad_file,
       "'{}' is named as file {} of {}, but its metadata say {}; it was renamed or is of another "
       "set: restore the names it was downloaded with",
       shown(shard.path), index + 1, count,
       keys ? fmt::format("file {} of {}", keys->index + 1, keys->count)
            : "that it is no part of a set");
}

struct Set {
  std::vector<File::Shard> shards;
  uint32_t missing_files = 0;
  uint64_t missing_tensors = 0;
};

// Opens the other files of the set that `named` belongs to; returns all in order.
Set open_set(File::Shard named, const SplitKeys& keys, const ParseOptions& options) {
  const auto name = parse_split_name(named.path);
  if (!name) {
    fail(ErrorCode::bad_file,
         "'{}' is file {} of {} of a split model, but is not named so; give it back its name, "
         "which ends in '{}'",
         shown(named.path), keys.index + 1, keys.count,
         split_name("", static_cast<uint32_t>(keys.index), static_cast<uint32_t>(keys.count)));
  }
  check_place(named, keys, name->index, name->count);
  const std::string named_path = shown(named.path);
  Set set;
  std::vector<File::Shard>& shards = set.shards;
  uint64_t tensors = 0;
  for (uint32_t i = 0; i < name->count; ++i) {
    if (i == name->index) {
      shards.push_back(std::move(named));
    } else {
      const std::string path = split_name(name->prefix, i, name->count);
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) {
        // The first file has the model's description: nothing can be said without it.
        if (options.allow_missing_files && i > 0) {
          ++set.missing_files;
          continue;
        }
        fail(ErrorCode::io,
             "'{}' is file {} of {} of a split model, but file {}, '{}', is missing; put all of "
             "them into one folder",
             named_path, name->index + 1, name->count, i + 1, shown(path));
      }
      shards.push_back(open_shard(path, options));
      const auto own = read_split_keys(shards.back());
      check_place(shards.back(), own, i, name->count);
      if (own->tensors != keys.tensors) {
        fail(ErrorCode::bad_file,
             "'{}' is of a set with {} tensors, but '{}' of one with {}; gather the files of one "
             "download",
             shown(path), own->tensors, named_path, keys.tensors);
      }
    }
    if (i > 0) check_same_model(shards[0], shards.back());
    tensors += shards.back().header.tensors.size();
  }
  if (set.missing_files > 0 && tensors <= keys.tensors) {
    set.missing_tensors = keys.tensors - tensors;
  } else if (tensors != keys.tensors) {
    fail(ErrorCode::bad_file,
         "'{}' and its {} sibling files hold {} tensors, but their metadata say {}; gather the "
         "files of one download",
         shown(shards[0].path), name->count - 1, tensors, keys.tensors);
  }
  return set;
}

}  // namespace

struct File::Made {
  static constexpr size_t k_alignment = 64;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<std::byte, Free> data;
  };

  Made(Fill fill_function, size_t n_tensors) : fill(std::move(fill_function)), slots(n_tensors) {}

  std::span<const std::byte> get(size_t index, uint64_t bytes) {
    Slot& slot = slots[index];
    const std::lock_guard lock(slot.mutex);
    if (slot.data == nullptr) {
      void* memory = std::aligned_alloc(k_alignment, align_up(bytes, k_alignment));
      if (memory == nullptr) throw std::bad_alloc();
      std::unique_ptr<std::byte, Free> data(static_cast<std::byte*>(memory));
      fill(index, {data.get(), bytes});
      slot.data = std::move(data);
    }
    return {slot.data.get(), bytes};
  }
  void drop(size_t index) {
    const std::lock_guard lock(slots[index].mutex);
    slots[index].data.reset();
  }

  const Fill fill;
  std::vector<Slot> slots;
};

File File::in_memory(const std::string& name, const Metadata& metadata,
                     std::span<const TensorSpec> tensors, Fill fill) {
  const std::string bytes = encode_header(metadata, tensors);
  File file;
  ParseOptions options;
  options.allow_missing_data = true;
  file.shards_.push_back(
      {name, parse_header(std::as_bytes(std::span(bytes)), name, options), MappedFile()});
  file.made_ = std::make_shared<Made>(std::move(fill), tensors.size());
  file.index_tensors();
  return file;
}

File File::open(const std::string& path, const ParseOptions& options) {
  File file;
  Shard named = open_shard(path, options);
  if (const auto keys = read_split_keys(named)) {
    Set set = open_set(std::move(named), *keys, options);
    file.shards_ = std::move(set.shards);
    file.missing_files_ = set.missing_files;
    file.missing_tensors_ = set.missing_tensors;
  } else {
    file.shards_.push_back(std::move(named));
  }
  file.index_tensors();
  return file;
}

void File::index_tensors() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (TensorInfo& tensor : shards_[i].header.tensors) {
      tensor.shard = static_cast<uint32_t>(i);
      tensors_.push_back(tensor);
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& tensor = tensors_[i];
    const auto [at, added] = index_.try_emplace(tensor.name, i);
    if (!added) {
      fail(ErrorCode::bad_file,
           "tensor '{}' is both in '{}' and in '{}'; gather the files of one "
           "download",
           printable(tensor.name), shown(shards_[tensors_[at->second].shard].path),
           shown(shards_[tensor.shard].path));
    }
  }
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

std::span<const std::byte> File::data(const TensorInfo& tensor) const {
  if (made_ != nullptr) {
    if (!made_->fill) return {};
    return made_->get(index_.at(tensor.name), tensor.bytes);
  }
  const Shard& shard = shards_.at(tensor.shard);
  const auto bytes = shard.mapping.bytes();
  // Parsing proved that these sums do not wrap.
  const uint64_t begin = shard.header.data_offset + tensor.offset;
  if (begin + tensor.bytes > bytes.size()) return {};
  return bytes.subspan(begin, tensor.bytes);
}

void File::read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> to) const {
  if (offset > tensor.bytes || to.size() > tensor.bytes - offset) {
    fail(ErrorCode::internal, "tensor '{}' has {} bytes, {} from {} are asked for", tensor.name,
         tensor.bytes, to.size(), offset);
  }
  if (made_ != nullptr || data(tensor).empty()) {
    fail(ErrorCode::internal, "tensor '{}' has no bytes to read in a file", tensor.name);
  }
  const Shard& shard = shards_.at(tensor.shard);
  shard.mapping.read(shard.header.data_offset + tensor.offset + offset, to);
}

void File::check() const {
  for (const Shard& shard : shards_) shard.mapping.check();
}

void File::check(const TensorInfo& tensor) const { shards_.at(tensor.shard).mapping.check(); }

void File::will_need(const TensorInfo& tensor) const {
  if (made_ != nullptr) return;
  const Shard& shard = shards_.at(tensor.shard);
  shard.mapping.will_need(shard.header.data_offset + tensor.offset, tensor.bytes);
}

void File::release(const TensorInfo& tensor) const {
  if (made_ != nullptr) return made_->drop(index_.at(tensor.name));
  const Shard& shard = shards_.at(tensor.shard);
  shard.mapping.release(shard.header.data_offset + tensor.offset, tensor.bytes);
}

void File::release(const TensorInfo& tensor, uint64_t offset, uint64_t length) const {
  if (made_ != nullptr) return;  // made as a whole
  const Shard& shard = shards_.at(tensor.shard);
  shard.mapping.release(shard.header.data_offset + tensor.offset + offset, length);
}

uint64_t File::total_bytes() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.header.file_bytes;
  if (made_ != nullptr && !tensors_.empty()) {
    total += align_up(tensors_.back().offset + tensors_.back().bytes, shards_[0].header.alignment);
  }
  return total;
}

}  // namespace strata::gguf
