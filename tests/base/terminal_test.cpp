#include "base/terminal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace strata {
namespace {

using terminal::Stream;

// Sets a variable of the environment and puts it back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    had_ = ::getenv(name) != nullptr;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~Variable() {
    if (had_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Terminal, ColumnsOverridesWhenItIsSensible) {
  for (const char* nonsense : {"", "abc", "19", "1001", "80x", "-80"}) {
    const Variable columns("COLUMNS", nonsense);
    if (!terminal::is_terminal(Stream::output)) {
      EXPECT_EQ(terminal::width(Stream::output, 77), 77) << nonsense;
    }
  }
  const Variable columns("COLUMNS", "123");
  EXPECT_EQ(terminal::width(Stream::output, 77), 123);
}

TEST(Terminal, NoColourWhenTold) {
  const Variable term("TERM", "xterm");
  const Variable no_colour("NO_COLOR", "1");
  EXPECT_FALSE(terminal::use_colour(Stream::output));
  EXPECT_EQ(terminal::styled(Stream::output, terminal::Style::red, "x"), "x");
}

TEST(Terminal, NoColourOnDumbTerminals) {
  const Variable no_colour("NO_COLOR", nullptr);
  for (const char* dumb : {"dumb", "", static_cast<const char*>(nullptr)}) {
    const Variable term("TERM", dumb);
    EXPECT_FALSE(terminal::use_colour(Stream::output));
  }
}

TEST(Terminal, DisplayWidth) {
  EXPECT_EQ(terminal::display_width(""), 0);
  EXPECT_EQ(terminal::display_width("abc"), 3);
  EXPECT_EQ(terminal::display_width("é"), 1);
  EXPECT_EQ(terminal::display_width("e\u0301"), 1);  // combining accent
  EXPECT_EQ(terminal::display_width("日本"), 4);
  EXPECT_EQ(terminal::display_width("🦙"), 2);
  EXPECT_EQ(terminal::display_width("\xff"), 1);
}

}  // namespace
}  // namespace strata
