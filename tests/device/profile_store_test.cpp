// Calibration and what is kept of it: figures make sense, and no cache is ever an error.
#include "device/profile_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "device/registry.h"
#include "watchdog.h"

namespace strata::device {
namespace {

class ProfileStore : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("strata-profile-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "below" / "calibration.json").string();
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(folder_, ignored);
  }
  void write(const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_, std::ios::binary) << text;
  }
  std::string read() {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
  std::string path_;
};

DeviceInfo some_device() {
  DeviceInfo info;
  info.name = "cpu:0-3";
  info.description = "Processor \"7\"\n";
  info.isa = "avx2";
  info.units = 4;
  return info;
}

Profile some_profile() {
  Profile profile;
  profile.linear[ElementType::q4_k] = {31.25e9, 4.5e11};
  profile.linear[ElementType::f32] = {2.5e10, 2.6e10};
  profile.other_linear = {2.5e10, 2.6e10};
  profile.attention = {9.3e9, 2.6e11};
  profile.seconds_per_op = 1.0 / 7e6;
  profile.element_bytes_per_second = 5.8e10;
  profile.copy_bytes_per_second = 4.2e10;
  profile.copy_seconds = 1.5e-5;
  profile.measured = true;
  return profile;
}

void expect_same(const Profile& a, const Profile& b) {
  ASSERT_EQ(a.linear.size(), b.linear.size());
  const auto same = [](const Rate& x, const Rate& y) {
    EXPECT_EQ(x.bytes_per_second, y.bytes_per_second);
    EXPECT_EQ(x.operations_per_second, y.operations_per_second);
  };
  for (const auto& [type, rate] : a.linear) same(rate, b.linear.at(type));
  same(a.other_linear, b.other_linear);
  same(a.attention, b.attention);
  EXPECT_EQ(a.seconds_per_op, b.seconds_per_op);
  EXPECT_EQ(a.element_bytes_per_second, b.element_bytes_per_second);
  EXPECT_EQ(a.copy_bytes_per_second, b.copy_bytes_per_second);
  EXPECT_EQ(a.copy_seconds, b.copy_seconds);
  EXPECT_EQ(a.measured, b.measured);
}

TEST_F(ProfileStore, WhatIsStoredComesBack) {
  EXPECT_FALSE(load_profile(some_device(), path_));
  ASSERT_TRUE(store_profile(some_device(), some_profile(), path_));
  const auto back = load_profile(some_device(), path_);
  ASSERT_TRUE(back);
  expect_same(*back, some_profile());
}

TEST_F(ProfileStore, EveryPartOfTheKeyCounts) {
  ASSERT_TRUE(store_profile(some_device(), some_profile(), path_));
  DeviceInfo other = some_device();
  other.name = "cpu";
  EXPECT_FALSE(load_profile(other, path_));
  other = some_device();
  other.isa = "avx512vnni";
  EXPECT_FALSE(load_profile(other, path_));
  other = some_device();
  other.units = 2;
  EXPECT_FALSE(load_profile(other, path_));
  other = some_device();
  other.description = "another";
  EXPECT_FALSE(load_profile(other, path_));
  // One more beside it, and one in its place.
  Profile slow = some_profile();
  slow.copy_seconds = 1;
  ASSERT_TRUE(store_profile(other, slow, path_));
  ASSERT_TRUE(store_profile(other, some_profile(), path_));
  expect_same(*load_profile(other, path_), some_profile());
  expect_same(*load_profile(some_device(), path_), some_profile());
  // Memory free now is no part of it.
  DeviceInfo same = some_device();
  same.free_bytes = 5;
  EXPECT_TRUE(load_profile(same, path_));
}

TEST_F(ProfileStore, AFileDoesNotGrowForEver) {
  DeviceInfo info = some_device();
  for (uint32_t i = 1; i <= 100; ++i) {
    info.units = i;
    ASSERT_TRUE(store_profile(info, some_profile(), path_));
  }
  EXPECT_TRUE(load_profile(info, path_));
  info.units = 1;
  EXPECT_FALSE(load_profile(info, path_));
  EXPECT_LT(std::filesystem::file_size(path_), 200000u);
}

TEST_F(ProfileStore, ADamagedFileIsNoneAndIsWrittenAnew) {
  ASSERT_TRUE(store_profile(some_device(), some_profile(), path_));
  const std::string good = read();
  std::vector<std::string> damaged{"",
                                   "{",
                                   "[]",
                                   "null",
                                   "{\"devices\": 3}",
                                   "{\"devices\": [1]}",
                                   "{\"devices\": [{\"key\": 1}]}",
                                   std::string(1000, '\0'),
                                   std::string(100000, '['),
                                   good.substr(0, good.size() / 2)};
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    damaged.push_back(text.replace(at, from.size(), to));
  };
  with("\"q4_k\"", "\"q4_x\"");
  with("\"attention\"", "\"attentoin\"");
  const std::string number = "\"bytes_per_second\": ";
  with(number, number + "-1.0, \"was\": ");
  with(number, number + "0, \"was\": ");
  with(number, number + "\"fast\", \"was\": ");
  with(number, number + "1e300, \"was\": ");
  with(number, number + "null, \"was\": ");
  for (const std::string& text : damaged) {
    write(text);
    EXPECT_FALSE(load_profile(some_device(), path_)) << text.substr(0, 200);
    EXPECT_TRUE(store_profile(some_device(), some_profile(), path_));
    EXPECT_TRUE(load_profile(some_device(), path_));
  }
  // Every byte of a good file, damaged: never more than no profile.
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string text = good;
    text[i] = static_cast<char>(text[i] ^ 0x15);
    write(text);
    EXPECT_NO_THROW(load_profile(some_device(), path_));
  }
  // A folder where the file should be.
  std::filesystem::remove(path_);
  std::filesystem::create_directories(path_ + "/x");
  EXPECT_FALSE(load_profile(some_device(), path_));
  EXPECT_FALSE(store_profile(some_device(), some_profile(), path_));
}

