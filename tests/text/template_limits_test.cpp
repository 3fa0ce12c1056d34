// Hostile templates end quickly with an error that names the limit.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "text/template_support.h"

namespace strata::text {
namespace {

std::string error_of(const std::string& source, const Json& variables = Json::object(),
                     RenderOptions options = {}) {
  try {
    const std::string out = ChatTemplate::parse(source).render(variables, options);
    return "rendered " + std::to_string(out.size()) + " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

std::string repeat(const std::string& text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

testing::AssertionResult fails_with(const std::string& source, const std::string& reason,
                                    RenderOptions options = {}) {
  const std::string message = error_of(source, Json::object(), std::move(options));
  if (message.find(reason) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << message << "\nin: " << source.substr(0, 200);
}

TEST(TemplateLimits, Steps) {
  EXPECT_TRUE(
      fails_with("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}"
                 "{% endfor %}",
                 "steps"));
  EXPECT_TRUE(fails_with("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}",
                         "steps"));
  RenderOptions few;
  few.limits.max_steps = 100;
  EXPECT_TRUE(fails_with("{% for x in range(1000) %}{{ x }}{% endfor %}", "100 steps", few));
}

TEST(TemplateLimits, Bytes) {
  const char* k_bytes = "bytes of values";
  RenderOptions small;
  small.limits.max_bytes = 16 << 20;
  EXPECT_TRUE(fails_with("{{ 'a' * 10 ** 9 }}", k_bytes));
  EXPECT_TRUE(fails_with("{{ 'a' * 10 ** 18 }}", k_bytes));
  EXPECT_TRUE(fails_with("{{ [0] * 10 ** 9 }}", k_bytes));
  EXPECT_TRUE(fails_with("{{ (1, 2) * 9223372036854775807 }}", k_bytes));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s + ns.s %}{% endfor %}",
                 k_bytes));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                 k_bytes, small));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s + ns.s %}{% endfor %}",
                 k_bytes));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s|replace('a', 'aa') %}{% endfor %}",
                 k_bytes, small));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                 "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
                 "it is refused"));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                 "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
                 "it is refused"));
  for (const char* source :
       {"{{ 'a'.center(10 ** 12) }}", "{{ 'a'.ljust(10 ** 12) }}", "{{ 'a'.zfill(10 ** 12) }}",
        "{{ 'a'|center(10 ** 12) }}", "{{ 'a'|indent(10 ** 12, true) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '%.1000000000f' % 1 }}", "{{ '%0*d' % (10 ** 9, 1) }}",
        "{{ '{:1000000000}'.format(1) }}", "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ [1]|tojson(indent=10 ** 12) }}", "{{ '\t'.expandtabs(10 ** 12) }}",
        "{{ [1]|batch(10 ** 12, 0)|list }}",
        "{% for x in range(100000) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' * 100 }}"
        "{% endfor %}"}) {
    EXPECT_TRUE(fails_with(source, k_bytes, small));
  }
}

TEST(TemplateLimits, Ranges) {
  EXPECT_TRUE(fails_with("{% for i in range(10 ** 9) %}{% endfor %}", "Range too big"));
  EXPECT_TRUE(
      fails_with("{{ range(-9223372036854775807, 9223372036854775807) }}", "Range too big"));
  EXPECT_EQ(error_of("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)"
                     "|list }}"),
            "rendered 25 bytes");
}

TEST(TemplateLimits, NestedCalls) {
  const char* k_deep = "nested too deeply";
  EXPECT_TRUE(fails_with("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", k_deep));
  EXPECT_TRUE(
      fails_with("{% macro m(x) %}{{ caller() }}{% call m(x) %}{% endcall %}{% endmacro %}"
                 "{% call m(1) %}{% endcall %}",
                 k_deep));
  EXPECT_TRUE(
      fails_with("{% set l = [] %}{% set _ = l.append(l) %}"
                 "{% for x in l recursive %}{{ loop(x) }}{% endfor %}",
                 k_deep));
  // A chain of macros within the limit works.
  EXPECT_EQ(ChatTemplate::parse("{% macro m(n) %}{{ n }}{% if n < 150 %}{{ m(n + 1) }}{% endif %}"
                                "{% endmacro %}{{ m(149) }}")
                .render(Json::object()),
            "149150");
  RenderOptions shallow;
  shallow.limits.max_depth = 5;
  EXPECT_TRUE(
      fails_with("{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}"
                 "{{ m(6) }}",
                 "limit 5 calls", shallow));
}

