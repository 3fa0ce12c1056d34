// The families: what their templates are known by and how they write. A new one is a new entry.
#include <algorithm>
#include <array>

#include "text/chat_format/chat_format.h"

namespace strata::text {
namespace {

using Body = CallSyntax::Body;

struct Family {
  const char* name;
  std::array<std::string_view, 3> signs;  // all of them stand in the template
  CallSyntax calls;
};

// The first that fits counts.
constexpr Family k_families[] = {
    {"gpt-oss",
     {"<|channel|>analysis", "<|message|>", "<|start|>"},
     {.body = Body::channels, .call_open = "<|message|>", .name_open = "functions."}},
    {"qwen3-coder",
     {"<function=", "<parameter="},
     {.body = Body::tagged,
      .call_open = "<tool_call>\n",
      .call_close = "</tool_call>",
      .separator = "\n",
      .name_open = "<function=",
      .name_end = ">\n",
      .arguments_end = "</function>\n",
      .parameter_open = "<parameter=",
      .key_end = ">\n",
      .value_end = "\n</parameter>\n"}},
    {"minimax-m2",
     {"<minimax:tool_call>", "<invoke name="},
     {.body = Body::tagged,
      .section_open = "<minimax:tool_call>\n",
      .section_close = "</minimax:tool_call>",
      .call_open = "<invoke name=\"",
      .call_close = "</invoke>\n",
      .name_end = "\">\n",
      .parameter_open = "<parameter name=\"",
      .key_end = "\">",
      .value_end = "</parameter>\n"}},
    {"glm-4",
     {"<arg_key>", "<arg_value>", "<tool_call>"},
     {.body = Body::tagged,
      .call_open = "<tool_call>",
      .call_close = "</tool_call>",
      .separator = "\n",
      .name_end = "\n",
      .parameter_open = "<arg_key>",
      .key_end = "</arg_key>\n",
      .value_open = "<arg_value>",
      .value_end = "</arg_value>\n"}},
    {"kimi-k2",
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"},
     {.body = Body::named,
      .section_open = "<|tool_calls_section_begin|>",
      .section_close = "<|tool_calls_section_end|>",
      .call_open = "<|tool_call_begin|>",
      .call_close = "<|tool_call_end|>",
      .name_open = "functions.",
      .name_end = "<|tool_call_argument_begin|>",
      .numbered = true}},
    {"deepseek-v3",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json"},
     {.body = Body::named,
      .section_open = "<｜tool▁calls▁begin｜>",
      .section_close = "<｜tool▁calls▁end｜>",
      .call_open = "<｜tool▁call▁begin｜>",
      .call_close = "<｜tool▁call▁end｜>",
      .separator = "\n",
      .name_open = "function<｜tool▁sep｜>",
      .name_end = "\n```json\n",
      .arguments_end = "\n```"}},
    {"deepseek-v3.1",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
     {.body = Body::named,
      .section_open = "<｜tool▁calls▁begin｜>",
      .section_close = "<｜tool▁calls▁end｜>",
      .call_open = "<｜tool▁call▁begin｜>",
      .call_close = "<｜tool▁call▁end｜>",
      .name_end = "<｜tool▁sep｜>"}},
    {"mistral-v11",
     {"[TOOL_CALLS]", "[ARGS]"},
     {.body = Body::named, .call_open = "[TOOL_CALLS]", .name_end = "[ARGS]", .id_length = 9}},
    {"mistral",
     {"[TOOL_CALLS]"},
     {.section_open = "[TOOL_CALLS]",
      .separator = ", ",
      .list = true,
      .id_length = 9,
      .writes_id = true}},
    {"phi-4-mini",
     {"<|tool_call|>", "<|/tool_call|>"},
     {.section_open = "<|tool_call|>",
      .section_close = "<|/tool_call|>",
      .separator = ", ",
      .list = true}},
    {"granite-3",
     {"<|tool_call|>", "<|start_of_role|>"},
     {.section_open = "<|tool_call|>", .separator = ", ", .list = true}},
    {"llama-3",
     {"<|start_header_id|>", "\"parameters\""},
     {.separator = "; ",
      .bare = true,
      .bare_mark = "<|python_tag|>",
      .arguments_key = "parameters"}},
    // Hermes and Qwen 2.5 and 3, and those that know no calls.
    {"hermes",
     {},
     {.call_open = "<tool_call>\n", .call_close = "\n</tool_call>", .separator = "\n"}},
};

struct ThinkMarks {
  std::string_view open, close;
};
constexpr ThinkMarks k_think_marks[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

}  // namespace

ChatFormat detect_chat_format(std::string_view source) {
  const auto has = [&](std::string_view sign) { return source.find(sign) != source.npos; };
  const Family* family = std::find_if(
      std::begin(k_families), std::end(k_families) - 1,
      [&](const Family& one) { return std::all_of(one.signs.begin(), one.signs.end(), has); });
  ChatFormat out;
  out.name = family->name;
  out.calls = family->calls;
  if (out.calls.body == Body::channels) return out;
  for (const ThinkMarks& marks : k_think_marks) {
    if (!has(marks.close)) continue;
    out.think_open = marks.open;
    out.think_close = marks.close;
    break;
  }
  return out;
}

std::vector<std::string> marks_of(const ChatFormat& format) {
  std::vector<std::string> out;
  const CallSyntax& c = format.calls;
  for (const std::string_view mark :
       {format.think_open, format.think_close, c.section_open, c.section_close, c.call_open,
        c.call_close, c.bare_mark, c.name_end, c.arguments_end, c.parameter_open, c.key_end,
        c.value_open, c.value_end, std::string_view(c.name_open)}) {
    if (const std::string_view text = trimmed(mark); !text.empty()) out.emplace_back(text);
  }
  if (c.body == Body::channels) {
    for (const char* mark : {"<|start|>", "<|channel|>", "<|constrain|>", "<|end|>"}) {
      out.emplace_back(mark);
    }
  }
  if (c.body == Body::named && c.id_length > 0) out.emplace_back("[CALL_ID]");
  // A mark may be a word and a token: function<...>.
  if (c.name_open == "function<｜tool▁sep｜>") out.emplace_back("<｜tool▁sep｜>");
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \n\r\t";
  const size_t begin = text.find_first_not_of(space);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

bool Tool::is_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  });
}

}  // namespace strata::text
