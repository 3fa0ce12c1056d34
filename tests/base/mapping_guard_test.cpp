// Mapped files that are cut short while they are read.
#include "base/mapping_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_folder.h"

namespace strata {
namespace {

using test::TemporaryFolder;

constexpr size_t k_bytes = size_t{1} << 20;

uint64_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}, [](uint64_t sum, std::byte one) {
    return sum + static_cast<uint64_t>(one);
  });
}

// The message of check(); empty when nothing is wrong.
std::string complaint(const MappedFile& file) {
  try {
    file.check();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MappingGuard, WhatIsGoneReadsAsZerosAndIsTold) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", std::string(k_bytes, '\1'));
  const MappedFile file(path), other(folder.write("b", std::string(k_bytes, '\2')));
  EXPECT_EQ(sum_of(file.bytes()), k_bytes);
  EXPECT_EQ(complaint(file), "");
  std::filesystem::resize_file(path, 3 * k_bytes / 8);
  EXPECT_EQ(sum_of(file.bytes()), 3 * k_bytes / 8);
  EXPECT_TRUE(has(complaint(file), "'" + path + "' became shorter while it was read: it had " +
                                       "1048576 bytes, now 393216"))
      << complaint(file);
  EXPECT_EQ(sum_of(other.bytes()), 2 * k_bytes);
  EXPECT_EQ(complaint(other), "");
  // Read backwards, and to nothing.
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(sum_of(file.bytes()), 0u);
  file.will_need(0, k_bytes);
  file.release(0, k_bytes);
  EXPECT_EQ(sum_of(file.bytes()), 0u);
}

// It is as long as it was when it is asked; what was read in between was not there.
TEST(MappingGuard, AFileThatIsWrittenAnewWasDamagedAllTheSame) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", std::string(k_bytes, '\1'));
  MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(sum_of(file.bytes().subspan(k_bytes / 2)), 0u);
  folder.write("a", std::string(k_bytes, '\1'));
  EXPECT_TRUE(has(complaint(file), "'" + path + "' could not be read")) << complaint(file);
  // The mark goes with the mapping.
  MappedFile moved = std::move(file);
  EXPECT_NE(complaint(moved), "");
  EXPECT_EQ(complaint(file), "");
  // Neither a new mapping of the file nor one that follows is marked.
  moved = MappedFile(path);
  EXPECT_EQ(sum_of(moved.bytes()), k_bytes);
  EXPECT_EQ(complaint(moved), "");
}

TEST(MappingGuard, TheRestOfTheLastPageCountsToo) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", std::string(100, '\1'));
  const MappedFile file(path);
  std::filesystem::resize_file(path, 50);
  EXPECT_EQ(sum_of(file.bytes()), 50u);  // no fault
  EXPECT_TRUE(has(complaint(file), "it had 100 bytes, now 50")) << complaint(file);
}

TEST(MappingGuard, ManyThreadsAndFilesAtOnce) {
  const TemporaryFolder folder;
  constexpr int k_files = 4, k_threads = 8, k_rounds = 10;
  for (int round = 0; round < k_rounds; ++round) {
    std::vector<std::string> paths;
    std::vector<MappedFile> files;
    for (int i = 0; i < k_files; ++i) {
      paths.push_back(folder.write(std::to_string(i), std::string(k_bytes, '\1')));
      files.emplace_back(paths.back());
    }
    // The last stays whole.
    for (int i = 0; i + 1 < k_files; ++i) {
      std::filesystem::resize_file(paths[static_cast<size_t>(i)],
                                   static_cast<uint64_t>(i) * k_bytes / 4);
    }
    std::barrier together(k_threads);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < k_threads; ++t) {
      threads.emplace_back([&, t] {
        together.arrive_and_wait();
        for (int i = 0; i < k_files; ++i) {
          const auto at = static_cast<size_t>((i + t) % k_files);
          // Half of them read from behind.
          const auto bytes = files[at].bytes();
          uint64_t sum = 0;
          for (size_t p = 0; p < 16; ++p) {
            const size_t part = t % 2 == 0 ? p : 15 - p;
            sum += sum_of(bytes.subspan(part * k_bytes / 16, k_bytes / 16));
          }
          const bool whole = at + 1 == k_files;
          // Others may have put zeros in the place of less than was gone, never of more.
          if (sum != (whole ? k_bytes : at * k_bytes / 4)) ++wrong;
          if (complaint(files[at]).empty() != whole) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

// Guards come and go while others are in use.
TEST(MappingGuard, GuardsAreUsedAgain) {
  const TemporaryFolder folder;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string path =
            folder.write(std::to_string(t), std::string(16384, static_cast<char>(t + 1)));
        const MappedFile file(path);
        const bool cut = i % 2 == t % 2;
        if (cut) std::filesystem::resize_file(path, 4096);
        const uint64_t here = cut ? 4096 : 16384;
        if (sum_of(file.bytes()) > 16384u * static_cast<uint64_t>(t + 1)) ++wrong;
        if (cut && sum_of(file.bytes().subspan(65536 / 4 - 1)) != 0) ++wrong;
        if (!cut && sum_of(file.bytes()) != here * static_cast<uint64_t>(t + 1)) ++wrong;
        if (complaint(file).empty() == cut) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A fault outside of what is guarded, in a process that has guards. `prepare` runs before the
// first.
template <class Prepare>
void fault_elsewhere(Prepare prepare, bool sent) {
  rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  prepare();
  const TemporaryFolder folder;
  const MappedFile guarded(folder.write("a", "a"));
  // Nothing after the fault removes the folder.
  const auto remove = [&] { std::filesystem::remove_all(folder.path()); };
  if (sent) {
    remove();
    ::raise(SIGBUS);
    ::_exit(3);
  }
  const std::string path = folder.write("b", std::string(8192, 'b'));
  const int fd = ::open(path.c_str(), O_RDONLY);
  void* mapped = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
  std::filesystem::resize_file(path, 0);
  remove();
  ::_exit(*static_cast<const volatile char*>(mapped));
}

void act(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(SIGBUS, &action, nullptr);
}

TEST(MappingGuardDeathTest, OtherFaultsGoWhereTheyWent) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without guards so far
  const auto standard = [] { act(SIG_DFL); };
  const auto ignored = [] { act(SIG_IGN); };
  const auto handled = [] { act(+[](int) { ::_exit(7); }); };
  const auto informed = [] {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      const bool right = signal == SIGBUS && info->si_addr != nullptr && context != nullptr;
      ::_exit(right ? 8 : 9);
    };
    ::sigaction(SIGBUS, &action, nullptr);
  };
  EXPECT_EXIT(fault_elsewhere(standard, false), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(fault_elsewhere(standard, true), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(fault_elsewhere(ignored, false), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(fault_elsewhere(ignored, true), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(fault_elsewhere(handled, false), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(fault_elsewhere(handled, true), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(fault_elsewhere(informed, false), testing::ExitedWithCode(8), "");
}

}  // namespace
}  // namespace strata