TEST(TemplateLimits, NestedValues) {
  const char* k_deep = "nested too deeply";
  const std::string deep =
      "{% set ns = namespace(l=[1], m=[1], d={}, t=(1,)) %}{% for i in range(100000) %}"
      "{% set ns.l = [ns.l] %}{% set ns.m = [ns.m] %}{% set ns.d = {'a': ns.d} %}"
      "{% set ns.t = (ns.t,) %}{% endfor %}";
  EXPECT_EQ(error_of(deep), "rendered 0 bytes");
  EXPECT_TRUE(fails_with(deep + "{{ ns.l }}", k_deep));
  EXPECT_TRUE(fails_with(deep + "{{ ns.d|tojson }}", k_deep));
  EXPECT_TRUE(fails_with(deep + "{{ ns.l == ns.m }}", k_deep));
  EXPECT_TRUE(fails_with(deep + "{{ ns.l < ns.m }}", k_deep));
  EXPECT_TRUE(fails_with(deep + "{{ {ns.t: 1} }}", k_deep));
  EXPECT_TRUE(fails_with(deep + "{{ ns.t in {} }}", k_deep));
  EXPECT_TRUE(
      fails_with("{% set ns = namespace(g=[1]) %}{% for i in range(1000) %}"
                 "{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
                 "stacked"));
  // Cycles end in dots, as in Python.
  EXPECT_EQ(ChatTemplate::parse("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}")
                .render(Json::object()),
            "[[...]]");
}

