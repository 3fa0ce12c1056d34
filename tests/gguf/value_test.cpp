// Conversions: every getter against every type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "gguf/value.h"

namespace strata::gguf {
namespace {

using std::nullopt;

Metadata with(Value value) {
  Metadata out;
  out.set("k", std::move(value));
  return out;
}

// What a getter gives, or nothing when it says that the value does not convert.
template <class Get>
auto converted(Get get) -> decltype(get()) {
  try {
    return get();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string(error.what()).find("'k'"), std::string::npos) << error.what();
    return {};
  }
}

struct Row {
  const char* name;
  Value value;
  std::optional<uint64_t> as_uint;
  std::optional<int64_t> as_int;
  std::optional<double> as_real;
  std::optional<bool> as_bool;
  std::optional<std::string_view> as_string;
};

TEST(Value, ScalarsConvertWhereNothingIsLost) {
  const uint64_t past_exact = (uint64_t{1} << 53) + 1;
  const Row rows[] = {
      {"u8", uint8_t{200}, 200, 200, 200.0, nullopt, nullopt},
      {"u8 0", uint8_t{0}, 0, 0, 0.0, false, nullopt},
      {"u8 1", uint8_t{1}, 1, 1, 1.0, true, nullopt},
      {"i8", int8_t{-1}, nullopt, -1, -1.0, nullopt, nullopt},
      {"i8 1", int8_t{1}, 1, 1, 1.0, true, nullopt},
      {"u16", uint16_t{65535}, 65535, 65535, 65535.0, nullopt, nullopt},
      {"i16", int16_t{-32768}, nullopt, -32768, -32768.0, nullopt, nullopt},
      {"u32", uint32_t{4294967295}, 4294967295, 4294967295, 4294967295.0, nullopt, nullopt},
      {"i32", int32_t{-5}, nullopt, -5, -5.0, nullopt, nullopt},
      {"i32 1", int32_t{1}, 1, 1, 1.0, true, nullopt},
      {"u64", uint64_t{1} << 63, uint64_t{1} << 63, nullopt, 0x1p63, nullopt, nullopt},
      {"u64 max", UINT64_MAX, UINT64_MAX, nullopt, nullopt, nullopt, nullopt},
      {"u64 odd", past_exact, past_exact, static_cast<int64_t>(past_exact), nullopt, nullopt,
       nullopt},
      {"i64 min", INT64_MIN, nullopt, INT64_MIN, -0x1p63, nullopt, nullopt},
      {"i64 max", INT64_MAX, uint64_t{INT64_MAX}, INT64_MAX, nullopt, nullopt, nullopt},
      {"i64 -odd", -static_cast<int64_t>(past_exact), nullopt, -static_cast<int64_t>(past_exact),
       nullopt, nullopt, nullopt},
      {"f32", 1.0f, nullopt, nullopt, 1.0, nullopt, nullopt},
      {"f32 0.1", 0.1f, nullopt, nullopt, static_cast<double>(0.1f), nullopt, nullopt},
      {"f64", 0.1, nullopt, nullopt, 0.1, nullopt, nullopt},
      {"true", true, 1, 1, nullopt, true, nullopt},
      {"false", false, 0, 0, nullopt, false, nullopt},
      {"string", std::string("1"), nullopt, nullopt, nullopt, nullopt, "1"},
      {"array", Array(std::vector<uint32_t>{1}), nullopt, nullopt, nullopt, nullopt, nullopt},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Metadata m = with(row.value);
    EXPECT_EQ(converted([&] { return m.find_uint("k"); }), row.as_uint);
    EXPECT_EQ(converted([&] { return m.find_int("k"); }), row.as_int);
    EXPECT_EQ(converted([&] { return m.find_real("k"); }), row.as_real);
    EXPECT_EQ(converted([&] { return m.find_bool("k"); }), row.as_bool);
    EXPECT_EQ(converted([&] { return m.find_string("k"); }), row.as_string);
    EXPECT_EQ(to_uint(row.value), row.as_uint);
    if (row.as_uint) {
      EXPECT_EQ(m.get_uint("k"), *row.as_uint);
      EXPECT_EQ(*m.find_uint_per_layer("k", 3), std::vector<uint64_t>(3, *row.as_uint));
    } else {
      EXPECT_THROW(m.get_uint("k"), Error);
      EXPECT_THROW(m.find_uint_per_layer("k", 3), Error);
    }
    if (row.as_real) {
      EXPECT_EQ(m.get_real("k"), *row.as_real);
    } else {
      EXPECT_THROW(m.get_real("k"), Error);
    }
    if (row.as_string) {
      EXPECT_EQ(m.get_string("k"), *row.as_string);
    } else {
      EXPECT_THROW(m.get_string("k"), Error);
    }
    if (!std::holds_alternative<Array>(row.value)) {
      EXPECT_THROW(m.find_strings("k"), Error);
      EXPECT_THROW(m.find_ints("k"), Error);
      EXPECT_THROW(m.find_reals("k"), Error);
    }
  }
}

TEST(Value, AbsentKeys) {
  const Metadata m;
  EXPECT_EQ(m.find("k"), nullptr);
  EXPECT_FALSE(m.has("k"));
  EXPECT_EQ(m.find_uint("k"), nullopt);
  EXPECT_EQ(m.find_int("k"), nullopt);
  EXPECT_EQ(m.find_real("k"), nullopt);
  EXPECT_EQ(m.find_bool("k"), nullopt);
  EXPECT_EQ(m.find_string("k"), nullopt);
  EXPECT_EQ(m.find_strings("k"), nullptr);
  EXPECT_EQ(m.find_ints("k"), nullopt);
  EXPECT_EQ(m.find_reals("k"), nullopt);
  EXPECT_EQ(m.find_uint_per_layer("k", 5), nullopt);
  const auto message = [](auto get) -> std::string {
    try {
      get();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    return "no error";
  };
  for (const std::string& text :
       {message([&] { m.get_uint("k"); }), message([&] { m.get_real("k"); }),
        message([&] { m.get_string("k"); })}) {
    EXPECT_NE(text.find("'k'"), std::string::npos) << text;
    EXPECT_NE(text.find("missing"), std::string::npos) << text;
  }
}

TEST(Value, MessagesNameKeyTypeFoundAndTypeWanted) {
  Metadata m = with(std::string("four"));
  m.set_origin("dir/model.gguf");
  try {
    m.get_uint("k");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("'dir/model.gguf': metadata key 'k'")) << text;
    EXPECT_NE(text.find("string \"four\""), std::string::npos) << text;
    EXPECT_NE(text.find("non-negative integer"), std::string::npos) << text;
  }
}

TEST(Value, ArraysOfIntegers) {
  using Ints = std::vector<int64_t>;
  const auto ints = [](Array array) {
    const Metadata m = with(std::move(array));
    return converted([&] { return m.find_ints("k"); });
  };
  EXPECT_EQ(ints(std::vector<uint8_t>{0, 255}), (Ints{0, 255}));
  EXPECT_EQ(ints(std::vector<int8_t>{-128, 127}), (Ints{-128, 127}));
  EXPECT_EQ(ints(std::vector<uint16_t>{65535}), (Ints{65535}));
  EXPECT_EQ(ints(std::vector<int16_t>{-1}), (Ints{-1}));
  EXPECT_EQ(ints(std::vector<uint32_t>{UINT32_MAX}), (Ints{UINT32_MAX}));
  EXPECT_EQ(ints(std::vector<int32_t>{INT32_MIN}), (Ints{INT32_MIN}));
  EXPECT_EQ(ints(std::vector<int64_t>{INT64_MIN, INT64_MAX}), (Ints{INT64_MIN, INT64_MAX}));
  EXPECT_EQ(ints(std::vector<uint64_t>{uint64_t{INT64_MAX}}), (Ints{INT64_MAX}));
  EXPECT_EQ(ints(BoolArray{{1, 0}}), (Ints{1, 0}));
  EXPECT_EQ(ints(std::vector<uint64_t>{1, uint64_t{1} << 63}), nullopt);
  EXPECT_EQ(ints(std::vector<float>{1}), nullopt);
  EXPECT_EQ(ints(std::vector<double>{1}), nullopt);
  EXPECT_EQ(ints(std::vector<std::string>{"1"}), nullopt);
  EXPECT_EQ(ints(std::vector<std::string>{}), Ints{});
}

TEST(Value, ArraysOfReals) {
  using Reals = std::vector<float>;
  const auto reals = [](Array array) {
    const Metadata m = with(std::move(array));
    return converted([&] { return m.find_reals("k"); });
  };
  EXPECT_EQ(reals(std::vector<float>{0.1f, -2}), (Reals{0.1f, -2}));
  EXPECT_EQ(reals(std::vector<double>{0.5, 1e30f}), (Reals{0.5f, 1e30f}));
  EXPECT_EQ(reals(std::vector<double>{0.1}), nullopt);
  EXPECT_EQ(reals(std::vector<double>{1e300}), nullopt);
  EXPECT_EQ(reals(std::vector<double>{-1e300}), nullopt);
  EXPECT_EQ(reals(std::vector<double>{HUGE_VAL}), (Reals{HUGE_VALF}));
  EXPECT_TRUE(std::isnan(reals(std::vector<double>{NAN}).value().at(0)));
  EXPECT_EQ(reals(std::vector<int32_t>{1 << 24, -3}), (Reals{16777216, -3}));
  EXPECT_EQ(reals(std::vector<int32_t>{(1 << 24) + 1}), nullopt);
  EXPECT_EQ(reals(std::vector<uint64_t>{UINT64_MAX}), nullopt);
  EXPECT_EQ(reals(std::vector<uint64_t>{uint64_t{1} << 63}), (Reals{0x1p63f}));
  EXPECT_EQ(reals(BoolArray{{1}}), nullopt);
  EXPECT_EQ(reals(std::vector<std::string>{"1"}), nullopt);
}

TEST(Value, ArraysOfStrings) {
  const Metadata m = with(Array(std::vector<std::string>{"a", "b"}));
  ASSERT_NE(m.find_strings("k"), nullptr);
  EXPECT_EQ(*m.find_strings("k"), (std::vector<std::string>{"a", "b"}));
  const Metadata empty = with(Array(std::vector<int32_t>{}));
  ASSERT_NE(empty.find_strings("k"), nullptr);
  EXPECT_TRUE(empty.find_strings("k")->empty());
  EXPECT_THROW(with(Array(std::vector<int32_t>{1})).find_strings("k"), Error);
}

TEST(Value, PerLayer) {
  using Uints = std::vector<uint64_t>;
  const Metadata m = with(Array(std::vector<int32_t>{4, 8, 0}));
  EXPECT_EQ(m.find_uint_per_layer("k", 3), (Uints{4, 8, 0}));
  EXPECT_THROW(m.find_uint_per_layer("k", 2), Error);
  EXPECT_THROW(m.find_uint_per_layer("k", 4), Error);
  EXPECT_THROW(with(Array(std::vector<int32_t>{4, -8})).find_uint_per_layer("k", 2), Error);
  EXPECT_THROW(with(Array(std::vector<float>{4, 8})).find_uint_per_layer("k", 2), Error);
  // A hostile layer count allocates nothing.
  EXPECT_THROW(with(uint32_t{4}).find_uint_per_layer("k", uint64_t{1} << 60), Error);
  EXPECT_EQ(with(uint32_t{4}).find_uint_per_layer("k", 0), Uints{});
}

TEST(Value, SetReplacesInPlace) {
  Metadata m;
  m.set("a", uint32_t{1});
  m.set("b", uint32_t{2});
  m.set("a", std::string("new"));
  ASSERT_EQ(m.entries().size(), 2u);
  EXPECT_EQ(m.entries()[0].key, "a");
  EXPECT_EQ(m.get_string("a"), "new");
  const Metadata copy = m;
  EXPECT_EQ(copy.get_uint("b"), 2u);
}

TEST(Value, Display) {
  EXPECT_EQ(to_display(uint8_t{7}), "7");
  EXPECT_EQ(to_display(int8_t{-7}), "-7");
  EXPECT_EQ(to_display(UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(to_display(0.1f), "0.1");
  EXPECT_EQ(to_display(1e-5), "1e-05");
  EXPECT_EQ(to_display(true), "true");
  EXPECT_EQ(to_display(std::string("a\"b\\c\n\x1B\xFF")), "\"a\\\"b\\\\c\\n\\x1b\\xff\"");
  EXPECT_EQ(to_display(std::string("\xC2\x9B")), "\"\\xc2\\x9b\"");
  EXPECT_EQ(to_display(std::string("\xC3\xA9t\xC3\xA9")), "\"\xC3\xA9t\xC3\xA9\"");
  EXPECT_EQ(to_display(std::string(100, 'x'), 5), "\"xxxxx\"...");
  EXPECT_EQ(to_display(std::string("12345"), 5), "\"12345\"");
  EXPECT_EQ(to_display(Array(std::vector<int32_t>{1, 2, 3})), "[1, 2, 3] (3 i32)");
  EXPECT_EQ(to_display(Array(BoolArray{{1, 0}})), "[true, false] (2 bool)");
  EXPECT_EQ(to_display(Array(std::vector<std::string>{"a", "b"})), "[\"a\", \"b\"] (2 string)");
  EXPECT_EQ(to_display(Array(std::vector<float>{})), "[] (0 f32)");
  const std::string many = to_display(Array(std::vector<uint32_t>(100000, 12)), 20);
  EXPECT_TRUE(many.starts_with("[12, 12, 12")) << many;
  EXPECT_TRUE(many.ends_with("...] (100000 u32)")) << many;
  EXPECT_LT(many.size(), 60u);
}

}  // namespace
}  // namespace strata::gguf
