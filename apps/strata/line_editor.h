// Lines from a person: editing and history on a terminal, plain reading otherwise.
//
// Purpose: the input line of `strata chat`. On a terminal libedit edits it and keeps a history in
// the state folder (XDG_STATE_HOME or ~/.local/state, strata/history).
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace strata::app {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line without its end; a line that ends in a backslash goes on in the next. nullopt at
  // the end of input or on Ctrl-C.
  std::optional<std::string> read();

 private:
  struct Terminal;
  std::optional<std::string> read_one(bool continued);
  std::string prompt_;
  std::unique_ptr<Terminal> terminal_;  // null when standard input is not a terminal
  std::string pending_;                 // read, not yet given out
};

}  // namespace strata::app
