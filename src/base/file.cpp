#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

[[noreturn]] void fail_io(const char* what, const std::string& path, int error) {
  const char* hint = "";
  if (error == ENOENT) hint = "; check the path";
  if (error == EACCES) hint = "; check the file's permissions";
  if (error == ENOSPC) hint = "; free some space or write elsewhere";
  if (error == ENXIO) hint = "; it is a socket, or a device that is not there";
  fail(ErrorCode::io, "cannot {} '{}': {}{}", what, printable(path, 400), std::strerror(error),
       hint);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > 2) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Refuses what is no regular file, with the name of what it is.
void need_regular(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return;
  if (S_ISDIR(mode)) fail_io("read", path, EISDIR);
  const char* what = S_ISFIFO(mode)   ? "a pipe (FIFO)"
                     : S_ISSOCK(mode) ? "a socket"
                     : S_ISCHR(mode)  ? "a character device"
                     : S_ISBLK(mode)  ? "a block device"
                                      : "something else";
  fail(ErrorCode::io, "cannot read '{}': it is {}, not a regular file; copy what it holds into one",
       printable(path, 400), what);
}

[[noreturn]] void fail_shorter(const std::string& path, size_t before, off_t now) {
  fail(ErrorCode::io,
       "'{}' became shorter while it was read: it had {} bytes, now {}; load it again when it is "
       "complete",
       printable(path, 400), before, now);
}

// Opens a regular file and nothing else. Never waits: a pipe without a writer would be waited for
// without end, and a device may do something when it is opened.
int open_regular(const std::string& path, struct stat& info) {
  if (::stat(path.c_str(), &info) != 0) fail_io("open", path, errno);
  need_regular(path, info.st_mode);
  // Another thing may have taken the name since.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) fail_io("open", path, errno);
  if (::fstat(file.get(), &info) != 0) fail_io("read", path, errno);
  need_regular(path, info.st_mode);
  return file.take();
}

constexpr size_t k_page = 4096;
constexpr size_t k_write_buffer = size_t{1} << 20;

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat info {};
  const Descriptor file(open_regular(path, info));
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) fail_io("map", path, errno);
  data_ = static_cast<const std::byte*>(mapped);
  descriptor_ = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 3);
  if (descriptor_ < 0) {
    const int error = errno;
    ::munmap(mapped, size_);
    data_ = nullptr;
    fail_io("open", path, error);
  }
  try {
    guard_ = MappingGuard(mapped, size_);
  } catch (...) {
    ::munmap(mapped, size_);
    ::close(descriptor_);
    throw;
  }
}

MappedFile::~MappedFile() {
  guard_ = MappingGuard();  // before the memory can be another's
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(guard_, other.guard_);
  return *this;
}

void MappedFile::check() const {
  if (data_ == nullptr) return;
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail_io("read", path_, errno);
  // Also where no read has met the end: the rest of the last page reads as zeros without a fault.
  if (static_cast<uint64_t>(info.st_size) < size_) fail_shorter(path_, size_, info.st_size);
  if (guard_.damaged()) {
    fail(ErrorCode::io,
         "'{}' could not be read: it was shorter for a while (is it being written?), or its disk "
         "failed; load it again when it is complete",
         printable(path_, 400));
  }
}

void MappedFile::will_need(size_t offset, size_t length) const {
  if (data_ == nullptr || offset >= size_) return;
  const size_t begin = offset / k_page * k_page;
  ::madvise(const_cast<std::byte*>(data_) + begin, std::min(size_, offset + length) - begin,
            MADV_WILLNEED);
}

void MappedFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("read", path_, errno);
    if (got == 0) fail_shorter(path_, size_, static_cast<off_t>(offset));
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
}

void MappedFile::release(size_t offset, size_t length) const {
  if (data_ == nullptr || offset >= size_) return;
  // Only pages that lie wholly inside: a neighbour may still be in use.
  const size_t begin = (offset + k_page - 1) / k_page * k_page;
  const size_t end = std::min(size_, offset + length) / k_page * k_page;
  if (begin < end) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

void fail_standard_input(int error) {
  if (error == EBADF) {
    fail(ErrorCode::io,
         "cannot read standard input: it is closed; redirect a file or a pipe to it, or name a "
         "file with an option (-f, --input, --tokens-file)");
  }
  fail(ErrorCode::io, "cannot read standard input: {}", std::strerror(error));
}

namespace {

std::string read_whole(int fd, const std::string& path, uint64_t max_bytes) {
  const bool standard_input = path == "-";
  std::string out;
  char chunk[65536];
  for (;;) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && standard_input) fail_standard_input(errno);
    if (got < 0) fail_io("read", path, errno);
    if (got == 0) return out;
    out.append(chunk, static_cast<size_t>(got));
    if (out.size() > max_bytes) {
      fail(ErrorCode::io, "'{}' is larger than {} bytes, the most that is read here",
           standard_input ? "standard input" : printable(path, 400), max_bytes);
    }
  }
}

}  // namespace

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const Descriptor file(path == "-" ? 0 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) fail_io("open", path, errno);
  return read_whole(file.get(), path, max_bytes);
}

