// -nkvo: the cache counts where it lies.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/synth.h"
#include "plan/described.h"
#include "plan/plan.h"

namespace strata::plan {
namespace {

TEST(KvOffload, TheHostHasTheCacheAndTheCardOnlyWeights) {
  const model::ModelSpec spec =
      model::read_spec(model::open_synthetic(std::make_shared<const model::SyntheticModel>(
          model::find_shape("llama-1b"), model::find_mixture("q4_k_m"), 0)));
  const std::vector<device::Description> devices{
      device::described_device("gpu:1GiB:500GB/s:40TFLOPS", 0),
      device::described_device("cpu:64GiB:50GB/s", 0)};
  Request request;
  request.n_context = 1 << 18;  // 5.5 GiB of cache
  request.shares = {1, 0};
  EXPECT_THROW(make(spec, devices, request), Refusal);
  request.kv_on_host = true;
  const Plan plan = make(spec, devices, request);
  EXPECT_EQ(plan.devices[0].bytes.kv, 0u);
  EXPECT_GT(plan.devices[1].bytes.kv, uint64_t{5} << 30);
  // Also when the cut is chosen, and the context.
  request.shares.clear();
  request.n_context.reset();
  EXPECT_EQ(make(spec, devices, request).n_context, 2048u);
}

}  // namespace
}  // namespace strata::plan
