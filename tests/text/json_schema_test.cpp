// JSON schemas: what comes out at random is JSON and valid; what must be possible is; errors.
#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/utf8.h"
#include "grammar_support.h"

namespace strata::text {
namespace {

using namespace test_support;

// A validator of its own, from the specification (draft 2020-12), for the keywords tested here.
class Validator {
 public:
  explicit Validator(const Json& document) : document_(document) {}

  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_bool()) return schema.as_bool();
    if (const Json* ref = schema.find("$ref"); ref != nullptr && !valid(resolve(*ref), value)) {
      return false;
    }
    if (const Json* type = schema.find("type")) {
      bool any = false;
      for (const Json& one : type->is_array() ? type->as_array() : Json::Array{*type}) {
        any |= is_type(value, one.as_string());
      }
      if (!any) return false;
    }
    if (const Json* constant = schema.find("const"); constant != nullptr && *constant != value) {
      return false;
    }
    if (const Json* values = schema.find("enum")) {
      bool any = false;
      for (const Json& one : values->as_array()) any |= one == value;
      if (!any) return false;
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      const Json* choices = schema.find(key);
      if (choices == nullptr) continue;
      bool any = false;
      for (const Json& one : choices->as_array()) any |= valid(one, value);
      if (!any) return false;
    }
    if (const Json* all = schema.find("allOf")) {
      for (const Json& one : all->as_array()) {
        if (!valid(one, value)) return false;
      }
    }
    if (value.is_string() && !valid_length(schema, characters(value.as_string()), "Length")) {
      return false;
    }
    if (value.is_number() && !valid_number(schema, value.as_real())) return false;
    if (value.is_array() && !valid_array(schema, value.as_array())) return false;
    return !value.is_object() || valid_object(schema, value);
  }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_int();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }
  static size_t characters(const std::string& text) {
    size_t n = 0;
    for (size_t at = 0; at < text.size(); ++n) at += decode_utf8(text, at).length;
    return n;
  }
  static bool valid_length(const Json& schema, size_t n, const std::string& what) {
    const Json* min = schema.find("min" + what);
    const Json* max = schema.find("max" + what);
    return (min == nullptr || static_cast<int64_t>(n) >= min->as_int()) &&
           (max == nullptr || static_cast<int64_t>(n) <= max->as_int());
  }
  static bool valid_number(const Json& schema, double value) {
    const Json* limit = schema.find("minimum");
    if (limit != nullptr && value < limit->as_real()) return false;
    limit = schema.find("maximum");
    if (limit != nullptr && value > limit->as_real()) return false;
    limit = schema.find("exclusiveMinimum");
    if (limit != nullptr && value <= limit->as_real()) return false;
    limit = schema.find("exclusiveMaximum");
    return limit == nullptr || value < limit->as_real();
  }
  bool valid_array(const Json& schema, const Json::Array& items) const {
    if (!valid_length(schema, items.size(), "Items")) return false;
    const Json* prefix = schema.find("prefixItems");
    const Json* rest = schema.find("items");
    const size_t n = prefix == nullptr ? 0 : prefix->as_array().size();
    for (size_t i = 0; i < items.size(); ++i) {
      if (i < n && !valid(prefix->as_array()[i], items[i])) return false;
      if (i >= n && rest != nullptr && !valid(*rest, items[i])) return false;
    }
    return true;
  }
  bool valid_object(const Json& schema, const Json& value) const {
    const Json* properties = schema.find("properties");
    const Json* additional = schema.find("additionalProperties");
    if (const Json* required = schema.find("required")) {
      for (const Json& name : required->as_array()) {
        if (value.find(name.as_string()) == nullptr) return false;
      }
    }
    for (const auto& [name, item] : value.as_object()) {
      const Json* property = properties == nullptr ? nullptr : properties->find(name);
      if (property != nullptr && !valid(*property, item)) return false;
      if (property == nullptr && additional != nullptr && !valid(*additional, item)) return false;
    }
    return true;
  }
  const Json& resolve(const Json& reference) const {
    const std::string& text = reference.as_string();
    const Json* at = &document_;
    for (size_t begin = 1; begin < text.size();) {
      const size_t end = std::min(text.find('/', begin + 1), text.size());
      at = at->find(text.substr(begin + 1, end - begin - 1));
      begin = end;
    }
    return *at;
  }

  const Json& document_;
};

