// Files that somebody makes shorter while they are open: a typed error, not the end of the process.
#include <atomic>
#include <filesystem>
#include <thread>

#include "bytes.h"
#include "gguf/writer.h"
#include "watchdog.h"

namespace strata::gguf {
namespace {

namespace fs = std::filesystem;
using test::Folder;

// Files of `count`, each with a tensor of 64 KiB of ones.
constexpr uint64_t k_tensor_bytes = 65536;

std::string write_part(const Folder& folder, uint16_t index, uint16_t count) {
  Metadata metadata;
  metadata.set("split.no", index);
  metadata.set("split.count", count);
  metadata.set("split.tensors.count", int32_t{count});
  const std::string path = split_name(folder / "m", index, count);
  Writer writer(path, metadata, {{"w." + std::to_string(index), {k_tensor_bytes / 4}, 0}});
  writer.write(std::vector<std::byte>(k_tensor_bytes, std::byte{1}));
  writer.close();
  return path;
}

uint64_t sum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte one : bytes) sum += static_cast<uint64_t>(one);
  return sum;
}

template <class Action>
std::string io_message(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    return error.what();
  }
  return "";
}

TEST(Shrinking, TheFileThatBecameShorterIsNamed) {
  const Folder folder;
  std::vector<std::string> paths;
  for (uint16_t i = 0; i < 3; ++i) paths.push_back(write_part(folder, i, 3));
  const File file = File::open(paths[0]);
  const auto& tensors = file.tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(io_message([&] { file.check(); }), "");
  fs::resize_file(paths[1], fs::file_size(paths[1]) - k_tensor_bytes / 2);
  // Read by all at once.
  std::vector<std::thread> threads;
  std::atomic<uint64_t> sums[3] = {};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < 3; ++i) sums[i] += sum_of(file.data(tensors[i]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums[0], 6 * k_tensor_bytes);
  EXPECT_EQ(sums[1], 6 * k_tensor_bytes / 2);
  EXPECT_EQ(sums[2], 6 * k_tensor_bytes);
  const std::string message = io_message([&] { file.check(); });
  EXPECT_NE(message.find("'" + paths[1] + "' became shorter while it was read"), std::string::npos)
      << message;
  EXPECT_EQ(io_message([&] { file.check(tensors[1]); }), message);
  EXPECT_EQ(io_message([&] { file.check(tensors[0]); }), "");
  EXPECT_EQ(io_message([&] { file.check(tensors[2]); }), "");
  // The same without the mapping.
  std::vector<std::byte> bytes(k_tensor_bytes);
  EXPECT_EQ(io_message([&] { file.read(tensors[1], 0, bytes); }), message);
}

// It is cut and written anew again and again while it is opened: every call gives a file or an
// error.
TEST(Shrinking, WhileItIsOpened) {
  const strata::test::Watchdog watchdog(std::chrono::seconds(120));
  const Folder folder;
  const std::string path = write_part(folder, 0, 1);
  std::string content;
  {
    std::ifstream in(path, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (size_t i = 0; !done; ++i) {
      fs::resize_file(path, (i * 7919) % content.size());
      std::ofstream(path, std::ios::binary | std::ios::in | std::ios::out) << content;
    }
  });
  int opened = 0, refused = 0;
  for (int i = 0; i < strata::test::repeated(3000); ++i) {
    try {
      const File file = File::open(path);
      const uint64_t sum = sum_of(file.data(file.tensors()[0]));
      file.check();
      EXPECT_LE(sum, k_tensor_bytes);
      ++opened;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::io || error.code() == ErrorCode::bad_file)
          << error.what();
      ++refused;
    }
  }
  done = true;
  writer.join();
  EXPECT_GT(opened + refused, 0);
}

}  // namespace
}  // namespace strata::gguf
