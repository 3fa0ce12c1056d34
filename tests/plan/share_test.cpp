// Shares beside other words, and what devices of one memory may take together.
#include <gtest/gtest.h>

#include "base/error.h"
#include "described.h"
#include "flags.h"

namespace strata::plan {
namespace {

constexpr uint64_t k_gib = uint64_t{1} << 30;

size_t halves_of(const Plan& plan, size_t d) {
  return plan.devices[d].attention_blocks.size() + plan.devices[d].ffn_blocks.size();
}

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

// Parts of this machine, which has so much memory.
std::vector<device::Description> cores(size_t n, uint64_t memory) {
  std::vector<device::Description> out;
  for (size_t d = 0; d < n; ++d) {
    out.push_back(device::described_device("cpu:64GiB:50GB/s", static_cast<uint32_t>(d)));
    out.back().here = true;
    out.back().info.name = "cpu:" + std::to_string(d);
    out.back().info.memory_bytes = out.back().info.most_bytes = memory;
    out.back().info.budget_bytes = out.back().info.free_bytes = memory;
  }
  return out;
}

TEST(OneMemory, IsSharedByItsDevices) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  for (const Split split : {Split::layer, Split::tensor}) {
    for (size_t n = 1; n <= 3; ++n) {
      SCOPED_TRACE(testing::Message() << n << " devices");
      Request request;
      request.split = split;
      request.n_context = 300000;
      const uint64_t needed = make(spec, cores(n, 64 * k_gib), request).bytes().total();
      // To the byte; the cut does not change what all take together by more than activations.
      EXPECT_NO_THROW(make(spec, cores(n, needed), request));
      try {
        make(spec, cores(n, needed / 2), request);
        FAIL();
      } catch (const Refusal& refusal) {
        ASSERT_EQ(refusal.shortfalls().size(), n);
        ASSERT_TRUE(refusal.memory().has_value());
        EXPECT_EQ(refusal.memory()->budget, needed / 2);
        EXPECT_GT(refusal.memory()->needed, needed / 2);
        if (n > 1) {
          EXPECT_NE(std::string(refusal.what()).find("in this machine's memory"), std::string::npos)
              << refusal.what();
        }
        ASSERT_FALSE(refusal.suggestions().empty());
        for (const std::string& flags : refusal.suggestions()) {
          Request changed = request;
          test::apply_flags(flags, changed);
          EXPECT_LE(make(spec, cores(n, needed / 2), changed).bytes().total(), needed / 2) << flags;
        }
      }
    }
  }
}

TEST(OneMemory, AnAutomaticContextTakesItOnce) {
  const model::ModelSpec spec = test::spec_of("llama-3-8b", "q4_k_m");
  Request request;
  request.n_sequences = 64;
  for (size_t n = 1; n <= 3; ++n) {
    const auto total =
        static_cast<double>(make(spec, cores(n, 16 * k_gib), request).bytes().total());
    EXPECT_LE(total, 0.9 * 16 * k_gib);
    EXPECT_GE(total, 0.89 * 16 * k_gib);
  }
}

// One device that has room for all keeps it, where two would keep more activations.
TEST(OneMemory, FewerDevicesWhereThatFits) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  Request request;
  request.n_context = 8192;
  const uint64_t one = make(spec, cores(1, 64 * k_gib), request).bytes().total();
  const Plan plan = make(spec, cores(2, one), request);
  EXPECT_LE(plan.bytes().total(), one);
}

// The layers that -ngl leaves to the cards are divided by -ts, the others are the host's.
TEST(Shares, DivideWhatTheHostDoesNotHave) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  const auto devices = test::described({"gpu:24GiB", "gpu:24GiB", "cpu:64GiB"});
  Request request;
  request.n_context = 8192;
  request.device_layers = 40;
  for (const auto& [shares, first] :
       {std::pair{std::vector<double>{1, 1, 0}, 40u}, {{1, 1}, 40u}, {{3, 1, 0}, 60u}}) {
    request.shares = shares;
    const Plan plan = make(spec, devices, request);
    EXPECT_EQ(halves_of(plan, 0), first);
    EXPECT_EQ(halves_of(plan, 1), 80 - first);
    EXPECT_EQ(halves_of(plan, 2), 80u);
    EXPECT_EQ(plan.devices[2].attention_blocks.front(), 0u);
    EXPECT_EQ(plan.devices[0].attention_blocks.front(), 40u);
    // The plan's own shares give it again.
    request.shares = plan.shares;
    EXPECT_EQ(halves_of(make(spec, devices, request), 0), first);
  }
  // A host among processors is the last of them.
  auto two = cores(2, 64 * k_gib);
  request.device_layers = 30;
  request.shares = {1, 1};
  const Plan plan = make(spec, two, request);
  EXPECT_EQ(halves_of(plan, 0), 60u);
  EXPECT_EQ(halves_of(plan, 1), 100u);
  EXPECT_TRUE(mentions(plan.warnings, "-ngl 30"));
}

