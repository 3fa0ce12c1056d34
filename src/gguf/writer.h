// Writes GGUF version 3 (or 2) files that read back byte for byte.
//
// Purpose: the inverse of parse_header plus the data: metadata in the order given with the types
// given, tensors in the order given, each padded to the alignment.
// Errors: ErrorCode::io from the file; ErrorCode::bad_request when names, shapes or sizes are not
// valid GGUF.
// Threads: one writer belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "gguf/file.h"

namespace strata::gguf {

class Writer {
 public:
  // Alignment is taken from metadata's general.alignment (32 when absent).
  Writer(const std::string& path, const Metadata& metadata, std::vector<TensorSpec> tensors,
         uint32_t version = 3);

  // Bytes that tensor `index` takes in the file.
  uint64_t tensor_bytes(size_t index) const;
  // Appends data of the current tensor; tensors are filled in order, in pieces of any size.
  void write(std::span<const std::byte> bytes);
  // Checks that every tensor is complete and puts the file in place.
  void close();

 private:
  OutputFile out_;
  std::vector<TensorInfo> tensors_;
  uint64_t alignment_ = 32;
  size_t current_ = 0;
  uint64_t written_ = 0;  // of the current tensor
};

// The header alone (magic to tensor table, padded to the data section), as Writer would write it.
std::string encode_header(const Metadata& metadata, std::span<const TensorSpec> tensors,
                          uint32_t version = 3);

}  // namespace strata::gguf
