// Files: mapped reading, whole reading, and writing that notices a full disk.
//
// Errors: ErrorCode::io with the path, the system's reason and, where there is one, the way out.
// Signals: mapped files are guarded (mapping_guard.h), so that a file that is cut short while it is
// read does not end the process.
// Threads: a MappedFile may be read from many threads; an OutputFile belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mapping_guard.h"
#include "base/temporaries.h"

namespace strata {

// A file mapped read-only. The mapping lives as long as the object. Only a regular file is taken:
// a pipe, a socket, a device or a folder is ErrorCode::io at once, whoever is at its other end.
// Bytes that are gone, since somebody made the file shorter or its disk fails, read as zeros: what
// was read counts only when check() passes afterwards.
class MappedFile {
 public:
  MappedFile() = default;  // no file, no bytes
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Throws ErrorCode::io when a byte that was read may have been gone, or the file is shorter now.
  void check() const;

  // Tells the system that these bytes will be needed soon, or are not needed any more (their
  // pages leave this process; they may stay in the page cache).
  void will_need(size_t offset, size_t length) const;
  // Reads bytes from the file itself, not through the mapping. Errors: ErrorCode::io, also when the
  // file has become shorter.
  void read(uint64_t offset, std::span<std::byte> to) const;
  void release(size_t offset, size_t length) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  MappingGuard guard_;
};

// Says why standard input could not be read: `error` is the errno.
[[noreturn]] void fail_standard_input(int error);

// The whole of a file, or of standard input when `path` is "-". More than `max_bytes` is refused.
// A pipe is waited for, as the user who named it asks; read_regular_file() is for names that nobody
// gave and takes regular files only.
std::string read_file(const std::string& path, uint64_t max_bytes = uint64_t{256} << 20);
std::string read_regular_file(const std::string& path, uint64_t max_bytes);

// Writes a file that gets its name in close(), so that a failed run leaves no half file and never
// destroys what was there: a file without a name where the file system has such, which nothing can
// leave behind, else a temporary sibling, which goes with the object or when a program that calls
// remove_temporaries() (temporaries.h) is ended by a signal. Over an existing file it is renamed.
// Paths that are not regular files (/dev/full, a pipe) are written directly, "-" and /dev/stdout
// are standard output, and a link is followed: what it leads to is written.
class OutputFile {
 public:
  enum class Temporary : uint8_t { unnamed, named };  // unnamed: where it can be
  explicit OutputFile(const std::string& path, Temporary kind = Temporary::unnamed);
  // Refuses now what could not be written later; leaves nothing behind, and does not open a pipe,
  // whose reader would take that for the end.
  static void check(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  uint64_t position() const { return position_; }
  void close();

 private:
  void flush();
  template <class Make>
  bool make_temporary(Make make);
  void put_in_place();

  std::string path_;
  TemporaryName temporary_;  // the name that the file has, if any, before it has its own
  bool unnamed_ = false;
  int fd_ = -1;
  uint64_t position_ = 0;
  std::string buffer_;
};

}  // namespace strata
