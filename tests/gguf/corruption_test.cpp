// Damaged files: cut anywhere, or with any byte changed, they are refused with a good message or
// they load, and never cost more memory than they justify.
#include "allocations.h"
#include "bytes.h"

namespace strata::gguf {
namespace {

using test::Bytes;

// A small file with something of everything.
std::string small_file() {
  Bytes b(3, 7);
  b.key("general.alignment", 4).num<uint32_t>(16);
  b.key("name", 8).text("small");
  b.array("strings", 8, 3).text("one").text("").text("three");
  b.array("scores", 6, 2).num(0.5f).num(-1.0f);
  b.array("flags", 7, 2).num<uint8_t>(1).num<uint8_t>(0);
  b.key("flag", 7).num<uint8_t>(1);
  b.key("wide", 10).num<uint64_t>(1);
  b.tensor("a", {4, 2}, 0, 0);
  b.tensor("b", {32}, 2, 32);
  b.tensor("c", {}, 1, 64);
  return b.pad(16).data(66).out;
}

// The most that a file of this size may cost: a metadata key of 14 bytes becomes an entry, a copy
// of its name and a node of the index; messages take some more.
size_t allowed_total(size_t file) { return 40 * file + 16384; }

// Parses; whatever happens must be clean.
bool loads_cleanly(const std::string& bytes, const ParseOptions& options = {}) {
  test::reset_allocations();
  bool loaded = false;
  std::string message;
  try {
    const Header header = test::parse(bytes, options);
    loaded = true;
    for (const TensorInfo& tensor : header.tensors) {
      if (options.allow_missing_data) continue;
      EXPECT_LE(header.data_offset + tensor.offset + tensor.bytes, bytes.size());
    }
  } catch (const Error& error) {
    message = error.what();
    EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported);
  }
  EXPECT_LE(test::allocations().total, allowed_total(bytes.size())) << message;
  EXPECT_LE(test::allocations().largest, 8 * bytes.size() + 4096) << message;
  if (!loaded) test::expect_good_message(message, "folder/model.gguf");
  return loaded;
}

TEST(Corruption, EveryTruncationIsRefused) {
  const std::string whole = small_file();
  ASSERT_TRUE(loads_cleanly(whole));
  const size_t table_end = whole.size() - 66;
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string cut = whole.substr(0, size);
    EXPECT_FALSE(loads_cleanly(cut));
    // Without data the padding behind the table may be missing too.
    const bool header_whole = size + 15 >= table_end;
    EXPECT_TRUE(loads_cleanly(cut, {true}) <= header_whole);
    if (size >= table_end) {
      EXPECT_TRUE(loads_cleanly(cut, {true}));
    }
  }
}

TEST(Corruption, EveryByteWithEveryValueLoadsOrIsRefused) {
  const std::string whole = small_file();
  size_t loaded = 0;
  size_t refused = 0;
  for (size_t at = 0; at < whole.size() - 66; ++at) {
    std::string damaged = whole;
    for (int value = 0; value < 256; ++value) {
      if (value == static_cast<unsigned char>(whole[at])) continue;
      damaged[at] = static_cast<char>(value);
      (loads_cleanly(damaged) ? loaded : refused)++;
      if (testing::Test::HasFailure()) {
        FAIL() << "byte " << at << " = " << value;
      }
    }
  }
  // Letters of names may change; counts, lengths, types and offsets mostly may not.
  EXPECT_GT(loaded, 5000u);
  EXPECT_GT(refused, 30000u);
}

// Any field of eight bytes set to a number that invites wrapping.
TEST(Corruption, HugeNumbersAnywhere) {
  const std::string whole = small_file();
  const uint64_t hostile[] = {uint64_t{1} << 31, uint64_t{1} << 32,        uint64_t{1} << 33,
                              uint64_t{1} << 60, uint64_t{1} << 61,        (uint64_t{1} << 63) - 1,
                              uint64_t{1} << 63, (uint64_t{1} << 63) + 32, UINT64_MAX - 63,
                              UINT64_MAX - 31,   UINT64_MAX - 7,           UINT64_MAX};
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const uint64_t number : hostile) {
      std::string damaged = whole;
      std::memcpy(damaged.data() + at, &number, sizeof number);
      loads_cleanly(damaged);
      loads_cleanly(damaged, {true});
      ASSERT_FALSE(testing::Test::HasFailure()) << "byte " << at << " = " << number;
    }
  }
}

// The tables that cost most per byte of file.
TEST(Corruption, DenseFilesStayInProportion) {
  constexpr uint64_t k_count = 20000;
  Bytes keys(0, k_count);
  for (uint64_t i = 0; i < k_count; ++i) keys.key(std::to_string(i), 0).num<uint8_t>(1);
  EXPECT_TRUE(loads_cleanly(keys.out));
  Bytes tensors(k_count, 0);
  for (uint64_t i = 0; i < k_count; ++i) tensors.tensor(std::to_string(i), {}, 24, 32 * i);
  tensors.pad().data(32 * k_count);
  EXPECT_TRUE(loads_cleanly(tensors.out));
  Bytes strings(0, 1);
  strings.array("k", 8, k_count).data(8 * k_count, '\0');
  EXPECT_TRUE(loads_cleanly(strings.out));
}

}  // namespace
}  // namespace strata::gguf