TEST_F(ProfileStore, NeitherWaitsForAPipe) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  std::filesystem::create_directories(folder_ / "below");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(load_profile(some_device(), path_));
  EXPECT_FALSE(store_profile(some_device(), some_profile(), path_));
}

TEST_F(ProfileStore, NowhereToWriteIsNoError) {
  EXPECT_FALSE(store_profile(some_device(), some_profile(), ""));
  EXPECT_FALSE(load_profile(some_device(), ""));
  // A file where the folder should be: no one may write there, whoever he is.
  std::ofstream(folder_ / "below") << "x";
  EXPECT_FALSE(store_profile(some_device(), some_profile(), path_));
  EXPECT_FALSE(load_profile(some_device(), path_));
}

TEST_F(ProfileStore, ADeviceIsMeasuredOnceAndMissingTypesAreAdded) {
  const auto device = open_device({"cpu", 1, 0});
  const ElementType q8[] = {ElementType::q8_0};
  EXPECT_FALSE(profile_of(*device, q8, false, path_).known());
  EXPECT_FALSE(std::filesystem::exists(path_));
  const Profile first = profile_of(*device, q8, true, path_);
  EXPECT_TRUE(first.known());
  EXPECT_TRUE(first.measured);
  EXPECT_EQ(std::filesystem::exists(path_), !first.disturbed);
  store_profile(device->info(), first, path_);
  expect_same(profile_of(*device, q8, true, path_), first);
  expect_same(profile_of(*device, q8, false, path_), first);
  const ElementType both[] = {ElementType::q8_0, ElementType::q4_0};
  const Profile more = profile_of(*device, both, true, path_);
  EXPECT_EQ(more.linear.size(), 2u);
  EXPECT_EQ(more.linear.at(ElementType::q8_0).bytes_per_second,
            first.linear.at(ElementType::q8_0).bytes_per_second);
  store_profile(device->info(), more, path_);
  expect_same(profile_of(*device, both, false, path_), more);
}

TEST_F(ProfileStore, ACalibratedProfileIsSane) {
  const auto device = open_device({"cpu", 1, 0});
  const ElementType types[] = {ElementType::q4_k, ElementType::f16, ElementType::q4_k};
  const Profile profile = calibrate(*device, types);
  EXPECT_TRUE(profile.known());
  EXPECT_TRUE(profile.measured);
  EXPECT_EQ(profile.linear.size(), 2u);
  EXPECT_EQ(device->allocated_bytes(), 0u);
  const auto sane = [](double value, double least, double most) {
    EXPECT_TRUE(std::isfinite(value) && value >= least && value <= most) << value;
  };
  const auto sane_rate = [&](const Rate& rate) {
    sane(rate.bytes_per_second, 1e6, 1e13);
    sane(rate.operations_per_second, 1e6, 1e16);
  };
  for (const auto& [type, rate] : profile.linear) sane_rate(rate);
  sane_rate(profile.other_linear);
  sane_rate(profile.attention);
  sane(profile.seconds_per_op, 0, 1);
  sane(profile.element_bytes_per_second, 1e6, 1e13);
  sane(profile.copy_bytes_per_second, 1e6, 1e14);
  sane(profile.copy_seconds, 0, 1);
}

TEST_F(ProfileStore, LittleMemoryIsEnoughAndTooLittleIsRefused) {
  const ElementType types[] = {ElementType::q8_0};
  const auto small = open_device({"cpu", 1, uint64_t{64} << 20});
  EXPECT_TRUE(calibrate(*small, types).known());
  EXPECT_EQ(small->allocated_bytes(), 0u);
  const auto tiny = open_device({"cpu", 1, uint64_t{1} << 20});
  try {
    calibrate(*tiny, types);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
  }
  EXPECT_EQ(tiny->allocated_bytes(), 0u);
  EXPECT_FALSE(profile_of(*tiny, types, true, path_).known());
}

}  // namespace
}  // namespace strata::device
