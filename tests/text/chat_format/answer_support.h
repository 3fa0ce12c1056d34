// Shared by the tests of answers: tools, parsing in pieces, checking arguments.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_format/answer_parser.h"
#include "text/chat_format/chat_format.h"

namespace strata::text::test_support {

// Parameters of every sort, one text among them.
inline std::vector<Tool> sample_tools() {
  return {
      {"get_weather", "Weather of a city", Json::parse(R"({"type":"object","properties":{
          "city":{"type":"string","description":"Name of the city"},
          "unit":{"type":"string","enum":["c","f"]}},"required":["city"]})")},
      {"make_note", "Keeps a note", Json::parse(R"({"type":"object","properties":{
          "text":{"type":"string"},
          "stars":{"type":"integer","minimum":1,"maximum":5},
          "done":{"type":"boolean"},
          "tags":{"type":"array","items":{"type":"string","maxLength":6},"maxItems":3},
          "due":{"anyOf":[{"type":"string"},{"type":"null"}]},
          "place":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},
                   "required":["x","y"],"additionalProperties":false},
          "kind":{"const":"note"}},
          "required":["text","stars","kind"],"additionalProperties":false})")},
      {"now", "The time", Json::parse(R"({"type":"object","properties":{}})")},
  };
}

inline std::shared_ptr<const std::vector<Tool>> shared_tools() {
  static const auto k_tools = std::make_shared<const std::vector<Tool>>(sample_tools());
  return k_tools;
}

inline ParsedAnswer parse_in_pieces(const ChatFormat& format, const AnswerOptions& options,
                                    const std::string& text, const std::vector<size_t>& cuts) {
  AnswerParser parser(format, options);
  ParsedAnswer out;
  size_t at = 0;
  for (const size_t cut : cuts) {
    out.add(parser.push(std::string_view(text).substr(at, cut - at)));
    at = cut;
  }
  out.add(parser.push(std::string_view(text).substr(at)));
  out.add(parser.finish());
  return out;
}

inline std::string shown(const ParsedAnswer& answer) {
  std::string out = "reasoning=[" + answer.reasoning + "] content=[" + answer.content + "]";
  for (const ParsedCall& call : answer.calls) {
    out += " " + call.name + "(" + call.arguments + ")";
  }
  return out;
}

// The answer, which must be the same however it is cut.
inline ParsedAnswer parse_all_ways(const ChatFormat& format, const AnswerOptions& options,
                                   const std::string& text) {
  const ParsedAnswer whole = parse_in_pieces(format, options, text, {});
  const auto check = [&](const std::vector<size_t>& cuts, const std::string& how) {
    const ParsedAnswer other = parse_in_pieces(format, options, text, cuts);
    EXPECT_EQ(shown(other), shown(whole)) << format.name << ", " << how << ": " << text;
    for (size_t i = 0; i < std::min(other.calls.size(), whole.calls.size()); ++i) {
      EXPECT_EQ(other.calls[i].id, whole.calls[i].id);
    }
  };
  for (size_t n = 1; n <= 7; ++n) {
    std::vector<size_t> cuts;
    for (size_t at = n; at < text.size(); at += n) cuts.push_back(at);
    check(cuts, "pieces of " + std::to_string(n));
  }
  for (size_t cut = 1; cut < text.size(); ++cut) check({cut}, "cut at " + std::to_string(cut));
  return whole;
}

// Enough of the specification for the tools above.
inline bool is_valid(const Json& schema, const Json& value) {
  if (const Json* choices = schema.find("anyOf")) {
    return std::any_of(choices->as_array().begin(), choices->as_array().end(),
                       [&](const Json& one) { return is_valid(one, value); });
  }
  if (const Json* constant = schema.find("const"); constant && !(*constant == value)) return false;
  if (const Json* values = schema.find("enum")) {
    const Json::Array& all = values->as_array();
    if (std::find(all.begin(), all.end(), value) == all.end()) return false;
  }
  const Json* type = schema.find("type");
  const std::string name = type == nullptr ? "" : type->as_string();
  if (name == "string" && !value.is_string()) return false;
  if (name == "integer" && !value.is_int()) return false;
  if (name == "boolean" && !value.is_bool()) return false;
  if (name == "null" && !value.is_null()) return false;
  if (name == "array" && !value.is_array()) return false;
  if (name == "object" && !value.is_object()) return false;
  if (const Json* limit = schema.find("minimum"); limit && value.as_int() < limit->as_int()) {
    return false;
  }
  if (const Json* limit = schema.find("maximum"); limit && value.as_int() > limit->as_int()) {
    return false;
  }
  if (value.is_array()) {
    const Json* most = schema.find("maxItems");
    if (most != nullptr && value.as_array().size() > static_cast<size_t>(most->as_int())) {
      return false;
    }
    for (const Json& one : value.as_array()) {
      if (const Json* items = schema.find("items"); items && !is_valid(*items, one)) return false;
    }
  }
  if (!value.is_object()) return true;
  const Json* properties = schema.find("properties");
  if (const Json* required = schema.find("required")) {
    for (const Json& key : required->as_array()) {
      if (value.find(key.as_string()) == nullptr) return false;
    }
  }
  for (const auto& [key, one] : value.as_object()) {
    const Json* property = properties == nullptr ? nullptr : properties->find(key);
    if (property == nullptr || !is_valid(*property, one)) return false;
  }
  return true;
}

}  // namespace strata::text::test_support
