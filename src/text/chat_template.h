// Chat templates: a Jinja subset that renders as Python's jinja2 does with Hugging Face's settings.
//
// Settings: trim_blocks, lstrip_blocks, loop controls (break, continue), generation blocks,
// `tojson` without ASCII escapes, `raise_exception(message)`, `strftime_now(format)`. Unlike
// jinja2's sandbox lists and dicts may be changed (append, update, ...), as published templates do.
// Not for: general templating; no includes, imports, inheritance, autoescape, file or host access.
// Known differences from Python: integers have 64 bits (more is an error); the filters random,
// pprint and urlize and the escape \N{name} are not there; `is sameas` compares numbers and strings
// by value; striptags resolves only common entities; what has no form of its own when printed (a
// function, what map gives) shows no address.
// Errors: ErrorCode::bad_file with line and reason when the template does not parse;
// TemplateError (ErrorCode::bad_request) with line and reason when rendering fails or the template
// raises.
// Bounds: steps, bytes of values made and nesting are limited (RenderLimits); exceeding one is an
// error, never a hang.
// Threads: a ChatTemplate is constant after parsing; render may run in many threads at once.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "strata/error.h"

namespace strata::text {

// What rendering throws.
class TemplateError : public Error {
 public:
  TemplateError(const std::string& message, std::string reason, uint32_t line, bool raised)
      : Error(ErrorCode::bad_request, message),
        reason_(std::move(reason)),
        line_(line),
        raised_(raised) {}
  const std::string& reason() const { return reason_; }  // fit to be shown
  uint32_t line() const { return line_; }
  bool is_raised() const { return raised_; }  // by the template itself, in its own words

 private:
  std::string reason_;
  uint32_t line_;
  bool raised_;
};

struct RenderLimits {
  uint64_t max_steps = 20'000'000;           // evaluated nodes, and work inside filters
  uint64_t max_bytes = uint64_t{256} << 20;  // of all values made and text printed, in total
  // Nested macro calls. Expressions and statements may nest twelve times deeper; a level takes
  // less than 1 KiB of stack in a release build.
  uint32_t max_depth = 200;
};

struct RenderOptions {
  RenderLimits limits;
  std::function<std::tm()> now;  // for strftime_now; empty: local time
  // Variables whose text counts as the template's own, as far as Segment is concerned.
  std::vector<std::string> trusted_variables = {"bos_token", "eos_token", "pad_token", "unk_token"};
};

// A stretch of rendered text. Text that came out of a variable of the request, however it was cut,
// joined or replaced in, has from_template false: a control token spelled there is ordinary text.
// Where an operation mixes both (tojson, printing a list), all of its result counts as a
// variable's. Numbers count as the template's. A tokenizer should treat the segments as one text
// and only look for control tokens that lie within a stretch from the template.
struct Segment {
  std::string text;
  bool from_template = true;

  bool operator==(const Segment& other) const = default;
};

class ChatTemplate {
 public:
  // `name` is used in messages. A source above 1 MiB is refused.
  static ChatTemplate parse(std::string_view source, const std::string& name = "chat template");
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, ...
  std::string render(const Json& variables, const RenderOptions& options = {}) const;
  // The same text in stretches of one origin, none of them empty, neighbours of different origin.
  std::vector<Segment> render_segments(const Json& variables,
                                       const RenderOptions& options = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::text
