#include "server/answer.h"

namespace strata::server {
namespace {

std::string call_id(const text::ChatFormat& format) {
  const size_t length = format.calls.id_length;
  if (length == 0) return random_id("call_");
  return random_id("").substr(0, length);
}

}  // namespace

AnswerReader::AnswerReader(const AnswerForm& form, uint32_t choices) {
  for (uint32_t i = 0; i < choices; ++i) {
    text::AnswerOptions options;
    options.split_reasoning = form.split_reasoning;
    options.in_reasoning = form.in_reasoning;
    options.tools = form.tools;
    options.make_id = [format = form.format] { return call_id(format); };
    parsers_.emplace_back(form.format, std::move(options));
  }
}

std::vector<text::AnswerPiece> AnswerReader::read(const Call::Event& event) {
  text::AnswerParser& parser = parsers_[event.choice];
  std::vector<text::AnswerPiece> out = parser.push(event.text);
  if (event.result) {
    for (text::AnswerPiece& piece : parser.finish()) out.push_back(std::move(piece));
  }
  return out;
}

std::vector<Answer> collect_answers(Scheduler& scheduler, Call& call, const AnswerForm& form,
                                    const std::function<bool()>& connected) {
  auto [texts, samples, results] = collect(scheduler, call, connected);
  AnswerReader reader(form, call.n);
  std::vector<Answer> out(call.n);
  for (uint32_t i = 0; i < call.n; ++i) {
    out[i].parsed.add(reader.read({i, texts[i], std::nullopt, results[i], nullptr}));
    out[i].samples = std::move(samples[i]);
    out[i].result = std::move(results[i]);
  }
  return out;
}

const char* finish_reason(const AnswerForm& form, StopReason reason, uint32_t calls) {
  const char* plain = finish_reason(reason);
  const bool whole = reason != StopReason::length && reason != StopReason::context_full;
  return calls > 0 && whole && !form.named ? "tool_calls" : plain;
}

}  // namespace strata::server
