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

  // The next line without its end; a line that ends in a backslash goes on in the next. On a
  // terminal Ctrl-C throws away what was typed. nullopt at the end of input, and on Ctrl-C when
  // nothing was typed: then interrupted() is true. ErrorCode::io when there is nothing to read
  // from.
  std::optional<std::string> read();
  bool interrupted() const { return interrupted_; }

 private:
  struct Terminal;
  enum class Outcome { line, end, cleared, interrupted };
  Outcome read_one(bool continued, std::string& line);
  Outcome read_terminal(bool continued, std::string& line);
  std::string prompt_;
  std::unique_ptr<Terminal> terminal_;  // null when standard input is not a terminal
  std::string pending_;                 // read, not yet given out
  bool interrupted_ = false;
};

}  // namespace strata::app
