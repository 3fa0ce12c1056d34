#include "strata/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/terminal.h"
#include "strata/interrupt.h"

namespace strata::app {

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  std::string history_path;  // empty: not kept
  bool continued = false;
};

namespace {

constexpr int k_history_lines = 1000;

std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  folder /= "strata";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? std::string() : (folder / "history").string();
}

}  // namespace

LineEditor::LineEditor(std::string prompt) : prompt_(std::move(prompt)) {
  if (!terminal::is_terminal(terminal::Stream::input) ||
      !terminal::is_terminal(terminal::Stream::error)) {
    return;
  }
  // The editor needs the terminal's character set; numbers keep the C locale.
  std::setlocale(LC_CTYPE, "");
  terminal_ = std::make_unique<Terminal>();
  terminal_->prompt = prompt_;
  terminal_->editor = el_init("strata", stdin, stderr, stderr);
  if (terminal_->editor == nullptr) {
    terminal_.reset();
    return;
  }
  el_set(terminal_->editor, EL_CLIENTDATA, terminal_.get());
  el_set(
      terminal_->editor, EL_PROMPT, +[](EditLine* editor) -> char* {
        Terminal* self = nullptr;
        el_get(editor, EL_CLIENTDATA, &self);
        static char continued[] = ". ";
        return self->continued ? continued : self->prompt.data();
      });
  el_set(terminal_->editor, EL_EDITOR, "emacs");
  el_set(terminal_->editor, EL_SIGNAL, 0);
  terminal_->history = history_init();
  if (terminal_->history != nullptr) {
    HistEvent event;
    history(terminal_->history, &event, H_SETSIZE, k_history_lines);
    history(terminal_->history, &event, H_SETUNIQUE, 1);
    el_set(terminal_->editor, EL_HIST, history, terminal_->history);
    terminal_->history_path = history_path();
    if (!terminal_->history_path.empty()) {
      history(terminal_->history, &event, H_LOAD, terminal_->history_path.c_str());
    }
  }
}

LineEditor::~LineEditor() {
  if (terminal_ == nullptr) return;
  if (terminal_->history != nullptr) {
    HistEvent event;
    if (!terminal_->history_path.empty()) {
      history(terminal_->history, &event, H_SAVE, terminal_->history_path.c_str());
    }
    history_end(terminal_->history);
  }
  el_end(terminal_->editor);
}

std::optional<std::string> LineEditor::read_one(bool continued) {
  if (terminal_ != nullptr) {
    terminal_->continued = continued;
    int count = 0;
    const char* line = el_gets(terminal_->editor, &count);
    if (line == nullptr || count <= 0 || Interrupt::requested()) return std::nullopt;
    std::string text(line, static_cast<size_t>(count));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (terminal_->history != nullptr && !text.empty()) {
      HistEvent event;
      history(terminal_->history, &event, H_ENTER, text.c_str());
    }
    return text;
  }
  for (;;) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    char chunk[4096];
    const ssize_t got = ::read(0, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR && !Interrupt::requested()) continue;
    if (got <= 0) {
      if (pending_.empty()) return std::nullopt;
      return std::exchange(pending_, {});
    }
    pending_.append(chunk, static_cast<size_t>(got));
  }
}

std::optional<std::string> LineEditor::read() {
  std::optional<std::string> line = read_one(false);
  while (line && !line->empty() && line->back() == '\\') {
    line->back() = '\n';
    const std::optional<std::string> more = read_one(true);
    if (!more) break;
    *line += *more;
  }
  return line;
}

}  // namespace strata::app