TEST(Shares, OneForEachCardIsEnough) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  const auto devices = test::described({"gpu:24GiB", "gpu:24GiB", "cpu:64GiB"});
  Request request;
  request.n_context = 4096;
  request.shares = {3, 1};
  const Plan plan = make(spec, devices, request);
  EXPECT_EQ(halves_of(plan, 0), 3 * halves_of(plan, 1));
  EXPECT_EQ(halves_of(plan, 2), 0u);
  request.shares = {1, 1, 1, 1};
  EXPECT_THROW(make(spec, devices, request), Error);
  request.shares = {1};
  EXPECT_THROW(make(spec, devices, request), Error);
}

TEST(Shares, OfAnySizeAreShares) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  const auto devices = test::described({"gpu:24GiB", "gpu:24GiB"});
  for (const Split split : {Split::layer, Split::tensor}) {
    for (const double share : {1e308, 1e-308, 1.0}) {
      Request request;
      request.n_context = 4096;
      request.split = split;
      request.shares = {share, share};
      const Plan plan = make(spec, devices, request);
      EXPECT_EQ(halves_of(plan, 0), halves_of(plan, 1)) << share;
      EXPECT_EQ(plan.devices[0].bytes.kv, plan.devices[1].bytes.kv) << share;
    }
  }
}

// The largest that fits, by trying all.
TEST(Suggestions, NameTheLayersThatFit) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  const auto devices = test::described(
      {"gpu:12GiB:360GB/s:35TFLOPS", "gpu:12GiB:360GB/s:35TFLOPS", "cpu:64GiB:50GB/s"});
  Request request;
  request.n_context = 8192;
  for (const auto& shares : {std::vector<double>{}, {1, 1}}) {
    request.shares = shares;
    uint32_t most = 0;
    for (uint32_t n = 30; n < 80; ++n) {
      request.device_layers = n;
      try {
        make(spec, devices, request);
        most = n;
      } catch (const Refusal&) {
      }
    }
    ASSERT_GT(most, 30u);
    request.device_layers = 99;
    try {
      make(spec, devices, request);
      FAIL();
    } catch (const Refusal& refusal) {
      ASSERT_FALSE(refusal.suggestions().empty()) << refusal.what();
      std::istringstream in(refusal.suggestions()[0]);
      std::string flag;
      uint32_t n = 0;
      in >> flag >> n;
      EXPECT_EQ(flag, "-ngl");
      // An estimate finds it, which may be a layer off.
      EXPECT_LE(n, most);
      EXPECT_GE(n + 1, most);
      if (shares.empty()) {
        EXPECT_EQ(refusal.suggestions()[1], "-ngl auto");
      }
    }
  }
}

TEST(Reasons, AreTheTrueOnes) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  const auto devices = test::described({"gpu:24GiB:900GB/s", "gpu:24GiB:900GB/s", "cpu:64GiB"});
  const auto notes = [&](auto change) {
    Request request;
    request.n_context = 4096;
    change(request);
    return make(spec, devices, request).notes;
  };
  EXPECT_TRUE(mentions(notes([](Request& r) {
                         r.split = Split::none;
                         r.main_device = 1;
                       }),
                       "gpu0 has no work: -sm none gives gpu1 all"));
  EXPECT_TRUE(mentions(notes([](Request& r) {
                         r.shares = {0, 1, 0};
                       }),
                       "gpu0 has no work: -ts gives it no share"));
  EXPECT_TRUE(
      mentions(notes([](Request& r) { r.device_layers = 0; }), "gpu0 has no work: -ngl 0 leaves"));
  EXPECT_TRUE(mentions(notes([](Request& r) {
                         r.rules = {{".*", "gpu1"}};
                       }),
                       "gpu0 has no work: rules put"));
}

