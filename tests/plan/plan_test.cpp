// Plans: the bytes follow from the shapes, and what does not fit is refused with what would.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tiny_model.h"

namespace strata::plan {
namespace {

model::ModelSpec tiny_spec(const test::TinyShape& shape = {}) {
  const test::TemporaryFile file;
  test::tiny_model(shape).write(file.path());
  return model::read_spec(gguf::File::open(file.path()));
}

std::vector<device::Description> described(uint64_t budget, uint32_t n = 1) {
  std::vector<device::Description> devices;
  for (uint32_t i = 0; i < n; ++i) {
    device::Description d;
    d.info.name = "d" + std::to_string(i);
    d.info.kind = "cpu";
    d.info.budget_bytes = budget;
    d.info.free_bytes = budget;
    d.weight_bytes = [](const device::WeightSpec& spec) { return spec.bytes(); };
    d.activation_bytes = [](const device::Program& program, uint32_t tokens, uint32_t outputs) {
      return device::plan_arena(program).bytes(tokens, outputs);
    };
    d.scratch_bytes = [](const device::Program&, uint32_t, uint32_t) { return uint64_t{0}; };
    devices.push_back(std::move(d));
  }
  return devices;
}

TEST(Plan, kv_bytes_are_the_formula) {
  Request request;
  request.n_context = 100;
  request.type_k = ElementType::f16;
  request.type_v = ElementType::f32;
  const Plan plan = make(tiny_spec(), described(1 << 30), request);
  EXPECT_EQ(plan.n_context, 128u);  // whole blocks
  // layers * tokens * kv heads * head size * (2 + 4) bytes
  EXPECT_EQ(plan.bytes().kv, 2u * 128 * 2 * 8 * (2 + 4));
}

TEST(Plan, weights_are_the_sum_of_the_tensors) {
  Request request;
  const Plan plan = make(tiny_spec(), described(1 << 30), request);
  // 2 * vocabulary * width + norms + layers * (q, k, v, o, gate, up, down, norms)
  const uint64_t elements = 2 * 267 * 32 + 32 + 2 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 48 + 64);
  EXPECT_EQ(plan.bytes().weights, elements * 4);
  test::TinyShape tied;
  tied.tied = true;
  EXPECT_EQ(make(tiny_spec(tied), described(1 << 30), request).bytes().weights,
            (elements - 267 * 32) * 4);
}

TEST(Plan, activations_do_not_grow_with_the_context) {
  Request request;
  test::TinyShape shape;
  shape.n_context = 1 << 20;
  request.n_context = 256;
  const Plan small = make(tiny_spec(shape), described(uint64_t{1} << 40), request);
  request.n_context = 131072;
  const Plan large = make(tiny_spec(shape), described(uint64_t{1} << 40), request);
  EXPECT_EQ(small.bytes().total() - small.bytes().kv, large.bytes().total() - large.bytes().kv);
}

TEST(Plan, auto_takes_the_model_context_or_what_fits) {
  Request request;
  request.n_ubatch = 16;
  const model::ModelSpec spec = tiny_spec();
  EXPECT_EQ(make(spec, described(1 << 30), request).n_context, 128u);
  request.n_sequences = 3;
  EXPECT_EQ(make(spec, described(1 << 30), request).n_context, 384u);
  request.n_sequences = 1;
  const Plan all = make(spec, described(1 << 30), request);
  const uint64_t without_kv = all.bytes().total() - all.bytes().kv;
  // Room for exactly two blocks, with the share that auto leaves free.
  const auto budget =
      static_cast<uint64_t>(static_cast<double>(without_kv + all.bytes().kv / 2) / 0.9) + 64;
  EXPECT_EQ(make(spec, described(budget), request).n_context, 64u);
}

// A file may claim any context; what it makes the automatic choice take is bounded.
TEST(Plan, auto_stops_at_a_million_tokens_per_sequence) {
  Request request;
  test::TinyShape shape;
  for (const uint32_t claim : {1u << 20, (1u << 20) + 1, 0xffffffffu}) {
    shape.n_context = claim;
    const model::ModelSpec spec = tiny_spec(shape);
    request.n_sequences = 1;
    EXPECT_EQ(make(spec, described(uint64_t{1} << 40), request).n_context, 1u << 20) << claim;
    request.n_sequences = 3;
    EXPECT_EQ(make(spec, described(uint64_t{1} << 40), request).n_context, 3u << 20) << claim;
  }
  // Who asks for more gets it.
  request.n_context = uint64_t{3} << 20;
  EXPECT_EQ(make(tiny_spec(shape), described(uint64_t{1} << 40), request).n_context, 3u << 20);
}

TEST(Plan, what_does_not_fit_says_what_would) {
  Request request;
  request.n_ubatch = 16;
  request.n_context = 64;
  const model::ModelSpec spec = tiny_spec();
  const uint64_t needed = make(spec, described(1 << 30), request).bytes().total();
  request.n_context = 4096;
  try {
    make(spec, described(needed), request);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find("-c 64"), std::string::npos) << error.what();
  }
  request.n_context = 64;
  EXPECT_NO_THROW(make(spec, described(needed), request));
  EXPECT_THROW(make(spec, described(needed - 1), request), Error);
}

TEST(Plan, senseless_requests_are_usage_errors) {
  const model::ModelSpec spec = tiny_spec();
  const auto refused = [&](auto change) {
    Request request;
    change(request);
    try {
      make(spec, described(1 << 30), request);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::usage;
    }
  };
  EXPECT_TRUE(refused([](Request& r) { r.n_context = 0; }));
  EXPECT_TRUE(refused([](Request& r) { r.n_batch = 0; }));
  EXPECT_TRUE(refused([](Request& r) { r.n_ubatch = 0; }));
  EXPECT_TRUE(refused([](Request& r) { r.n_sequences = 0; }));
  // A head of 8 is no whole number of q8_0 blocks.
  EXPECT_TRUE(refused([](Request& r) { r.type_k = ElementType::q8_0; }));
}

}  // namespace
}  // namespace strata::plan