constexpr const char* k_tool_call = R"({
  "type": "object",
  "properties": {
    "name": {"const": "book_flight"},
    "arguments": {
      "type": "object",
      "properties": {
        "from": {"type": "string", "description": "an airport", "pattern": "^[A-Z]{3}$"},
        "to": {"type": "string", "minLength": 3, "maxLength": 40},
        "date": {"type": "string", "format": "date"},
        "class": {"enum": ["economy", "business", "first"]},
        "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
        "notes": {"type": ["string", "null"]},
        "stops": {"type": "array", "items": {"type": "string"}, "maxItems": 3}
      },
      "required": ["from", "to", "date", "passengers"],
      "additionalProperties": false
    }
  },
  "required": ["name", "arguments"]
})";

constexpr const char* k_schemas[] = {
    R"({"type": "object"})",
    R"({})",
    R"({"type": ["integer", "null", "boolean"]})",
    R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"},
        "c": {"type": "boolean"}}, "required": ["b"]})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "integer"}, "\"\\":
        {"type": "integer"}}, "additionalProperties": {"type": "boolean"}, "required": ["z"]})",
    R"({"type": "array", "items": {"type": "integer", "minimum": -120, "maximum": 37},
        "minItems": 2, "maxItems": 5})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": {"type": "null"}, "minItems": 3})",
    R"({"enum": ["a", 1, null, true, {"x": [1, "é\n"]}, 2.5]})",
    R"({"anyOf": [{"type": "string", "maxLength": 2}, {"const": {"k": 1}}, {"type": "null"}]})",
    R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}, "a": {"minimum": 5}}, "required": ["b"]}]})",
    R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next":
        {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}},
        "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"},
        "maxItems": 2}}, "required": ["kids"]})",
    R"({"type": "string", "minLength": 1, "maxLength": 3})",
    R"({"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 100001})",
    R"({"type": "number", "minimum": 0})",
    R"({"type": "object", "properties": {"kind": {"type": "string"}}, "anyOf": [
        {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
        {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}]})",
    k_tool_call,
};

void expect_valid_texts(const std::shared_ptr<const TokenTrie>& tokens, int seeds) {
  for (const char* text : k_schemas) {
    const Json schema = Json::parse(text);
    const SchemaGrammar made = schema_grammar(schema);
    EXPECT_TRUE(made.warnings.empty()) << made.warnings[0];
    GrammarMatcher matcher(Grammar::parse(made.gbnf), tokens);
    int ended = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      std::mt19937_64 random(static_cast<uint64_t>(seed));
      matcher.reset();
      const std::string answer = random_text(matcher, *tokens, random);
      if (answer.empty()) continue;
      ++ended;
      Json value;
      ASSERT_NO_THROW(value = Json::parse(answer, 900)) << text << "\n" << answer;
      EXPECT_TRUE(Validator(schema).valid(schema, value)) << text << "\n" << answer;
    }
    EXPECT_GT(ended, seeds * 3 / 4) << text;
  }
}

TEST(JsonSchema, RandomBytesAreValid) { expect_valid_texts(byte_tokens(), 40); }

TEST(JsonSchema, RandomTokensOfTheDemoModelAreValid) {
  expect_valid_texts(TokenTrie::make(*load_tokenizer(test::source_path("models/demo-q8_0.gguf"))),
                     20);
}

TEST(JsonSchema, RandomTokensOfPublishedVocabulariesAreValid) {
  STRATA_NEED_SHARED();
  for (const char* name : {"llama-spm", "gpt-2"}) {
    expect_valid_texts(TokenTrie::make(*load_tokenizer(
                           test::shared_path(std::string("tokenizers/") + name + ".gguf"))),
                       2);
  }
}

void expect(const std::string& schema, std::initializer_list<const char*> yes,
            std::initializer_list<const char*> no) {
  const GrammarMatcher matcher = byte_matcher(schema_grammar(Json::parse(schema)).gbnf);
  for (const char* text : yes) EXPECT_TRUE(matches(matcher, text)) << schema << "\n" << text;
  for (const char* text : no) EXPECT_FALSE(matches(matcher, text)) << schema << "\n" << text;
}

