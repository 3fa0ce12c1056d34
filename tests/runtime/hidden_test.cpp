// Hidden states: what the head makes logits of, wherever and beside whatever they are computed.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/run_model.h"
#include "runtime/small_models.h"

namespace strata {
namespace {

using runtime::Chunk;
using runtime::Gives;
using runtime::Outputs;
using test::random_tokens;
using test::same_bits;

// Of all positions, [tokens][n_embd].
std::vector<float> all_hidden(runtime::Model& model, const std::vector<int32_t>& tokens) {
  std::vector<float> out;
  const auto sequence = model.create_sequence();
  const Chunk chunk{sequence, tokens, Outputs::all, Gives::hidden};
  model.evaluate({&chunk, 1}, [&](size_t, size_t token, std::span<const float> row) {
    EXPECT_EQ(row.size(), model.spec().n_embd);
    EXPECT_EQ(token * row.size(), out.size());
    out.insert(out.end(), row.begin(), row.end());
  });
  model.remove_sequence(sequence);
  return out;
}

// The head's values as the file has them.
std::vector<float> head_of(const test::StoredModel& stored) {
  const gguf::TensorInfo* tensor = stored.file->find_tensor("output.weight");
  if (tensor == nullptr) tensor = stored.file->find_tensor("token_embd.weight");
  const auto bytes = stored.file->data(*tensor);
  std::vector<float> out(size_t{stored.spec.n_vocab} * stored.spec.n_embd);
  dequantize(stored.spec.weights[stored.spec.head].spec.type, bytes.data(), out.data(), out.size());
  return out;
}

std::vector<float> logits_of(const test::StoredModel& stored, const std::vector<float>& hidden) {
  const std::vector<float> head = head_of(stored);
  const size_t width = stored.spec.n_embd, n_vocab = stored.spec.n_vocab;
  std::vector<float> out;
  for (size_t at = 0; at < hidden.size(); at += width) {
    for (size_t v = 0; v < n_vocab; ++v) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += double{head[v * width + i]} * hidden[at + i];
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

TEST(Hidden, the_head_makes_the_logits_of_them) {
  for (const test::SmallModel& small : test::small_models()) {
    const test::StoredModel stored(small);
    const auto tokens = random_tokens(90, stored.spec.n_vocab, 3);
    const auto model = test::load_file(*stored.file);
    const auto hidden = all_hidden(*model, tokens);
    ASSERT_EQ(hidden.size(), tokens.size() * stored.spec.n_embd) << small.name;
    const auto logits = test::all_logits(*model, tokens);
    // The engine's head rounds its input to 8 bits where the weights are blocks of integers: an
    // error of at most half a step of 1/127 of the block's largest, at random.
    const ElementType type = stored.spec.weights[stored.spec.head].spec.type;
    const bool exact = type == ElementType::f32 || type == ElementType::f16;
    EXPECT_LT(test::normalised_error(logits_of(stored, hidden), logits), exact ? 1e-11 : 1e-4)
        << small.name;
  }
}

// Many more rows than fit at once, micro-batches and lanes of all kinds.
TEST(Hidden, do_not_depend_on_micro_batches_or_stages) {
  for (const test::SmallModel& small : test::small_models()) {
    const test::StoredModel stored(small);
    const auto tokens = random_tokens(300, stored.spec.n_vocab, 4);
    const auto reference = all_hidden(*test::load_file(*stored.file), tokens);
    for (const uint32_t n_ubatch : {1u, 33u, 512u}) {
      test::RunSetup setup;
      setup.n_ubatch = n_ubatch;
      setup.threads = 2;
      EXPECT_TRUE(same_bits(all_hidden(*test::load_file(*stored.file, setup), tokens), reference))
          << small.name << " -ub " << n_ubatch;
    }
    for (const uint32_t copies : {1u, 2u, 4u}) {
      test::RunSetup setup;
      setup.n_devices = 2;
      setup.copies = copies;
      setup.n_ubatch = 64;
      EXPECT_TRUE(same_bits(all_hidden(*test::load_file(*stored.file, setup), tokens), reference))
          << small.name << ", copies " << copies;
    }
  }
}

TEST(Hidden, of_shards_agree_with_one_device) {
  for (const test::SmallModel& small : test::small_models()) {
    const test::StoredModel stored(small);
    const auto tokens = random_tokens(100, stored.spec.n_vocab, 5);
    const auto reference = all_hidden(*test::load_file(*stored.file), tokens);
    // Of a part of 5 % of the vocabulary a row is narrower than a hidden state.
    for (const std::vector<double>& shares :
         {std::vector<double>{1, 1}, {95, 5}, {5, 95}, {1, 1, 1}}) {
      test::RunSetup setup;
      setup.split = plan::Split::tensor;
      setup.n_ubatch = 40;
      setup.n_devices = static_cast<uint32_t>(shares.size());
      setup.shares = shares;
      const auto model = test::load_file(*stored.file, setup);
      const auto got = all_hidden(*model, tokens);
      EXPECT_LT(test::normalised_error(got, reference), small.limit) << small.name;
      EXPECT_TRUE(same_bits(got, all_hidden(*model, tokens))) << small.name;
    }
  }
}

// The rows of the logits buffers are shared: whoever asks for what, each gets his own.
TEST(Hidden, beside_logits_in_one_micro_batch) {
  for (const test::SmallModel& small : test::small_models()) {
    const test::StoredModel stored(small);
    const auto a = random_tokens(110, stored.spec.n_vocab, 6);
    const auto b = random_tokens(70, stored.spec.n_vocab, 7);
    const auto alone = test::load_file(*stored.file);
    const auto want_logits = test::all_logits(*alone, a);
    const auto want_hidden = all_hidden(*alone, b);
    for (const uint32_t n_devices : {1u, 2u}) {
      test::RunSetup setup;
      setup.n_devices = n_devices;
      setup.n_ubatch = 96;
      const auto model = test::load_file(*stored.file, setup);
      std::vector<float> got[2];
      const auto first = model->create_sequence(), second = model->create_sequence();
      // Several in flight at once.
      std::vector<runtime::Model::JobId> flying;
      size_t at = 0;
      const auto sink = [&](size_t chunk, size_t, std::span<const float> row) {
        got[chunk].insert(got[chunk].end(), row.begin(), row.end());
      };
      while (at < b.size()) {
        const size_t n = std::min<size_t>(35, b.size() - at);
        const size_t more = at == 0 ? a.size() - 55 : 55;
        const std::vector<Chunk> chunks{
            {first, std::span(a).subspan(at == 0 ? 0 : a.size() - 55, more), Outputs::all},
            {second, std::span(b).subspan(at, n), Outputs::all, Gives::hidden}};
        if (model->free_lanes() == 0) {
          model->finish(flying.front(), sink);
          flying.erase(flying.begin());
        }
        flying.push_back(model->start(chunks));
        at += n;
      }
      for (const auto job : flying) model->finish(job, sink);
      EXPECT_TRUE(same_bits(got[0], want_logits)) << small.name << ", " << n_devices;
      EXPECT_TRUE(same_bits(got[1], want_hidden)) << small.name << ", " << n_devices;
    }
  }
}

// Whoever asked first may have all the rows there are.
TEST(Hidden, behind_logits_that_fill_the_buffer) {
  const test::StoredModel stored(test::small_models().front());
  test::RunSetup setup;
  setup.n_ubatch = 96;
  const auto model = test::load_file(*stored.file, setup);
  const uint32_t all = model->plan().max_outputs;
  ASSERT_LE(all, 64u);
  const auto a = random_tokens(all, stored.spec.n_vocab, 8);
  const auto b = random_tokens(32, stored.spec.n_vocab, 9);
  const auto want_logits = test::all_logits(*model, a);
  const auto want_hidden = all_hidden(*model, b);
  for (int time = 0; time < 2; ++time) {
    const auto first = model->create_sequence(), second = model->create_sequence();
    const std::vector<Chunk> chunks{{second, b, Outputs::all, Gives::hidden},
                                    {first, a, Outputs::all}};
    std::vector<float> got[2];
    model->evaluate(chunks, [&](size_t chunk, size_t, std::span<const float> row) {
      got[chunk].insert(got[chunk].end(), row.begin(), row.end());
    });
    EXPECT_TRUE(same_bits(got[1], want_logits));
    EXPECT_TRUE(same_bits(got[0], want_hidden));
    model->remove_sequence(first);
    model->remove_sequence(second);
  }
}

}  // namespace
}  // namespace strata
