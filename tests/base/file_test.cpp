#include "base/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/folder_entries.h"
#include "base/temporary_folder.h"
#include "watchdog.h"

namespace strata {
namespace {

using test::entries;
using test::TemporaryFolder;

// The message of the Error that `action` throws; its code must be io.
template <class Action>
std::string io_message(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(MappedFile, ShowsTheBytes) {
  const TemporaryFolder folder;
  const std::string text(10000, 'x');
  MappedFile file(folder.write("a", text + "end"));
  ASSERT_EQ(file.bytes().size(), 10003u);
  EXPECT_EQ(std::memcmp(file.bytes().data() + 10000, "end", 3), 0);
  file.will_need(5000, 5000);
  file.will_need(9999, 1 << 20);
  file.will_need(20000, 1);
  file.release(1, 9000);
  file.release(20000, 1);
  EXPECT_EQ(static_cast<char>(file.bytes()[4999]), 'x');  // comes back from the file
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 10003u);
  MappedFile other(folder.write("b", "b"));
  other = std::move(moved);
  EXPECT_EQ(other.bytes().size(), 10003u);
}

TEST(MappedFile, EmptyFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(MappedFile(folder.write("empty", "")).bytes().size(), 0u);
}

TEST(MappedFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string missing = folder.path("missing");
  EXPECT_NE(io_message([&] { MappedFile file(missing); }).find("missing': No such file"),
            std::string::npos);
  EXPECT_NE(io_message([&] { MappedFile file(folder.path()); }).find("directory"),
            std::string::npos);
  EXPECT_NE(io_message([&] { MappedFile file("/dev/null"); }).find("not a regular file"),
            std::string::npos);
}

TEST(MappedFile, WaitsForNothingThatIsNoFile) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe"), socket = folder.path("socket");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, folder.path("link"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::pair<std::string, const char*> cases[] = {{pipe, "a pipe (FIFO)"},
                                                       {folder.path("link"), "a pipe (FIFO)"},
                                                       {socket, "a socket"},
                                                       {"/dev/zero", "a character device"},
                                                       {"/dev/tty", "a character device"}};
  for (const auto& [path, what] : cases) {
    for (const bool mapped : {true, false}) {
      const std::string message = io_message([&, &name = path] {
        if (mapped) {
          MappedFile file(name);
        } else {
          read_regular_file(name, 1000);
        }
      });
      EXPECT_NE(message.find("'" + path + "': it is " + what + ", not a regular file"),
                std::string::npos)
          << message;
    }
  }
  EXPECT_NE(io_message([&] { read_file(socket); }).find("it is a socket"), std::string::npos);
  ::close(listener);
}

TEST(ReadFile, WholeFilesUpToALimit) {
  const TemporaryFolder folder;
  const std::string text(200000, 'y');
  const std::string path = folder.write("a", text);
  EXPECT_EQ(read_file(path), text);
  EXPECT_EQ(read_file(path, 200000), text);
  EXPECT_NE(io_message([&] { read_file(path, 199999); }).find("199999 bytes"), std::string::npos);
  // A file without an end is refused at the limit, not read forever.
  io_message([&] { read_file("/dev/zero", 1 << 20); });
  io_message([&] { read_file(folder.path("missing")); });
  io_message([&] { read_file(folder.path()); });
}

TEST(OutputFile, PutsTheFileInPlaceOnClose) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  {
    OutputFile file(path);
    file.write("new ");
    file.write(std::string(3 << 20, 'z'));
    EXPECT_EQ(file.position(), 4u + (3u << 20));
    EXPECT_EQ(read_file(path), "old");
    file.close();
    file.close();
  }
  EXPECT_EQ(read_file(path).size(), 4u + (3u << 20));
  EXPECT_EQ(entries(folder.path()), 1u);
}

constexpr OutputFile::Temporary k_temporaries[] = {OutputFile::Temporary::unnamed,
                                                   OutputFile::Temporary::named};

TEST(OutputFile, WithoutCloseLeavesWhatWasThere) {
  for (const auto kind : k_temporaries) {
    const TemporaryFolder folder;
    const std::string path = folder.write("out", "old");
    {
      OutputFile file(path, kind);
      file.write("half");
    }
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(entries(folder.path()), 1u);
  }
}