TEST(JsonSchema, AllowsAndRefuses) {
  expect(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}, "c": {}},
             "required": ["a"]})",
         {R"({"a":1})", R"({"a": 1, "c": [] })", "{\n  \"a\": 1,\n  \"b\": \"x\"\n}"},
         {"{}", R"({"b":1})", R"({"b":1,"a":1})", R"({"a":1,"z":1})", R"({"a":1,})", R"({"a":1} )",
          R"({"a":1.5})", R"({"a":01})"});
  expect(R"({"type": "object", "properties": {}})", {"{}", "{ }"}, {R"({"a":1})"});
  expect(R"({"properties": {"a": {"type": "null"}}, "additionalProperties": true})",
         {"{}", R"({"a":null})", R"({"b":1,"ab":2})", R"({"a":null,"é":{}})", R"({"\n":1})"},
         {R"({"a":1})", R"({"\u0061":1})", R"({"b":1,"a":1})"});
  expect(R"({"type": "integer", "minimum": -5, "maximum": 12})", {"-5", "-1", "0", "9", "10", "12"},
         {"-6", "13", "-0", "00", "1.0", "100"});
  expect(R"({"type": "integer", "minimum": 95, "maximum": 1203})",
         {"95", "99", "100", "999", "1000", "1199", "1200", "1203"},
         {"94", "1204", "9", "2000", "0"});
  expect(R"({"type": "integer", "minimum": 7})", {"7", "10", "123456789"}, {"6", "0", "-7"});
  expect(R"({"type": "integer", "maximum": -7})", {"-7", "-10", "-123456"}, {"-6", "0", "7"});
  expect(R"({"type": "integer", "minimum": -9223372036854775808, "maximum": -9223372036854775807})",
         {"-9223372036854775808", "-9223372036854775807"}, {"-9223372036854775806", "0"});
  expect(R"({"type": "number"})", {"0", "-1.5", "2e5", "1.5E-7", "-0.1"},
         {"", "+1", ".5", "1.", "1e999"});
  expect(R"({"type": "string"})", {R"("")", R"("é \n \u00e9 \ud83d\ude00")"},
         {"\"\n\"", R"("\ud83d")", R"("\q")", "\"a", "a"});
  expect(R"({"maxLength": 1})",
         {R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\"", R"("\u00e9")", R"("\n")"},
         {R"("ab")", R"("\n\n")"});
  expect(R"({"maxLength": 65536, "minLength": 65536})", {}, {R"("ab")"});
  expect(R"({"pattern": "^(\\d{3}-)?[a-z\"\\\\\\n]+\\.x?$"})",
         {R"("123-abc.")", R"("q.x")", R"("\"\\\n.")"},
         {R"("12-a.")", R"("A.")", R"("\u0061.")", R"("a")"});
}

TEST(JsonSchema, Formats) {
  expect(R"({"format": "date"})", {"\"2024-02-29\"", "\"2023-12-31\"", "\"1999-04-30\""},
         {"\"2023-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-00-10\"", "\"23-01-01\""});
  expect(R"({"format": "time"})", {"\"23:59:59Z\"", "\"00:00:00.25+02:00\""},
         {"\"24:00:00Z\"", "\"12:00Z\"", "\"12:00:00\""});
  expect(R"({"format": "date-time"})", {"\"2024-02-29T12:00:00Z\""}, {"\"2024-02-29\""});
  expect(R"({"format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""},
         {"\"123e4567e89b12d3a456426614174000\""});
}

TEST(JsonSchema, EveryIntegerRangeIsExact) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    const auto a = static_cast<int64_t>(random() % 4000) - 2000;
    const auto b = a + static_cast<int64_t>(random() % 300);
    const GrammarMatcher matcher = byte_matcher(
        schema_grammar(Json::object({{"type", "integer"}, {"minimum", a}, {"maximum", b}})).gbnf);
    for (int64_t value = a - 120; value <= b + 120; ++value) {
      ASSERT_EQ(matches(matcher, std::to_string(value)), value >= a && value <= b)
          << value << " in " << a << ".." << b;
    }
  }
}

