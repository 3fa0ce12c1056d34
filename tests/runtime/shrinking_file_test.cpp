// A model's file that becomes shorter while its weights are loaded.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "runtime/run_model.h"
#include "runtime/small_models.h"
#include "watchdog.h"

namespace strata {
namespace {

struct Case {
  const char* name;
  uint32_t n_devices;
  plan::Split split;
  bool mmap;
};

class ShrinkingFile : public testing::TestWithParam<Case> {};

TEST_P(ShrinkingFile, IsNamed) {
  const test::Watchdog watchdog(std::chrono::seconds(120));
  const Case& given = GetParam();
  test::RunSetup setup;
  setup.n_devices = given.n_devices;
  setup.split = given.split;
  if (given.n_devices > 1 && given.split == plan::Split::layer) {
    setup.shares.assign(given.n_devices, 1.0);
  }
  for (const size_t which : {size_t{0}, size_t{3}}) {
    const test::StoredModel model(test::small_models()[which]);
    std::vector<device::Description> descriptions;
    auto devices = test::open_devices(setup, descriptions);
    plan::Plan plan = plan::make(model.spec, descriptions, test::request_of(setup));
    runtime::LoadOptions options;
    options.mmap = given.mmap;
    bool cut = false;
    options.progress = [&](uint64_t, uint64_t) {
      if (!cut) std::filesystem::resize_file(model.path.path(), 10000);
      cut = true;
    };
    try {
      runtime::Model::load(*model.file, model.spec, std::move(plan), std::move(devices), options);
      ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
      const std::string wanted = "'" + model.path.path() + "' became shorter while it was read";
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
    EXPECT_TRUE(cut);
  }
}

INSTANTIATE_TEST_SUITE_P(, ShrinkingFile,
                         testing::Values(Case{"mapped", 1, plan::Split::layer, true},
                                         Case{"read", 1, plan::Split::layer, false},
                                         Case{"stages", 2, plan::Split::layer, true},
                                         Case{"shards", 2, plan::Split::tensor, true}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace strata
