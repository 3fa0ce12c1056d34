#include "base/error.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Error, ExitStatusFollowsTheCode) {
  EXPECT_EQ(exit_status(ErrorCode::usage), 2);
  EXPECT_EQ(exit_status(ErrorCode::does_not_fit), 3);
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::bad_file, ErrorCode::unsupported,
                               ErrorCode::bad_request, ErrorCode::cancelled, ErrorCode::internal}) {
    EXPECT_EQ(exit_status(code), 1) << name_of(code);
  }
}

TEST(Error, FailFormatsAndKeepsTheCode) {
  try {
    fail(ErrorCode::bad_file, "tensor '{}' has {} bytes", "x", 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_STREQ(error.what(), "tensor 'x' has 7 bytes");
    return;
  }
  FAIL();
}

TEST(Printable, KeepsOneLineOfText) {
  EXPECT_EQ(printable("plain ünïcode 🦙"), "plain ünïcode 🦙");
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
  EXPECT_EQ(printable(std::string_view("\0\x1b[2J", 5)), "\\x00\\x1b[2J");
  EXPECT_EQ(printable("\xf0\x9f"), "\\xf0\\x9f");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, CutsWhatIsLong) {
  EXPECT_EQ(printable("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(printable("abcdefghi", 8), "abcdefgh...");
  // Never inside of a character.
  const std::string cut = printable("ééééé", 3);
  EXPECT_EQ(cut, "éé...");
}

}  // namespace
}  // namespace strata