std::string schema_error(const std::string& schema) {
  try {
    Grammar::parse(schema_grammar(Json::parse(schema, 900)).gbnf);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
  return "no error";
}

TEST(JsonSchema, Errors) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties": {"a": {"type": "text"}}})",
       "at #/properties/a: the type \"text\" is unknown"},
      {R"({"properties": {"a": {"$ref": "#/$defs/x"}}})", "leads nowhere: there is no '$defs'"},
      {R"({"$ref": "http://x/y"})", "only '#/...'"},
      {R"({"$ref": 1})", "$ref is not a string"},
      {R"({"$ref": "#"})", "$ref '#' leads back to itself"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},)"
       R"("b": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}}})",
       "$ref '#/$defs/a' leads back to itself"},
      {R"({"anyOf": []})", "anyOf"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "leads back to itself"},
      {R"({"allOf": [{"$ref": "#"}]})", "nest deeper"},
      {R"({"pattern": "abc"})", "not anchored"},
      {R"({"pattern": "^(a$"})", "inside"},
      {R"({"pattern": "^a|b$"})", "not anchored"},
      {R"({"pattern": "^(?=a)b$"})", "not supported"},
      {R"({"pattern": "^\\bx$"})", "\\b, which is not supported"},
      {R"({"pattern": "^a{2,1}$"})", "ends below"},
      {R"({"minLength": 3, "maxLength": 2})", "minLength 3 is above maxLength 2"},
      {R"({"minLength": -1})", "whole number"},
      {R"({"type": "integer", "minimum": 3, "maximum": 2})", "no integer"},
      {R"({"required": ["a"], "properties": {}, "additionalProperties": false})",
       "'a' is required"},
      {R"({"enum": []})", "enum has no value"},
      {R"({"properties": {"a": 3}})", "a schema is an object, not integer"},
      {R"({"allOf": [{"type": "string", "pattern": "^a$"}, {"pattern": "^b$"}]})", "'pattern'"},
      {R"([1])", "a schema is an object"},
      {"false", "allows nothing"},
  };
  for (const auto& [schema, part] : cases) {
    EXPECT_NE(schema_error(schema).find(part), std::string::npos) << schema << "\n"
                                                                  << schema_error(schema);
  }
}

TEST(JsonSchema, WhatIsNotEnforcedIsSaid) {
  const auto made = schema_grammar(Json::parse(
      R"({"title": "t", "type": "array", "uniqueItems": true, "items": {"type": "number", "maximum": 3,
          "multipleOf": 2, "description": "d"}})"));
  ASSERT_EQ(made.warnings.size(), 3u);
  EXPECT_EQ(made.warnings[0], "schema at #: 'uniqueItems' is not enforced");
  EXPECT_NE(made.warnings[1].find("#/items: 'multipleOf'"), std::string::npos);
  EXPECT_NE(made.warnings[2].find("limits of numbers"), std::string::npos);
}

TEST(JsonSchema, HostileSchemasAreRefusedSoon) {
  const auto start = std::chrono::steady_clock::now();
  std::string deep;
  for (int i = 0; i < 800; ++i) deep += R"({"items":)";
  EXPECT_NE(schema_error(deep + "{}" + std::string(800, '}')).find("nested deeper"),
            std::string::npos);
  // Each definition uses the next twice, merged: 2^30 schemas when written out.
  std::string twice = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 30; ++i) {
    const std::string next =
        R"({"minItems": 0, "$ref": "#/$defs/d)" + std::to_string(i + 1) + R"("})";
    twice += "\"d" + std::to_string(i) + R"(": {"type": "array", "prefixItems": [)" + next + "," +
             next + "]},";
  }
  EXPECT_NE(schema_error(twice + R"("d30": {"type": "array"}}})").find("too large"),
            std::string::npos);
  std::string many = R"({"properties": {)";
  for (int i = 0; i < 3'000; ++i) many += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\":{}";
  EXPECT_NE(schema_error(many + "}}").find("the most is 2000"), std::string::npos);
  std::string values = R"({"enum": [)";
  for (int i = 0; i < 200'000; ++i) values += (i > 0 ? ",\"v" : "\"v") + std::to_string(i) + "\"";
  schema_error(values + "]}");
  schema_error(R"({"properties": {")" + std::string(500'000, 'k') +
               R"(": {}}, "additionalProperties": true})");
  EXPECT_EQ(schema_error(R"({"maxLength": 1e300, "minLength": 1000000000})"), "no error");
  EXPECT_EQ(schema_error(R"({"items": {"maxLength": 65536}, "maxItems": 1000000})"), "no error");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 60.0);
}

