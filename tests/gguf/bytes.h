// Makes GGUF bytes by hand, right or wrong, without the writer under test.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"

namespace strata::gguf::test {

class Bytes {
 public:
  // Begins with magic, version and the two counts.
  explicit Bytes(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    raw("GGUF").num(version).num(tensors).num(keys);
  }
  Bytes() = default;

  template <class T>
  Bytes& num(T value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof value);
      out.push_back(static_cast<char>(bits >> (8 * i) & 255));
    }
    return *this;
  }
  Bytes& raw(std::string_view text) {
    out += text;
    return *this;
  }
  Bytes& text(std::string_view text) { return num<uint64_t>(text.size()).raw(text); }
  Bytes& key(std::string_view name, uint32_t type) { return text(name).num(type); }
  Bytes& array(std::string_view name, uint32_t type, uint64_t count) {
    return key(name, 9).num(type).num(count);
  }
  Bytes& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                uint64_t offset) {
    text(name).num(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) num(dim);
    return num(type).num(offset);
  }
  Bytes& pad(size_t alignment = 32) {
    while (out.size() % alignment != 0) out.push_back('\0');
    return *this;
  }
  Bytes& data(size_t size, char fill = 1) {
    out.append(size, fill);
    return *this;
  }

  std::string out;
};

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline Header parse(const std::string& bytes, const ParseOptions& options = {}) {
  return parse_header(as_bytes(bytes), "folder/model.gguf", options);
}
inline Header parse(const Bytes& bytes, const ParseOptions& options = {}) {
  return parse(bytes.out, options);
}

// One line that says where: the path and the byte.
inline void expect_good_message(const std::string& message, const std::string& path) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(message.starts_with("'" + path + "', byte ")) << message;
  EXPECT_LT(message.size(), 600u) << message;
}

// The bytes are refused, at byte `at`, with words that contain `part`.
inline void expect_refused(const std::string& bytes, uint64_t at, std::string_view part,
                           ErrorCode code = ErrorCode::bad_file, const ParseOptions& options = {}) {
  try {
    parse(bytes, options);
    ADD_FAILURE() << "accepted, but should say: " << part;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    expect_good_message(message, "folder/model.gguf");
    EXPECT_NE(message.find("', byte " + std::to_string(at) + ": "), std::string::npos)
        << message << " is not at " << at;
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }
}
inline void expect_refused(const Bytes& bytes, uint64_t at, std::string_view part,
                           ErrorCode code = ErrorCode::bad_file, const ParseOptions& options = {}) {
  expect_refused(bytes.out, at, part, code, options);
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "strata_gguf_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string put(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    std::ofstream(path, std::ios::binary).write(content.data(), std::ssize(content));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace strata::gguf::test
