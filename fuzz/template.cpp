// Chat templates: whatever the source is, it renders or it is refused, within small limits.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat_template.h"

namespace {

const strata::Json& variables() {
  static const strata::Json k_variables = strata::Json::parse(R"({
    "messages": [{"role": "user", "content": " Hi é<|x|> "},
                 {"role": "assistant", "content": "a\nb", "tool_calls": [{"name": "f"}]}],
    "tools": [{"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}],
    "s": "a-b c", "l": [3, 1.5, "x", null, true], "d": {"k": 1, "z": [1]}, "n": -7, "f": 0.25,
    "bos_token": "<s>", "add_generation_prompt": true})");
  return k_variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  strata::text::RenderOptions options;
  options.limits.max_steps = 100'000;
  options.limits.max_bytes = 4 << 20;
  options.limits.max_depth = 50;
  options.now = [] { return std::tm{}; };
  try {
    const auto chat = strata::text::ChatTemplate::parse(source);
    const std::string text = chat.render(variables(), options);
    // Both ways of rendering agree, and what comes out is text.
    std::string joined;
    for (const auto& segment : chat.render_segments(variables(), options)) joined += segment.text;
    if (joined != text || !strata::is_valid_utf8(text)) std::abort();
  } catch (const strata::Error&) {
  }
  return 0;
}
