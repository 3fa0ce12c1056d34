// Headers made by hand: every metadata type, and every way to be wrong.
#include <array>
#include <cmath>

#include "bytes.h"

namespace strata::gguf {
namespace {

using test::Bytes;
using test::expect_refused;
using test::parse;

// One key of every type and one array of every element type.
Bytes all_types(uint32_t version) {
  Bytes b(0, 24, version);
  b.key("u8", 0).num<uint8_t>(200);
  b.key("i8", 1).num<int8_t>(-100);
  b.key("u16", 2).num<uint16_t>(60000);
  b.key("i16", 3).num<int16_t>(-30000);
  b.key("u32", 4).num<uint32_t>(4000000000);
  b.key("i32", 5).num<int32_t>(-2000000000);
  b.key("f32", 6).num<float>(0.1f);
  b.key("yes", 7).num<uint8_t>(1);
  b.key("string", 8).text("h\xC3\xA9llo");
  b.key("u64", 10).num<uint64_t>(0xFFFFFFFFFFFFFFFFu);
  b.key("i64", 11).num<int64_t>(INT64_MIN);
  b.key("f64", 12).num<double>(0.1);
  b.array("a.u8", 0, 2).num<uint8_t>(1).num<uint8_t>(255);
  b.array("a.i8", 1, 2).num<int8_t>(-1).num<int8_t>(-128);
  b.array("a.u16", 2, 1).num<uint16_t>(65535);
  b.array("a.i16", 3, 1).num<int16_t>(-32768);
  b.array("a.u32", 4, 1).num<uint32_t>(7);
  b.array("a.i32", 5, 1).num<int32_t>(-7);
  b.array("a.f32", 6, 2).num<float>(1.5f).num<float>(-2.5f);
  b.array("a.bool", 7, 3).num<uint8_t>(1).num<uint8_t>(0).num<uint8_t>(1);
  b.array("a.string", 8, 3).text("one").text("").text("three");
  b.array("a.u64", 10, 1).num<uint64_t>(1u);
  b.array("a.i64", 11, 0);
  b.array("a.f64", 12, 1).num<double>(-0.25);
  return b;
}

TEST(Header, EveryMetadataType) {
  for (const uint32_t version : {2u, 3u}) {
    const Header header = parse(all_types(version));
    EXPECT_EQ(header.version, version);
    const Metadata& m = header.metadata;
    ASSERT_EQ(m.entries().size(), 24u);
    EXPECT_EQ(m.entries()[0].key, "u8");
    EXPECT_EQ(m.entries()[23].key, "a.f64");
    EXPECT_EQ(*m.find("u8"), Value(uint8_t{200}));
    EXPECT_EQ(*m.find("i8"), Value(int8_t{-100}));
    EXPECT_EQ(*m.find("u16"), Value(uint16_t{60000}));
    EXPECT_EQ(*m.find("i16"), Value(int16_t{-30000}));
    EXPECT_EQ(*m.find("u32"), Value(uint32_t{4000000000}));
    EXPECT_EQ(*m.find("i32"), Value(int32_t{-2000000000}));
    EXPECT_EQ(*m.find("f32"), Value(0.1f));
    EXPECT_EQ(*m.find("yes"), Value(true));
    EXPECT_EQ(*m.find("string"), Value(std::string("h\xC3\xA9llo")));
    EXPECT_EQ(*m.find("u64"), Value(UINT64_MAX));
    EXPECT_EQ(*m.find("i64"), Value(INT64_MIN));
    EXPECT_EQ(*m.find("f64"), Value(0.1));
    EXPECT_EQ(*m.find("a.u8"), Value(Array(std::vector<uint8_t>{1, 255})));
    EXPECT_EQ(*m.find("a.i8"), Value(Array(std::vector<int8_t>{-1, -128})));
    EXPECT_EQ(*m.find("a.u16"), Value(Array(std::vector<uint16_t>{65535})));
    EXPECT_EQ(*m.find("a.i16"), Value(Array(std::vector<int16_t>{-32768})));
    EXPECT_EQ(*m.find("a.u32"), Value(Array(std::vector<uint32_t>{7})));
    EXPECT_EQ(*m.find("a.i32"), Value(Array(std::vector<int32_t>{-7})));
    EXPECT_EQ(*m.find("a.f32"), Value(Array(std::vector<float>{1.5f, -2.5f})));
    EXPECT_EQ(*m.find("a.bool"), Value(Array(BoolArray{{1, 0, 1}})));
    EXPECT_EQ(*m.find("a.string"), Value(Array(std::vector<std::string>{"one", "", "three"})));
    EXPECT_EQ(*m.find("a.u64"), Value(Array(std::vector<uint64_t>{1})));
    EXPECT_EQ(*m.find("a.i64"), Value(Array(std::vector<int64_t>{})));
    EXPECT_EQ(*m.find("a.f64"), Value(Array(std::vector<double>{-0.25})));
    EXPECT_EQ(type_of(*m.find("a.f64")), ValueType::array);
    EXPECT_EQ(element_type_of(std::get<Array>(*m.find("a.f64"))), ValueType::f64);
    EXPECT_EQ(element_type_of(std::get<Array>(*m.find("a.bool"))), ValueType::boolean);
    EXPECT_EQ(type_of(*m.find("f64")), ValueType::f64);
    EXPECT_EQ(type_of(*m.find("yes")), ValueType::boolean);
  }
}

TEST(Header, FilesThatAreNotGguf) {
  expect_refused(std::string(), 0, "empty; download");
  expect_refused(std::string("Once upon a time"), 0, "not a GGUF file: it begins with \"Once\"");
  expect_refused(std::string("x"), 0, "not a GGUF file");
  expect_refused(std::string("GG"), 0, "cut short");
  expect_refused(std::string("\x01\x02\n\x03"), 0, "\"\\x01\\x02\\x0a\\x03\"");
  expect_refused(std::string("version https://git-lfs.github.com/spec/v1\n"), 0, "git lfs pull");
  expect_refused(std::string("<!DOCTYPE html>"), 0, "web page");
  expect_refused(std::string("PK\x03\x04"), 0, "PyTorch");
  expect_refused(std::string("tjgg\x01"), 0, "predecessors");
  expect_refused(std::string("\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26), 0, "safetensors");
}

TEST(Header, Versions) {
  expect_refused(Bytes(0, 0, 1), 4, "version 1 is obsolete", ErrorCode::unsupported);
  expect_refused(Bytes(0, 0, 0), 4, "version 0", ErrorCode::unsupported);
  expect_refused(Bytes(0, 0, 4), 4, "version 4", ErrorCode::unsupported);
  expect_refused(Bytes(0, 0, 0x03000000), 4, "big-endian (version 3", ErrorCode::unsupported);
  EXPECT_EQ(parse(Bytes(0, 0, 2)).version, 2u);
  EXPECT_EQ(parse(Bytes(0, 0, 3)).version, 3u);
}

TEST(Header, CountsAreBoundedByTheFile) {
  for (const uint64_t count :
       {uint64_t{1}, uint64_t{1} << 32, (uint64_t{1} << 63) - 1, uint64_t{1} << 63, UINT64_MAX}) {
    expect_refused(Bytes(count, 0), 8, "tensors but has only 8 bytes left");
    expect_refused(Bytes(0, count), 16, "metadata keys but has only 0 bytes left");
    // Room for the count only while the metadata are not yet read.
    expect_refused(Bytes(1, 1).key("k", 8).text(std::string(60, 'x')), 8, "1 tensors");
    if (count == 1) continue;
    expect_refused(Bytes(0, 1).num(count).data(30), 24, "a metadata key claims");
    expect_refused(Bytes(0, 1).key("k", 8).num(count).data(30), 37, "metadata key 'k' claims");
    for (uint32_t type = 0; type <= 12; ++type) {
      if (type == 9) continue;
      expect_refused(Bytes(0, 1).array("k", type, count).data(30), 41, "claims an array of");
    }
    expect_refused(Bytes(0, 1).array("k", 8, 2).num(count).data(30), 49, "claims");
    expect_refused(Bytes(1, 0).num(count).data(30), 24, "a tensor's name claims");
  }
  // An array whose elements just do not fit.
  expect_refused(Bytes(0, 1).array("k", 4, 3).data(11), 41, "claims an array of 3");
  EXPECT_EQ(parse(Bytes(0, 1).array("k", 4, 3).data(12)).metadata.find_ints("k")->size(), 3u);
}

TEST(Header, MetadataRules) {
  expect_refused(Bytes(0, 1).text("").num(0u).data(20), 24, "key is empty");
  expect_refused(Bytes(0, 1).key(std::string(65536, 'k'), 0).data(20), 24, "65536 bytes");
  EXPECT_TRUE(parse(Bytes(0, 1).key(std::string(65535, 'k'), 0).data(1))
                  .metadata.has(std::string(65535, 'k')));
  expect_refused(Bytes(0, 2).key("twice", 0).data(1).key("twice", 0).data(1), 42, "appears twice");
  for (const uint32_t type : {13u, 255u, 0x80000000u, 0xFFFFFFFFu}) {
    expect_refused(Bytes(0, 1).key("k", type).data(20), 33, "not known");
    expect_refused(Bytes(0, 1).array("k", type, 1).data(20), 37, "not known");
  }
  expect_refused(Bytes(0, 1).array("k", 9, 1).num(4u).num(uint64_t{1}).num(1u), 37,
                 "array of arrays");
  for (const uint8_t value : {2, 128, 255}) {
    expect_refused(Bytes(0, 1).key("k", 7).num(value), 37, "boolean");
    expect_refused(Bytes(0, 1).array("k", 7, 3).data(2).num(value), 51, "boolean");
  }
  // Names from the file cannot write into the terminal.
  expect_refused(Bytes(0, 1).key("a\x1B[2J\nb", 99).data(20), 39, "'a\\x1b[2J\\x0ab'");
}

TEST(Header, Alignment) {
  const auto with = [](uint32_t value) {
    return Bytes(1, 1)
        .key("general.alignment", 4)
        .num(value)
        .tensor("t", {8}, 0, 0)
        .pad(1 << 12)
        .data(32);
  };
  for (const uint32_t bad : {0u, 3u, 33u, 0xFFFFFFFFu, 0x80000000u, 1u << 25}) {
    expect_refused(with(bad), 53, "general.alignment is " + std::to_string(bad));
  }
  for (const uint32_t good : {1u, 8u, 64u, 4096u}) {
    const Header header = parse(with(good));
    EXPECT_EQ(header.alignment, good);
    EXPECT_EQ(header.data_offset % good, 0u);
    EXPECT_LT(header.data_offset, 101u + good);
  }
  expect_refused(Bytes(0, 1).key("general.alignment", 8).text("32"), 53, "not an integer");
  expect_refused(Bytes(0, 1).key("general.alignment", 5).num(-32), 53, "not an integer");
  EXPECT_EQ(parse(Bytes(0, 1).key("general.alignment", 10).num(uint64_t{64})).alignment, 64u);
  EXPECT_EQ(parse(Bytes(0, 0)).alignment, 32u);
}

// Offset of the first tensor's entry, of its fields by a name of one byte.
constexpr uint64_t k_entry = 24;

TEST(Header, TensorTable) {
  const Header header = parse(Bytes(3, 0)
                                  .tensor("scalar", {}, 0, 0)
                                  .tensor("matrix", {64, 3}, 2, 32)
                                  .tensor("four", {1, 2, 3, 4}, 28, 160)
                                  .pad()
                                  .data(160 + 24 * 8));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].elements, 1u);
  EXPECT_EQ(header.tensors[0].bytes, 4u);
  EXPECT_EQ(header.tensors[0].n_dims, 0u);
  EXPECT_EQ(header.tensors[1].elements, 192u);
  EXPECT_EQ(header.tensors[1].bytes, 108u);  // 6 blocks of 18
  EXPECT_EQ(header.tensors[1].dims, (std::array<uint64_t, 4>{64, 3, 1, 1}));
  EXPECT_EQ(header.tensors[2].elements, 24u);
  EXPECT_EQ(header.tensors[2].bytes, 192u);
  EXPECT_EQ(header.data_offset % 32, 0u);
}

TEST(Header, TensorNames) {
  const auto named = [](const std::string& name) {
    return Bytes(1, 0).tensor(name, {8}, 0, 0).pad().data(32);
  };
  expect_refused(named(""), k_entry, "empty name");
  expect_refused(named(std::string(65, 'n')), k_entry, "65 bytes");
  EXPECT_EQ(parse(named(std::string(64, 'n'))).tensors[0].name.size(), 64u);
  expect_refused(Bytes(3, 0)
                     .tensor("a", {8}, 0, 0)
                     .tensor("b", {8}, 0, 32)
                     .tensor("a", {8}, 0, 64)
                     .pad()
                     .data(96),
                 k_entry + 2 * 33, "tensor 'a' appears twice");
}

TEST(Header, TensorShapes) {
  const auto shaped = [](const std::vector<uint64_t>& dims, uint32_t type = 0) {
    return Bytes(1, 0).tensor("t", dims, type, 0).pad().data(4096);
  };
  expect_refused(shaped({1, 1, 1, 1, 1}), k_entry + 9, "5 dimensions");
  expect_refused(Bytes(1, 0).text("t").num(UINT32_MAX).data(100), k_entry + 9, "dimensions");
  expect_refused(shaped({0}), k_entry, "dimension 0 is 0");
  expect_refused(shaped({4, 0, 2}), k_entry, "dimension 1 is 0");
  for (const uint64_t huge : {uint64_t{1} << 62, (uint64_t{1} << 63) - 1, uint64_t{1} << 63,
                              UINT64_MAX - 31, UINT64_MAX}) {
    expect_refused(shaped({huge}), k_entry, "2^63");
    expect_refused(shaped({huge, huge}), k_entry, "2^63");
    expect_refused(shaped({1, 1, 4, huge}), k_entry, "2^63");
  }
  expect_refused(shaped({uint64_t{1} << 32, uint64_t{1} << 32}), k_entry, "2^63");
  expect_refused(
      shaped({uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16, (uint64_t{1} << 16) + 1}),
      k_entry, "2^63");
  expect_refused(shaped({33}, 2), k_entry, "not a multiple of the 32");
  expect_refused(shaped({128}, 12), k_entry, "not a multiple of the 256");
  expect_refused(shaped({1, 32}, 8), k_entry, "not a multiple of the 32");
  expect_refused(shaped({}, 2), k_entry, "not a multiple of the 32");
}

TEST(Header, ElementTypes) {
  const auto typed = [](uint32_t type) {
    return Bytes(1, 0).tensor("blk.0.x", {256}, type, 0).pad().data(4096);
  };
  struct Known {
    uint32_t id, bytes;  // of 256 elements
  };
  for (const Known& known :
       {Known{0, 1024},  Known{1, 512},   Known{2, 144},  Known{3, 160},  Known{6, 176},
        Known{7, 192},   Known{8, 272},   Known{9, 288},  Known{10, 84},  Known{11, 110},
        Known{12, 144},  Known{13, 176},  Known{14, 210}, Known{15, 292}, Known{16, 66},
        Known{17, 74},   Known{18, 98},   Known{19, 50},  Known{20, 144}, Known{21, 110},
        Known{22, 82},   Known{23, 136},  Known{24, 256}, Known{25, 512}, Known{26, 1024},
        Known{27, 2048}, Known{28, 2048}, Known{29, 56},  Known{30, 512}, Known{34, 54},
        Known{35, 66},   Known{39, 136},  Known{40, 144}, Known{41, 36},  Known{42, 72}}) {
    EXPECT_EQ(parse(typed(known.id)).tensors[0].bytes, known.bytes) << known.id;
  }
  const uint64_t type_at = k_entry + 8 + 7 + 4 + 8;
  for (const uint32_t retired : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    expect_refused(typed(retired), type_at,
                   "tensor 'blk.0.x' has element type " + std::to_string(retired),
                   ErrorCode::unsupported);
    expect_refused(typed(retired), type_at, "retired", ErrorCode::unsupported);
  }
  for (const uint32_t unknown : {43u, 97u, 99u, 144u, 300u, 0x80000000u, 0xFFFFFFFFu}) {
    expect_refused(
        typed(unknown), type_at,
        "tensor 'blk.0.x' has element type " + std::to_string(unknown) + ", which is not known",
        ErrorCode::unsupported);
  }
}

TEST(Header, Placement) {
  const auto two = [](uint64_t first, uint64_t second, size_t data) {
    return Bytes(2, 0).tensor("a", {16}, 0, first).tensor("b", {8}, 0, second).pad().data(data);
  };
  const uint64_t second_entry = k_entry + 33;
  EXPECT_EQ(parse(two(0, 64, 96)).tensors.size(), 2u);
  EXPECT_EQ(parse(two(32, 0, 96)).tensors.size(), 2u);     // another order
  EXPECT_EQ(parse(two(0, 128, 160)).tensors.size(), 2u);   // a gap
  EXPECT_EQ(parse(two(64, 32, 1000)).tensors.size(), 2u);  // bytes before and behind
  expect_refused(two(0, 65, 4096), second_entry, "not a multiple of the alignment");
  expect_refused(two(0, 64, 95), second_entry, "cut short");
  expect_refused(two(0, 32, 4096), second_entry, "overlaps tensor 'a'");
  expect_refused(two(32, 64, 4096), second_entry, "overlaps tensor 'a'");
  expect_refused(two(64, 64, 4096), second_entry, "overlaps tensor 'a'");
  expect_refused(Bytes(2, 0).tensor("a", {8}, 0, 64).tensor("b", {32}, 0, 0).pad().data(4096),
                 k_entry, "overlaps tensor 'b'");
  for (const uint64_t far :
       {uint64_t{4096}, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX - 31, UINT64_MAX - 127}) {
    expect_refused(two(0, far, 4096), second_entry, "tensor 'b' needs 32 bytes");
  }
  // Missing data may be allowed, but wrapping and overlapping never are.
  const ParseOptions header_only{true};
  EXPECT_EQ(parse(two(0, 64, 0), header_only).tensors.size(), 2u);
  EXPECT_EQ(parse(two(0, uint64_t{1} << 62, 5), header_only).tensors.size(), 2u);
  expect_refused(two(0, UINT64_MAX - 31, 0), second_entry, "tensor 'b' needs", ErrorCode::bad_file,
                 header_only);
  expect_refused(two(0, 32, 0), second_entry, "overlaps", ErrorCode::bad_file, header_only);
}

}  // namespace
}  // namespace strata::gguf
