#include "strata/line_editor.h"

#include <histedit.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/terminal.h"
#include "strata/interrupt.h"

namespace strata::app {

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  std::string history_path;  // empty: not kept
  bool continued = false;
  bool interrupted = false;  // Ctrl-C was typed
  bool half_typed = false;   // after something else
};

namespace {

constexpr int k_history_lines = 1000;

// While it exists, the terminal gives Ctrl-C to the editor as a key and sends no signal.
class PlainInterruptKey {
 public:
  PlainInterruptKey() : known_(::tcgetattr(0, &before_) == 0) {
    if (!known_) return;
    termios plain = before_;
    plain.c_cc[VINTR] = _POSIX_VDISABLE;
    ::tcsetattr(0, TCSADRAIN, &plain);
  }
  ~PlainInterruptKey() {
    if (known_) ::tcsetattr(0, TCSADRAIN, &before_);
  }
  PlainInterruptKey(const PlainInterruptKey&) = delete;
  PlainInterruptKey& operator=(const PlainInterruptKey&) = delete;

 private:
  termios before_{};
  bool known_;
};

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
  const std::filesystem::path path = folder / "history";
  // The editor would wait for a pipe, and read a device without end.
  if (error ||
      (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))) {
    return {};
  }
  return path.string();
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
  {
    const PlainInterruptKey plain;  // the editor edits with the settings that it finds
    terminal_->editor = el_init("strata", stdin, stderr, stderr);
  }
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
  // The wide form keeps the texts as they are; the other copies them and never lets them go.
  el_wset(
      terminal_->editor, EL_ADDFN, L"strata-interrupt", L"give the line up",
      +[](EditLine* editor, wint_t) -> unsigned char {
        Terminal* self = nullptr;
        el_get(editor, EL_CLIENTDATA, &self);
        const LineInfo* info = el_line(editor);
        self->interrupted = true;
        self->half_typed = info->lastchar > info->buffer;
        return CC_NEWLINE;
      });
  el_set(terminal_->editor, EL_BIND, "^C", "strata-interrupt", nullptr);
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

LineEditor::Outcome LineEditor::read_terminal(bool continued, std::string& line) {
  Terminal& terminal = *terminal_;
  terminal.continued = continued;
  terminal.interrupted = terminal.half_typed = false;
  int count = 0;
  const char* text = nullptr;
  {
    const PlainInterruptKey plain;
    text = el_gets(terminal.editor, &count);
  }
  if (terminal.interrupted || Interrupt::requested()) {
    std::fputs("^C\n", stderr);
    return terminal.half_typed || continued ? Outcome::cleared : Outcome::interrupted;
  }
  if (text == nullptr || count <= 0) return Outcome::end;
  line.assign(text, static_cast<size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (terminal.history != nullptr && !line.empty()) {
    HistEvent event;
    history(terminal.history, &event, H_ENTER, line.c_str());
  }
  return Outcome::line;
}

LineEditor::Outcome LineEditor::read_one(bool continued, std::string& line) {
  if (terminal_ != nullptr) return read_terminal(continued, line);
  for (;;) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Outcome::line;
    }
    char chunk[4096];
    const ssize_t got = ::read(0, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) {
      if (!Interrupt::requested()) continue;
      return Outcome::interrupted;
    }
    if (got < 0) fail_standard_input(errno);
    if (got == 0) {
      if (pending_.empty()) return Outcome::end;
      line = std::exchange(pending_, {});
      return Outcome::line;
    }
    pending_.append(chunk, static_cast<size_t>(got));
  }
}

std::optional<std::string> LineEditor::read() {
  std::string text, line;
  interrupted_ = false;
  for (bool continued = false;;) {
    const Outcome outcome = read_one(continued, line);
    if (outcome == Outcome::interrupted) {
      interrupted_ = true;
      return std::nullopt;
    }
    if (outcome == Outcome::cleared) {
      Interrupt::reset();
      text.clear();
      continued = false;
      continue;
    }
    if (outcome == Outcome::end) {
      if (!continued) return std::nullopt;
      return text;
    }
    text += line;
    if (text.empty() || text.back() != '\\') return text;
    text.back() = '\n';
    continued = true;
  }
}

}  // namespace strata::app
