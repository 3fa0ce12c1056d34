// Chat templates: a Jinja subset that renders as Python's jinja2 does with Hugging Face's settings.
//
// Settings: trim_blocks, lstrip_blocks, loop controls (break, continue), `tojson` without ASCII
// escapes, `raise_exception(message)`, `strftime_now(format)`.
// Not for: general templating; no includes, imports, inheritance, file or host access.
// Errors: ErrorCode::bad_file with line and reason when the template does not parse;
// ErrorCode::bad_request with line and reason when rendering fails or the template raises.
// Bounds: steps, output bytes, value bytes and nesting are limited (RenderLimits); exceeding one is
// an error, never a hang.
// Threads: a Template is constant after parsing; render may run in many threads at once.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace strata::text {

struct RenderLimits {
  uint64_t max_steps = 20'000'000;           // evaluated nodes
  uint64_t max_bytes = uint64_t{256} << 20;  // of all strings and lists made
  uint32_t max_depth = 200;                  // nested calls and expressions
};

struct RenderOptions {
  RenderLimits limits;
  std::function<std::tm()> now;  // for strftime_now; empty: local time
};

class ChatTemplate {
 public:
  // `name` is used in messages.
  static ChatTemplate parse(std::string_view source, const std::string& name = "chat template");
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, ...
  std::string render(const Json& variables, const RenderOptions& options = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::text