// Long lists are read by what their values have in common; the language is the list, no more.
TEST(JsonSchema, LongEnums) {
  const auto check = [](const Json& values, const std::vector<std::string>& others) {
    const Json schema = Json::object({{"enum", values}});
    const std::string gbnf = schema_grammar(schema).gbnf;
    EXPECT_TRUE(is_valid_utf8(gbnf));
    const GrammarMatcher matcher = byte_matcher(gbnf);
    for (const Json& value : values.as_array())
      EXPECT_TRUE(matches(matcher, value.dump())) << value.dump();
    for (const std::string& other : others) EXPECT_FALSE(matches(matcher, other)) << other;
  };
  Json numbers = Json::array(), words = Json::array(), characters = Json::array(),
       stairs = Json::array();
  for (int64_t i = -500; i < 20'000; ++i) numbers.push(i);
  check(numbers, {"20000", "-501", "00", "-0", "1999 ", "", "-", "1e3"});
  for (int i = 0; i < 6'000; ++i) words.push("item " + std::to_string(i) + (i % 2 ? "a" : ""));
  check(words, {"\"item 1\"", "\"item 2a\"", "\"item \"", "\"item 6000\"", "\"item 5999a"});
  // Neighbours whose UTF-8 begins alike: no character may be cut.
  for (uint32_t c = 0x4E00; c < 0x4E00 + 3'000; ++c) {
    std::string text;
    append_utf8(text, c);
    append_utf8(text, 0x1F600 + c % 64);
    characters.push(text);
  }
  Json alike = Json::array();  // 40 that differ in the last byte only
  for (uint32_t c = 0x4E00; c < 0x4E00 + 40; ++c) {
    std::string text;
    append_utf8(text, c);
    alike.push(text);
  }
  check(alike, {"\"\xE4\xB8\"", "\"\""});
  check(characters, {"\"\u4e00\"", "\"\xE4\xB8\"", "\"\""});
  // Each begins as the next does, more of them than beginnings are shared.
  for (int i = 0; i < 300; ++i) stairs.push(std::string(static_cast<size_t>(i), 'a'));
  check(stairs, {"\"" + std::string(300, 'a') + "\"", "\"b\"", "\"aab\""});
}

TEST(JsonSchema, AnyJsonObject) {
  const GrammarMatcher matcher = byte_matcher(json_object_grammar());
  EXPECT_TRUE(matches(matcher, R"({"a": [1, {"b": null}], "c": "d"})"));
  EXPECT_FALSE(matches(matcher, "[1]"));
  EXPECT_FALSE(matches(matcher, "1"));
}

// A member's mask in a large vocabulary, first time and again; the figures are printed.
TEST(JsonSchema, MasksOfALargeVocabulary) {
  STRATA_NEED_SHARED();
  using clock = std::chrono::steady_clock;
  const auto ms = [](clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  };
  const auto tokenizer = load_tokenizer(test::shared_path("tokenizers/llama-bpe.gguf"));
  auto from = clock::now();
  const auto tokens = TokenTrie::make(*tokenizer);
  std::printf("token trie: %zu tokens, %u nodes, %.1f ms\n", tokens->size(), tokens->n_nodes(),
              ms(clock::now() - from));
  from = clock::now();
  const auto grammar = Grammar::parse(schema_grammar(Json::parse(k_tool_call)).gbnf);
  std::printf("schema to automaton: %.2f ms\n", ms(clock::now() - from));
  const std::string answer =
      R"j({"name": "book_flight", "arguments": {"from": "TXL", "to": "Reykjavík (Keflavík)", )j"
      R"j("date": "2024-02-29", "class": "economy", "passengers": 2, "notes": "Sitz am Fenster, )j"
      R"j(bitte. 窓側の席をお願いします。 A long remark that goes on for a while, as models do.", )j"
      R"j("stops": ["LHR", "KEF"]}})j";
  EncodeOptions plain;
  plain.add_special = false;
  const std::vector<TokenId> ids = tokenizer->encode(answer, plain);
  GrammarMatcher matcher(grammar, tokens);
  std::vector<uint32_t> mask(matcher.mask_words());
  for (const char* round : {"cold", "warm"}) {
    matcher.reset();
    double total = 0, most = 0, accepting = 0;
    for (const TokenId id : ids) {
      from = clock::now();
      matcher.mask(mask);
      const double took = ms(clock::now() - from);
      total += took;
      most = std::max(most, took);
      ASSERT_TRUE(is_allowed(mask, static_cast<size_t>(id))) << tokenizer->piece(id);
      from = clock::now();
      ASSERT_TRUE(matcher.accept(id));
      accepting += ms(clock::now() - from);
    }
    EXPECT_TRUE(matcher.is_complete());
    std::printf("%s: %zu tokens, mask %.4f ms each (most %.3f), accept %.4f ms, %zu bytes\n", round,
                ids.size(), total / static_cast<double>(ids.size()), most,
                accepting / static_cast<double>(ids.size()), matcher.memory_bytes());
  }
}

}  // namespace
}  // namespace strata::text
