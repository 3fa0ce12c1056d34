// Answers to a conversation, taken apart: what was thought, what is said, which tools are called.
//
// Purpose: what chat completions, Anthropic's messages and whatever else answers a conversation
// make their forms of, streamed or not.
// Threads: one at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/call.h"
#include "server/conversation.h"
#include "text/chat_format/answer_parser.h"

namespace strata::server {

// Reads a call's events as they come.
class AnswerReader {
 public:
  AnswerReader(const AnswerForm& form, uint32_t choices);
  // What the event adds to its choice; with the event that ends it, all that was held back.
  std::vector<text::AnswerPiece> read(const Call::Event& event);
  uint32_t calls(uint32_t choice) const { return parsers_[choice].calls(); }

 private:
  std::vector<text::AnswerParser> parsers_;
};

// All of an answer.
struct Answer {
  text::ParsedAnswer parsed;
  std::vector<Sample> samples;
  GenerateResult result;
};
// Of a call that is not streamed, by choice; errors as collect()'s.
std::vector<Answer> collect_answers(Scheduler& scheduler, Call& call, const AnswerForm& form,
                                    const std::function<bool()>& connected);

// "stop", "length" or "tool_calls", as OpenAI has it: a call that the request named ends with
// "stop".
const char* finish_reason(const AnswerForm& form, StopReason reason, uint32_t calls);

}  // namespace strata::server
