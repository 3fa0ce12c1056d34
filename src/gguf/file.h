// GGUF files: strict, bounded reading of one file or of a set of split files.
//
// Purpose: turn hostile bytes into metadata and a table of tensors whose bytes are proven to lie
// inside the mapped files, aligned and disjoint. Knows element types only as ids with block sizes;
// the meaning of tensors is not its business.
// Errors: ErrorCode::bad_file naming path, byte offset and cause; ErrorCode::io;
// ErrorCode::unsupported (version 1, big-endian files, unknown or retired element types, with the
// tensor's name).
// Memory: never allocates more than a small multiple of the bytes that the file really has.
// Ownership: a File owns its mappings; the views it gives live as long as it does (those of a file
// made in memory until release()).
// Threads: constant after opening.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "gguf/value.h"

namespace strata::gguf {

struct TensorInfo {
  std::string name;
  uint32_t n_dims = 0;                       // 0 to 4
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is contiguous
  uint32_t type = 0;                         // element type id
  uint64_t elements = 0;                     // product of dims
  uint64_t bytes = 0;                        // in the file
  uint64_t offset = 0;                       // relative to its shard's data section
  uint32_t shard = 0;                        // index into File::shards()
};

// Result of parsing one file's header; `bytes` is only looked at, not kept.
struct Header {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_offset = 0;  // of the data section in the file
  uint64_t file_bytes = 0;   // size of the file this was parsed from
  Metadata metadata;
  std::vector<TensorInfo> tensors;
};

// A tensor that is yet to get its place in a file.
struct TensorSpec {
  std::string name;
  std::vector<uint64_t> dims;  // dims[0] contiguous, at most 4
  uint32_t type = 0;
};

struct ParseOptions {
  // Accept a file that ends anywhere after the tensor table (header-only copies, for planning).
  bool allow_missing_data = false;
  // Accept a split set of which only some files are there, the first among them (for planning).
  bool allow_missing_files = false;
};

// Parses and checks a header. `name` is used in messages.
Header parse_header(std::span<const std::byte> bytes, const std::string& name,
                    const ParseOptions& options = {});

class File {
 public:
  struct Shard {
    std::string path;
    Header header;
    MappedFile mapping;
  };

  // Opens a file; if its metadata say that it is part of a split set, opens and verifies the whole
  // set (counts, numbers, no tensor twice), whichever shard was named.
  static File open(const std::string& path, const ParseOptions& options = {});

  // Makes the data of tensor `index`; may be called from several threads for different tensors.
  using Fill = std::function<void(size_t index, std::span<std::byte> out)>;
  // A file that is on no disk: what `name` (for messages) would hold if it were written. A
  // tensor's bytes are made by `fill` when data() first asks for them, and freed by release().
  // Without `fill` it is a header only.
  static File in_memory(const std::string& name, const Metadata& metadata,
                        std::span<const TensorSpec> tensors, Fill fill = {});
  // Whether it was made by in_memory.
  bool made() const { return made_ != nullptr; }

  // Metadata of shard 0: the model's.
  const Metadata& metadata() const { return shards_[0].header.metadata; }
  // All tensors, in shard order, then file order.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find_tensor(std::string_view name) const;
  // The tensor's bytes in the mapping. Empty when the data is missing (allow_missing_data, or a
  // header in memory). Bytes of a file that has become shorter since read as zeros: see check().
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  // Bytes [offset, offset + to.size()) of the tensor read from the file, without the mapping.
  // Neither for a file that is on no disk nor when the data is missing: ErrorCode::internal.
  void read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> to) const;
  // To be called after data() was read: throws ErrorCode::io, with the file's name, when a file,
  // or the tensor's, has become shorter since it was opened or could not be read.
  void check() const;
  void check(const TensorInfo& tensor) const;
  // Tells the system that the tensor's pages are needed soon / not needed any more, or a part's.
  void will_need(const TensorInfo& tensor) const;
  void release(const TensorInfo& tensor) const;
  void release(const TensorInfo& tensor, uint64_t offset, uint64_t length) const;

  // Those that are there, the first one first.
  const std::vector<Shard>& shards() const { return shards_; }
  // Of a split set: files that are not there, and the tensors in them (allow_missing_files).
  uint32_t missing_files() const { return missing_files_; }
  uint64_t missing_tensors() const { return missing_tensors_; }
  uint64_t total_bytes() const;  // of all files

 private:
  struct Made;  // the data of a file in memory

  File() = default;
  void index_tensors();

  std::shared_ptr<Made> made_;
  std::vector<Shard> shards_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, size_t> index_;  // keys point into tensors_
  uint32_t missing_files_ = 0;
  uint64_t missing_tensors_ = 0;
};

// Parts of a split file's name: "prefix-00001-of-00003.gguf" -> {"prefix", 0, 3}.
struct SplitName {
  std::string prefix;
  uint32_t index = 0;  // 0-based
  uint32_t count = 0;
};
std::optional<SplitName> parse_split_name(std::string_view path);
std::string split_name(std::string_view prefix, uint32_t index, uint32_t count);

}  // namespace strata::gguf