TEST(Contradictions, AreSaid) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  const auto devices = test::described({"gpu:24GiB", "gpu:24GiB", "cpu:64GiB"});
  const auto warnings = [&](auto change) {
    Request request;
    request.n_context = 4096;
    change(request);
    return make(spec, devices, request).warnings;
  };
  EXPECT_TRUE(mentions(warnings([](Request& r) {
                         r.split = Split::none;
                         r.shares = {1, 1, 0};
                       }),
                       "-ts counts for nothing beside -sm none"));
  EXPECT_TRUE(
      mentions(warnings([](Request& r) { r.main_device = 1; }), "-mg 1 counts only with -sm none"));
  EXPECT_TRUE(mentions(warnings([](Request& r) {
                         r.split = Split::none;
                         r.main_device = 2;
                         r.device_layers = 2;
                       }),
                       "-ngl 2 changes nothing: -sm none gives cpu all"));
  EXPECT_TRUE(warnings([](Request&) {}).empty());
  // One card, and the host for the rest.
  Request request;
  request.n_context = 4096;
  request.split = Split::none;
  request.main_device = 1;
  request.device_layers = 2;
  const Plan plan = make(spec, devices, request);
  EXPECT_EQ(halves_of(plan, 0), 0u);
  EXPECT_EQ(halves_of(plan, 1), 4u);
  EXPECT_EQ(halves_of(plan, 2), 2 * spec.blocks.size() - 4);
}

// Of many stages no more copies than a prompt gains from; who asks for more gets them.
TEST(Copies, AreAsManyAsAPromptGainsFrom) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-405b", "q4_k_m");
  for (const size_t n : {2u, 3u, 8u, 64u}) {
    const auto devices = test::described(std::vector<std::string>(n, "gpu:128GiB:900GB/s"));
    Request request;
    request.n_context = 8192;
    request.shares.assign(n, 1);
    const Plan chosen = make(spec, devices, request);
    request.copies = static_cast<uint32_t>(std::min<size_t>(n + 1, 64));
    const Plan all = make(spec, devices, request);
    EXPECT_EQ(all.pipeline.copies, *request.copies);
    EXPECT_GE(1.06 * chosen.predicted.prefill_tokens_per_second,
              all.predicted.prefill_tokens_per_second);
    if (n <= 3) {
      EXPECT_EQ(chosen.pipeline.copies, n + 1);
    }
    // A prompt of 2048 tokens is 16 micro-batches of the least size that is fast.
    EXPECT_LE(chosen.pipeline.copies, 16u);
    EXPECT_EQ(chosen.pipeline.fewer, chosen.pipeline.copies < n + 1);
    for (const DevicePlan& device : chosen.devices) {
      EXPECT_EQ(device.bytes.boundary, device.slots * chosen.pipeline.copies * 512 * 16384u * 4);
    }
  }
}

// A refusal tries many requests; it must not take long for the largest model. What takes the time
// is looking at programs: a plan of 126 layers on four devices looks at a few hundred.
TEST(Refusals, CostLittle) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-405b", "q4_k_m");
  auto devices = test::described({"gpu:24GiB:936GB/s:35TFLOPS", "gpu:8GiB:936GB/s:20TFLOPS",
                                  "gpu:24GiB:936GB/s:35TFLOPS", "cpu:32GiB:50GB/s"});
  size_t looked = 0;
  for (device::Description& d : devices) {
    d.activation_bytes = [&looked, inner = d.activation_bytes](const device::Program& program,
                                                               uint32_t tokens, uint32_t outputs) {
      ++looked;
      return inner(program, tokens, outputs);
    };
  }
  for (const int64_t layers : {-1, 0, 5, 99}) {
    for (const bool context : {false, true}) {
      Request request;
      if (layers >= 0) request.device_layers = static_cast<uint32_t>(layers);
      if (context) request.n_context = 65536;
      looked = 0;
      EXPECT_THROW(make(spec, devices, request), Refusal);
      EXPECT_LT(looked, 3000u) << layers;
    }
  }
}

}  // namespace
}  // namespace strata::plan