std::string read_regular_file(const std::string& path, uint64_t max_bytes) {
  struct stat info {};
  const Descriptor file(open_regular(path, info));
  return read_whole(file.get(), path, max_bytes);
}

void OutputFile::check(const std::string& path) {
  struct stat info {};
  const bool other =
      ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  if (path == "-" || !other) {
    OutputFile(path).flush();
    return;
  }
  if (::access(path.c_str(), W_OK) != 0) fail_io("write", path, errno);
}

namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a link leads, there or not: what is written takes the file's place, not the link's.
std::string behind_links(std::string path) {
  constexpr int k_most = 40;  // as many as the system follows
  for (int i = 0; i < k_most; ++i) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return path;
}

// Through which a file without a name gets one.
std::string link_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// A file without a name in the folder of `path`; -1 where there is no such thing.
int open_unnamed(const std::string& path) {
  Descriptor file(::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
  if (file.get() < 0 || ::access(link_of(file.get()).c_str(), F_OK) != 0) return -1;
  return file.take();
}

}  // namespace

OutputFile::OutputFile(const std::string& path, Temporary kind) : path_(path) {
  buffer_.reserve(k_write_buffer);
  // A file put in the place of such a link would be the end of it for everybody.
  if (path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1") {
    fd_ = ::dup(1);
    if (fd_ < 0) fail_io("write", "standard output", errno);
    return;
  }
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  // What cannot be a file's name is found out now, not when everything is written.
  if (!exists && (errno != ENOENT || path.empty())) fail_io("write", path, errno);
  if (exists && S_ISDIR(info.st_mode)) fail_io("write", path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    path_ = behind_links(path);
    if (kind == Temporary::unnamed) fd_ = open_unnamed(path_);
    unnamed_ = fd_ >= 0;
    if (!unnamed_) {
      make_temporary([this](const char* name) {
        fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        return fd_ >= 0;
      });
    }
  }
  if (fd_ < 0) fail_io("write", path, errno);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (temporary_.get() != nullptr) ::unlink(temporary_.get());
}

// Tries names until `make` has made a file of one. False leaves its reason in errno.
template <class Make>
bool OutputFile::make_temporary(Make make) {
  // A long name would leave no room for what follows it.
  constexpr size_t k_most_kept = 200;
  const size_t name = path_.rfind('/') + 1;  // npos + 1 is 0
  const std::string stem = path_.substr(0, std::min(path_.size(), name + k_most_kept));
  int error = EEXIST;
  for (int i = 0; i < 100 && error == EEXIST; ++i) {
    // Known before it is there: a signal may come in between.
    temporary_ = TemporaryName(
        fmt::format("{}.tmp{}{}", stem, ::getpid(), i == 0 ? "" : "-" + std::to_string(i)));
    if (make(temporary_.get())) return true;
    error = errno;
  }
  temporary_ = TemporaryName();
  errno = error;
  return false;
}

void OutputFile::write(const void* data, size_t size) {
  buffer_.append(static_cast<const char*>(data), size);
  position_ += size;
  if (buffer_.size() >= k_write_buffer) flush();
}

void OutputFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t put = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_io("write", path_, errno);
    done += static_cast<size_t>(put);
  }
  buffer_.clear();
}

void OutputFile::close() {
  if (fd_ < 0) return;
  flush();
  if (unnamed_) return put_in_place();
  const int fd = std::exchange(fd_, -1);
  const TemporaryName temporary = std::exchange(temporary_, TemporaryName());
  const char* name = temporary.get();
  if (::close(fd) != 0 || (name != nullptr && ::rename(name, path_.c_str()) != 0)) {
    const int error = errno;
    if (name != nullptr) ::unlink(name);
    fail_io("write", path_, error);
  }
}

// Gives a file without a name its own.
void OutputFile::put_in_place() {
  // Some errors are only told when a descriptor is closed.
  if (const int copy = ::dup(fd_); copy < 0 || ::close(copy) != 0) fail_io("write", path_, errno);
  const std::string from = link_of(fd_);
  const auto link = [&](const char* to) {
    return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0;
  };
  if (!link(path_.c_str())) {
    // A link does not take the place of another, a renamed file does.
    if (errno != EEXIST || !make_temporary(link)) fail_io("write", path_, errno);
    if (::rename(temporary_.get(), path_.c_str()) != 0) fail_io("write", path_, errno);
    temporary_ = TemporaryName();
  }
  ::close(std::exchange(fd_, -1));
}

}  // namespace strata
