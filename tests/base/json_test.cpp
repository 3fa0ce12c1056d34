#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace strata {
namespace {

std::string error_of(std::string_view text, uint32_t max_depth = 200) {
  try {
    Json::parse(text, max_depth);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
  return "";
}

TEST(Json, Scalars) {
  EXPECT_TRUE(Json::parse("null").is_null());
  EXPECT_TRUE(Json::parse(" true ").as_bool());
  EXPECT_FALSE(Json::parse("false").as_bool());
  EXPECT_EQ(Json::parse("-17").as_int(), -17);
  EXPECT_EQ(Json::parse("0.5").as_real(), 0.5);
  EXPECT_EQ(Json::parse("5").as_real(), 5.0);
  EXPECT_EQ(Json::parse("\"a\\u00e9\\n\\ud83d\\ude00\"").as_string(), "a\u00e9\n\U0001F600");
}

TEST(Json, IntegersAreExactAndLargerOnesBecomeReals) {
  EXPECT_EQ(Json::parse("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(Json::parse("-9223372036854775808").as_int(), INT64_MIN);
  EXPECT_EQ(Json::parse("9007199254740993").as_int(), 9007199254740993);
  const Json above = Json::parse("9223372036854775808");
  ASSERT_TRUE(above.is_real());
  EXPECT_EQ(above.as_real(), 9223372036854775808.0);
  EXPECT_TRUE(Json::parse("18446744073709551615").is_real());
  EXPECT_TRUE(Json::parse("-9223372036854775809").is_real());
  EXPECT_TRUE(Json::parse("123456789012345678901234567890").is_real());
  EXPECT_TRUE(Json(UINT64_MAX).is_real());
  EXPECT_TRUE(Json(uint64_t{7}).is_int());
}

TEST(Json, MembersKeepTheirOrder) {
  const Json value = Json::parse(R"({"z":1,"a":{"y":2,"b":3},"m":[]})");
  ASSERT_EQ(value.as_object().size(), 3u);
  EXPECT_EQ(value.as_object()[0].first, "z");
  EXPECT_EQ(value.as_object()[1].first, "a");
  EXPECT_EQ(value.as_object()[2].first, "m");
  EXPECT_EQ(value.dump(), R"({"z":1,"a":{"y":2,"b":3},"m":[]})");
}

// Python's json.loads: {"a": 1, "b": 2, "a": 3} is {"a": 3, "b": 2}.
TEST(Json, TheLastOfDuplicateKeysWins) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
  EXPECT_EQ(Json::parse(R"({"a":1,"a":2,"a":[{}],"":0,"":1})").dump(), R"({"a":[{}],"":1})");
  EXPECT_EQ(Json::object({{"a", 1}, {"a", 2}}).dump(), R"({"a":2})");
}

TEST(Json, ManyDuplicateKeysAreReadQuickly) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"k" + std::to_string(i % 1000) + "\":1,";
  text += "\"end\":2}";
  EXPECT_EQ(Json::parse(text).as_object().size(), 1001u);
}

TEST(Json, ErrorsNameTheByte) {
  EXPECT_NE(error_of("[1,2,").find("byte 5"), std::string::npos) << error_of("[1,2,");
  EXPECT_NE(error_of("{\"a\" 1}").find("byte 5"), std::string::npos) << error_of("{\"a\" 1}");
  EXPECT_NE(error_of("").find("byte 0"), std::string::npos) << error_of("");
  EXPECT_NE(error_of("[1] x").find("byte 4"), std::string::npos) << error_of("[1] x");
  for (const char* text :
       {"[", "{", "\"", "tru", "01", "1.", "[1,]", "{\"a\":1,}", "{1:2}", "'a'", "\"\\x\"",
        "\"\xff\"", "\"\\ud800\"", "\"\n\"", "NaN", "1e999", "[]]", "// c\n1", "\xef\xbb"}) {
    const std::string message = error_of(text);
    EXPECT_NE(message, "") << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Json, NestingIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of(nested(200)), "");
  EXPECT_NE(error_of(nested(201)).find("byte 200"), std::string::npos);
  EXPECT_NE(error_of(nested(4), 3).find("byte 3"), std::string::npos);
  EXPECT_NE(error_of(std::string(10'000'000, '[')), "");
  EXPECT_NE(error_of(nested(2000), UINT32_MAX), "");
  std::string objects;
  for (int i = 0; i < 201; ++i) objects += "{\"a\":";
  EXPECT_NE(error_of(objects), "");
}

TEST(Json, DumpEscapesAndRepairs) {
  EXPECT_EQ(Json("a\"\\\n\t\r\b\f\x01\x7f\u00e9").dump(),
            "\"a\\\"\\\\\\n\\t\\r\\b\\f\\u0001\x7f\u00e9\"");
  EXPECT_EQ(Json("x\xff\xe2\x82").dump(), "\"x\ufffd\ufffd\ufffd\"");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
}

TEST(Json, RealsAreReadBackAsTheSameReals) {
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(-0.0).dump(), "-0.0");
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  for (const double value : {0.1, 1e300, 5e-324, 1e22, 123456789012345680.0, 1.0 / 3, -2.5e-10}) {
    const Json back = Json::parse(Json(value).dump());
    ASSERT_TRUE(back.is_real());
    EXPECT_EQ(back.as_real(), value);
  }
}

TEST(Json, DumpWithIndent) {
  EXPECT_EQ(Json::parse(R"({"a":[1,2],"b":{},"c":[]})").dump(2),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": []\n}");
}

TEST(Json, AccessOfTheWrongTypeIsABadRequest) {
  const Json value = Json::parse(R"({"a":[1]})");
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(Json(1).find("b"), nullptr);
  try {
    value.find("a")->as_string();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    EXPECT_STREQ(error.what(), "JSON: expected string, found array");
  }
  EXPECT_THROW(Json(1.5).as_int(), Error);
  EXPECT_THROW(Json("x").as_bool(), Error);
  EXPECT_THROW(Json("x").as_real(), Error);
  EXPECT_THROW(Json("x").as_object(), Error);
  EXPECT_THROW(Json("x").set("a", 1), Error);
  EXPECT_THROW(Json("x").push(1), Error);
}

TEST(Json, Building) {
  Json value;
  value.set("a", 1);
  value.set("list", Json::array()).push("x");
  value.set("a", nullptr);
  Json list;
  list.push(true);
  value.set("n", list);
  EXPECT_EQ(value.dump(), R"({"a":null,"list":["x"],"n":[true]})");
  EXPECT_EQ(value, Json::parse(value.dump()));
  EXPECT_NE(value, Json());
}

}  // namespace
}  // namespace strata