TEST(TemplateLimits, NestedSource) {
  for (const size_t count : {size_t{300}, size_t{60'000}}) {
    EXPECT_TRUE(
        fails_with("{{ " + repeat("(", count) + "1" + repeat(")", count) + " }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("[", count) + repeat("]", count) + " }}", "nested"));
    EXPECT_TRUE(
        fails_with("{{ " + repeat("{1: ", count) + "1" + repeat("}", count) + " }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("not ", count) + "1 }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("- ", count) + "1 }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("f(", count) + repeat(")", count) + " }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("a[", count) + repeat("]", count) + " }}", "nested"));
    EXPECT_TRUE(fails_with("{{ " + repeat("1 if 1 else ", count) + "1 }}", "nested"));
    EXPECT_TRUE(fails_with("{% for " + repeat("(", count) + "a" + repeat(",)", count) + " in b %}",
                           "nested"));
    EXPECT_TRUE(fails_with(repeat("{% if 1 %}", count), "nested"));
    EXPECT_TRUE(fails_with(repeat("{% for x in y %}", count), "nested"));
  }
  // Chains that the parser takes one after another but that nest when they are evaluated.
  EXPECT_TRUE(fails_with("{{ 1" + repeat(" + 1", 60'000) + " }}", "nested too deeply"));
  EXPECT_TRUE(fails_with("{{ d" + repeat(".d", 60'000) + " }}", "nested too deeply"));
  EXPECT_TRUE(fails_with("{{ 'a'" + repeat("|upper", 60'000) + " }}", "nested too deeply"));
  EXPECT_EQ(error_of("{{ 1" + repeat(" + 1", 1000) + " }}"), "rendered 4 bytes");
  EXPECT_EQ(error_of("{{ 'a'" + repeat(" ~ 'a'", 60'000) + " }}"), "rendered 60001 bytes");
}

TEST(TemplateLimits, SearchingIsLinear) {
  // Naive searching would compare half a million bytes half a million times.
  const std::string setup = "{% set h = 'a' * 1000000 %}{% set n = 'a' * 500000 ~ 'b' %}";
  EXPECT_EQ(error_of(setup + "{{ n in h }}"), "rendered 5 bytes");
  EXPECT_EQ(error_of(setup + "{{ h.find(n) }}"), "rendered 2 bytes");
  EXPECT_EQ(error_of(setup + "{{ h.rfind('b' ~ n) }}"), "rendered 2 bytes");
  EXPECT_EQ(error_of(setup + "{{ h.count(n) }}"), "rendered 1 bytes");
  EXPECT_EQ(error_of(setup + "{{ h.split(n)|length }}"), "rendered 1 bytes");
  EXPECT_EQ(error_of(setup + "{{ h.replace(n, 'x')|length }}"), "rendered 7 bytes");
}

// Work inside one filter or method counts too: each of these would take hours if it did not.
TEST(TemplateLimits, WorkInsideOperationsIsCounted) {
  RenderOptions options;
  options.limits.max_steps = 1'000'000;
  const std::string loop = "{% for a in range(100000) %}{% for b in range(100000) %}";
  const std::string end = "{% endfor %}{% endfor %}";
  for (const char* body : {"{% set x = s.strip(s) %}",
                           "{% set x = s.find('b') %}",
                           "{% set x = s|length and s < t %}",
                           "{% set x = d[s] %}",
                           "{% set x = d.get(t) %}",
                           "{% set x = s in d %}",
                           "{% set x = l.index(-1) if -1 in l %}",
                           "{% set x = l.insert(0, l.pop()) %}",
                           "{% set x = l.reverse() %}",
                           "{% set x = l == m %}",
                           "{% set x = l|sort %}",
                           "{% set x = s.startswith(p) %}",
                           "{% set x = s[5:6] %}",
                           "{% set x = u[5] %}",
                           "{% set x = s.isalpha() %}",
                           "{% set x = s is lower %}",
                           "{% set x = s|wordcount %}",
                           "{% set x = l|max %}",
                           "{% set x = s == t %}",
                           "{% set x = l.count(5) %}"}) {
    const std::string source =
        "{% set s = 'a' * 300000 %}{% set t = 'a' * 299999 ~ 'b' %}{% set u = 'é' * 100000 %}"
        "{% set d = {s: 1, t: 2} %}{% set l = range(20000)|list %}{% set m = l.copy() %}"
        "{% set p = ('b',) * 10000 %}" +
        loop + body + end;
    EXPECT_TRUE(fails_with(source, "it is refused", options)) << body;
  }
}

TEST(TemplateLimits, LargeTemplatesParseQuickly) {
  // Many names and many branches: what each branch assigns is merged, not copied.
  std::string source;
  for (int i = 0; i < 15'000; ++i) {
    source += "{% if a %}{% set n" + std::to_string(i) + " = 1 %}{% endif %}\n";
  }
  EXPECT_EQ(error_of(source), "rendered 0 bytes");
  std::string nested = repeat("{% if a %}", 150);
  for (int i = 0; i < 2000; ++i) nested += "{% set n" + std::to_string(i) + " = 1 %}";
  nested += repeat("{% endif %}", 150);
  EXPECT_EQ(error_of(nested), "rendered 0 bytes");
  EXPECT_EQ(error_of(repeat("{# c #}\n", 100'000)), "rendered 0 bytes");
  EXPECT_EQ(error_of(repeat("{ ", 500'000)), "rendered 1000000 bytes");
  std::string arguments;
  for (int i = 0; i < 50'000; ++i) arguments += "a" + std::to_string(i) + "=1,";
  EXPECT_EQ(error_of("{% macro m() %}{{ kwargs|length }}{% endmacro %}{{ m(" + arguments + ") }}"),
            "rendered 5 bytes");
  EXPECT_TRUE(fails_with(std::string((1 << 20) + 1, 'a'), "at most 1048576"));
}

TEST(TemplateLimits, LargeConversationsRender) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i) {
    Json message = Json::object();
    message.set("role", i % 2 == 0 ? "user" : "assistant");
    message.set("content", repeat("lorem ipsum ", 100));
    messages.push(message);
  }
  Json variables = Json::object();
  variables.set("messages", messages);
  const std::string out =
      ChatTemplate::parse(
          "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content|trim + "
          "'<|im_end|>\n' }}{% endfor %}")
          .render(variables);
  EXPECT_GT(out.size(), 2000u * 1199);
}

TEST(TemplateLimits, VariablesMustBeAnObject) {
  EXPECT_NE(error_of("x", Json(1)).find("must be an object"), std::string::npos);
}

TEST(TemplateLimits, ManyThreadsRenderOneTemplate) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for x in xs %}{% set ns.n = ns.n + x %}"
      "{{ 'é' ~ x }}{% endfor %}={{ ns.n }}");
  const Json variables = Json::parse(R"({"xs":[1,2,3]})");
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&chat, &variables, &results, i] {
      for (int k = 0; k < 50; ++k) results[i] = chat.render(variables);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "é1é2é3=6");
}

}  // namespace
}  // namespace strata::text
