// Small templates against what Python's jinja2 makes of them (tools/template_cases.py).
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "support.h"
#include "text/chat_template.h"
#include "text/template_support.h"

namespace strata::text {
namespace {

// "chat template: line 3: reason" holds the line that is wanted.
bool names_line(const std::string& message, const Json& line) {
  if (line.is_null()) return true;
  return message.find(": line " + std::to_string(line.as_int()) + ": ") != std::string::npos;
}

TEST(Template, SmallTemplatesRenderAsJinja2RendersThem) {
  const Json file = read_json(test::source_path("tests/text/template_cases.json"));
  const Json& variables = *file.find("variables");
  std::map<std::string, int> sections;
  for (const Json& item : file.find("cases")->as_array()) {
    const std::string& source = item.find("template")->as_string();
    ++sections[item.find("section")->as_string()];
    const Json* output = item.find("output");
    const Json* parse_error = item.find("parse_error");
    const Json* error = item.find("error");
    const Json line = item.find("line") != nullptr ? *item.find("line") : Json();
    try {
      const ChatTemplate parsed = ChatTemplate::parse(source);
      EXPECT_EQ(parse_error, nullptr)
          << source << "\nparsed, but must not: " << (parse_error ? parse_error->dump() : "");
      const std::string rendered = parsed.render(variables, at_fixed_time());
      if (output != nullptr) {
        EXPECT_EQ(rendered, output->as_string()) << source;
      } else if (error != nullptr) {
        ADD_FAILURE() << source << "\nrendered, but must fail: " << error->dump() << "\n"
                      << rendered;
      }
    } catch (const Error& caught) {
      const std::string message = caught.what();
      if (output != nullptr) {
        ADD_FAILURE() << source << "\nmust render " << output->dump() << "\nbut: " << message;
        continue;
      }
      EXPECT_EQ(caught.code(),
                parse_error != nullptr ? ErrorCode::bad_file : ErrorCode::bad_request)
          << source << "\n"
          << message;
      EXPECT_TRUE(names_line(message, line))
          << source << "\nwanted line " << line.dump() << ": " << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  int total = 0;
  for (const auto& [name, count] : sections) total += count;
  EXPECT_GE(total, 800);
}

}  // namespace
}  // namespace strata::text
