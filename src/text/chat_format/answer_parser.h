// Takes an answer apart as it comes: what was thought, what is said, which tools are called.
//
// Purpose: text goes in as it is generated, in any pieces; what comes out, put together, does not
// depend on how it was cut. Text that could be the beginning of a mark is held back until it is
// decided. A mark that is never completed is text; a block that is never closed counts as it
// began; what looks like a call but turns out to be none is text. White space around blocks and
// calls belongs to nobody.
// Not for: validation of arguments; a grammar sees to that (answer_grammar.h).
// Time: linear in the text.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_format/chat_format.h"
#include "text/chat_format/json_scanner.h"
#include "text/chat_format/tagged_value.h"

namespace strata::text {

struct AnswerPiece {
  enum class Kind { reasoning, content, call, arguments };
  Kind kind = Kind::content;
  std::string text;      // of reasoning and content; of arguments: the next part of their JSON
  uint32_t index = 0;    // of the call, for call and arguments
  std::string id, name;  // of the call, for call

  bool operator==(const AnswerPiece& other) const = default;
};

struct AnswerOptions {
  bool split_reasoning = true;  // false: it stays in the content, marks and all
  bool in_reasoning = false;    // the prompt ends within a block
  // Empty or null: no calls are looked for.
  std::shared_ptr<const std::vector<Tool>> tools;
  // A new id for a call; absent: "call_" and its index.
  std::function<std::string()> make_id;
};

class AnswerParser {
 public:
  AnswerParser(const ChatFormat& format, AnswerOptions options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;

  // What has become certain; neighbours of one kind are one piece.
  std::vector<AnswerPiece> push(std::string_view text);
  // The rest.
  std::vector<AnswerPiece> finish();
  uint32_t calls() const { return calls_; }

 private:
  enum class State {
    content,
    reasoning,
    start,       // where a bare object would be a call
    section,     // between the calls of a section
    object,      // in {"name": ...}
    name,        // in front of the arguments
    arguments,   // JSON
    parameters,  // between tagged arguments
    key,
    value,
    call_end,
    header,  // of a message of channels
    body
  };
  // In an object: what comes next.
  enum class Member { open, key, colon, value, text, skipped, arguments };
  enum class Front { no, maybe, yes };

  bool step();
  bool step_content();
  bool step_reasoning();
  bool step_start();
  bool step_section();
  bool step_object();
  bool step_member_value();
  bool step_name();
  bool step_arguments();
  bool step_parameters();
  bool step_key();
  bool step_value();
  bool step_call_end();
  bool step_header();
  bool step_body();

  bool has_tools() const { return options_.tools != nullptr && !options_.tools->empty(); }
  std::string_view call_mark() const;
  struct Found {
    size_t at;     // where it begins; the size of the text when there is none
    size_t index;  // of the mark, or k_partly, or k_none
  };
  static constexpr size_t k_none = SIZE_MAX, k_partly = SIZE_MAX - 1;
  Found find(const std::vector<std::string_view>& marks) const;
  Front front(std::string_view mark) const;
  bool skip_space();
  void consume(size_t n);

  void say(AnswerPiece::Kind kind, std::string_view text);
  void content(std::string_view text);
  void think(std::string_view text);
  void after_block();
  void begin_call();
  void begin_attempt();
  void give_back();
  bool commit(std::string name, std::string id);
  void add_arguments(std::string_view text);
  void end_call(bool whole);
  void begin_value();
  const Tool* find_tool(std::string_view name) const;

  ChatFormat format_;
  AnswerOptions options_;
  bool plain_;  // nothing to look for
  State state_ = State::content;
  std::string in_;    // not yet decided
  std::string held_;  // bytes that may begin a character
  bool at_end_ = false;
  std::vector<AnswerPiece> out_;

  bool trim_front_ = false;  // white space here belongs to nobody
  std::string space_;        // in front of a block: said when content goes on
  bool content_said_ = false;
  bool reasoning_said_ = false;
  bool resumed_ = false;     // reasoning goes on after an earlier block
  std::string think_space_;  // may be the end of a block

  // The call at work.
  uint32_t calls_ = 0;
  std::optional<std::string> attempt_;  // all of it, until it is known to be a call
  bool bare_ = false;
  const Tool* tool_ = nullptr;
  std::string arguments_;  // that came before the name
  bool any_arguments_ = false;
  JsonScanner scanner_;
  std::string collected_;
  Member member_ = Member::open;
  std::string member_key_;
  std::string pending_name_;  // of a bare object that may be a call
  uint32_t nested_ = 0;
  bool arguments_quoted_ = false;
  bool arguments_begun_ = false;
  std::string key_;
  std::map<std::string, TaggedValue, std::less<>> values_;  // of the tool's parameters
  TaggedValue value_type_;
  bool value_front_ = false;
  uint32_t parameters_ = 0;

  // The message of channels at work.
  enum class Body { content, reasoning, call } body_ = Body::content;
};

// The whole of an answer.
struct ParsedCall {
  std::string id, name, arguments;
};
struct ParsedAnswer {
  std::string reasoning, content;
  std::vector<ParsedCall> calls;

  void add(const std::vector<AnswerPiece>& pieces);
};

}  // namespace strata::text
