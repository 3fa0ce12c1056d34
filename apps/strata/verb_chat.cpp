// strata chat: a conversation in the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "strata/chat_partner.h"
#include "strata/interrupt.h"
#include "strata/line_editor.h"
#include "strata/messages.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

constexpr uint64_t k_max_conversation = uint64_t{16} << 20;

using terminal::Stream;
using terminal::Style;

void say(std::string_view text) {
  log::info("{}", terminal::styled(Stream::error, Style::dim, text));
}

class Chat {
 public:
  Chat(const Options& options, ChatPartner& partner) : options_(options), partner_(partner) {
    if (options.system_prompt) system_ = *options.system_prompt;
  }

  // Exit status: 130 when Ctrl-C ended it; 1 when something failed and no person was there to see.
  int run();

 private:
  struct Command {
    std::string_view name;
    std::string_view argument;
    std::string_view help;
    void (Chat::*run)(const std::string& argument);
  };
  static const std::vector<Command>& commands();

  bool command(const std::string& line);  // false: leave
  void answer(const std::string& line);
  std::vector<ChatMessage> conversation() const;

  void help(const std::string&);
  void reset(const std::string&);
  void system(const std::string& text);
  void save(const std::string& path);
  void load(const std::string& path);
  void undo(const std::string&);

  const Options& options_;
  ChatPartner& partner_;
  std::string system_;
  std::vector<ChatMessage> messages_;
  bool failed_ = false;  // a message or a command
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> table = {
      {"/help", "", "show this", &Chat::help},
      {"/reset", "", "forget the conversation (the system message stays)", &Chat::reset},
      {"/system", "TEXT", "set the system message and start afresh; without TEXT, show it",
       &Chat::system},
      {"/undo", "", "take back the last message and its answer", &Chat::undo},
      {"/save", "FILE", "write the conversation as JSON", &Chat::save},
      {"/load", "FILE", "go on with a saved conversation", &Chat::load},
      {"/exit", "", "leave, as Ctrl-D does", nullptr},
  };
  return table;
}

void Chat::help(const std::string&) {
  std::string text;
  for (const Command& one : commands()) {
    text += fmt::format("{:<8} {:<5} {}\n", one.name, one.argument, one.help);
  }
  text +=
      "A line that ends in \\ goes on in the next; one that begins with a space is a message, even "
      "when a / follows. Ctrl-C stops an answer or clears the line; a second one leaves.";
  say(text);
}

void Chat::reset(const std::string&) {
  messages_.clear();
  partner_.forget();
  say("the conversation is empty");
}

void Chat::system(const std::string& text) {
  if (text.empty()) {
    say(system_.empty() ? std::string("there is no system message") : system_);
    return;
  }
  system_ = text;
  messages_.clear();
  partner_.forget();
  say("system message set, conversation empty");
}

void Chat::undo(const std::string&) {
  if (messages_.empty()) {
    say("there is nothing to take back");
    return;
  }
  while (!messages_.empty() && messages_.back().role != "user") messages_.pop_back();
  if (!messages_.empty()) messages_.pop_back();
  say(fmt::format("{} messages are left", messages_.size()));
}

void Chat::save(const std::string& path) {
  if (path.empty()) fail(ErrorCode::bad_request, "write /save FILE");
  Json list = Json::array();
  for (const ChatMessage& message : conversation()) {
    list.push(Json::object({{"role", message.role}, {"content", message.content}}));
  }
  Json root = Json::object();
  root.set("messages", std::move(list));
  OutputFile out(path);
  out.write(root.dump(2) + "\n");
  out.close();
  say(fmt::format("{} messages written to {}", messages_.size(), printable(path, 400)));
}

void Chat::load(const std::string& path) {
  if (path.empty()) fail(ErrorCode::bad_request, "write /load FILE");
  std::vector<ChatMessage> messages = messages_of(read_file(path, k_max_conversation), path);
  if (messages.empty()) {
    fail(ErrorCode::bad_request,
         "'{}' is no conversation: JSON like [{{\"role\": \"user\", \"content\": \"hello\"}}], "
         "alone or "
         "under \"messages\"",
         printable(path, 400));
  }
  std::string system;
  if (messages[0].role == "system") {
    system = messages[0].content;
    messages.erase(messages.begin());
  }
  system_ = std::move(system);
  messages_ = std::move(messages);
  partner_.forget();
  say(fmt::format("{} messages loaded from {}", messages_.size(), printable(path, 400)));
}

std::vector<ChatMessage> Chat::conversation() const {
  std::vector<ChatMessage> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), messages_.begin(), messages_.end());
  return all;
}

bool Chat::command(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  std::string name = line.substr(0, space);
  std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  argument.erase(0, argument.find_first_not_of(" \t\n"));
  argument.erase(argument.find_last_not_of(" \t\n") + 1);
  if (name == "/quit" || name == "/bye") name = "/exit";
  try {
    for (const Command& one : commands()) {
      if (one.name != name) continue;
      if (one.argument.empty() && !argument.empty()) {
        fail(ErrorCode::bad_request,
             "{} stands alone, nothing was done; a space before it makes the line a message", name);
      }
      if (one.run == nullptr) return false;
      (this->*one.run)(argument);
      return true;
    }
    fail(ErrorCode::bad_request, "{} is not known; /help shows what is", printable(name));
  } catch (const Error& error) {
    failed_ = true;
    log::error("{}", error.what());
  }
  return true;
}

void Chat::answer(const std::string& line) {
  messages_.push_back({"user", line});
  try {
    const ChatPartner::Reply reply = partner_.answer(conversation());
    print("\n");
    flush_output();
    messages_.push_back({"assistant", reply.text});
    std::string note = reply.speed;
    if (reply.reason == StopReason::cancelled) note += note.empty() ? "stopped" : ", stopped";
    if (reply.reason == StopReason::context_full) note += ", context full: /reset or a larger -c";
    if (options_.verbose || reply.reason == StopReason::context_full ||
        reply.reason == StopReason::cancelled) {
      say(note);
    }
  } catch (const Error& error) {
    // The conversation is as it was before the message.
    messages_.pop_back();
    failed_ = true;
    log::error("{}", error.what());
    if (error.code() == ErrorCode::does_not_fit) say("/reset or /undo makes room");
  }
}

int Chat::run() {
  const Interrupt interrupt;
  LineEditor editor("> ");
  say(partner_.greeting() + ". /help shows the commands.");
  while (true) {
    Interrupt::reset();
    const std::optional<std::string> line = editor.read();
    if (!line) break;
    if (line->find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (line->front() == '/') {
      if (!command(*line)) break;
    } else {
      answer(*line);
    }
  }
  if (editor.interrupted()) return 130;
  return failed_ && !terminal::is_terminal(Stream::input) ? 1 : 0;
}

}  // namespace

int chat_verb(const Options& options) {
  const std::unique_ptr<ChatPartner> partner = find_partner(options);
  return Chat(options, *partner).run();
}

}  // namespace strata::app