TEST(OutputFile, NewOldAndLongNames) {
  for (const auto kind : k_temporaries) {
    const TemporaryFolder folder;
    const std::string names[] = {"new", "old", std::string(255, 'n'), std::string(254, 'o')};
    folder.write("old", "before");
    folder.write(names[3], "before");
    for (const std::string& name : names) {
      OutputFile file(folder.path(name), kind);
      // Two at once do not get in each other's way; the last one closed stays.
      OutputFile other(folder.path(name), kind);
      file.write("first");
      other.write("second");
      file.close();
      EXPECT_EQ(read_file(folder.path(name)), "first");
      other.close();
      EXPECT_EQ(read_file(folder.path(name)), "second");
    }
    EXPECT_EQ(entries(folder.path()), 4u);
    struct stat info {};
    ASSERT_EQ(::stat(folder.path("new").c_str(), &info), 0);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    EXPECT_EQ(info.st_mode & 0777u, 0644u & ~mask);
    EXPECT_EQ(info.st_nlink, 1u);
    io_message([&] { OutputFile file(folder.path(std::string(256, 'n')), kind); });
    io_message([&] { OutputFile file("", kind); });
  }
}

// In the working folder, where a name has no folder before it.
TEST(OutputFile, ALinkStaysALink) {
  const TemporaryFolder folder;
  folder.write("there/old", "old");
  std::filesystem::create_symlink("there/old", folder.path("a"));
  std::filesystem::create_symlink(folder.path("there/new"), folder.path("b"));
  std::filesystem::create_symlink("b", folder.path("c"));
  for (const auto& [link, file] : {std::pair{"a", "there/old"}, std::pair{"c", "there/new"}}) {
    OutputFile out(folder.path(link));
    out.write("written");
    out.close();
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path(link))) << link;
    EXPECT_FALSE(std::filesystem::is_symlink(folder.path(file))) << file;
    EXPECT_EQ(read_file(folder.path(file)), "written") << link;
  }
  // Names that lead to each other lead nowhere.
  std::filesystem::create_symlink("e", folder.path("d"));
  std::filesystem::create_symlink("d", folder.path("e"));
  EXPECT_THROW(OutputFile(folder.path("d")), Error);
}

TEST(OutputFile, NamesWithoutAFolder) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const auto kind : k_temporaries) {
    OutputFile file("a", kind);
    file.write("x");
    file.close();
  }
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(folder.path("a")), "x");
  EXPECT_EQ(entries(folder.path()), 1u);
}

// What an end without destructors leaves: nothing at all, or nothing once it is told to clean up.
TEST(OutputFile, AProcessThatIsEndedLeavesNothing) {
  for (const auto kind : k_temporaries) {
    const TemporaryFolder folder;
    const std::string path = folder.write("out", "old");
    const pid_t child = ::fork();
    if (child == 0) {
      OutputFile file(path, kind);
      OutputFile done(folder.path("done"), kind);
      file.write(std::string(3 << 20, 'z'));
      done.write("done");
      done.close();
      if (kind == OutputFile::Temporary::named) remove_temporaries();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(read_file(folder.path("done")), "done");
    EXPECT_EQ(entries(folder.path()), 2u);
  }
}

TEST(OutputFile, FullDiskIsNoticed) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "skipped: no /dev/full";
  EXPECT_NE(io_message([&] {
              OutputFile file("/dev/full");
              file.write("x");
              file.close();
            }).find("No space left on device"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(OutputFile, ChecksWithoutATrace) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  OutputFile::check(pipe);
  OutputFile::check(folder.path("new"));
  EXPECT_EQ(entries(folder.path()), 1u);
  const std::string path = folder.write("old", "old");
  OutputFile::check(path);
  EXPECT_EQ(read_file(path), "old");
  io_message([&] { OutputFile::check(folder.path()); });
  io_message([&] { OutputFile::check(folder.path("no/such/folder")); });
}

TEST(OutputFile, WhereNothingCanBeWritten) {
  const TemporaryFolder folder;
  io_message([&] { OutputFile file(folder.path()); });
  io_message([&] { OutputFile file(folder.path("no/such/folder")); });
}

}  // namespace
}  // namespace strata
