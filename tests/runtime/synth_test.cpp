// Synthetic models run: logits are finite and of moderate size for every family and type, and
// neither tokens nor their past are lost on the way through many layers.
#include <gtest/gtest.h>

#include <cmath>

#include "model/synth.h"
#include "runtime/run_model.h"

namespace strata::test {
namespace {

constexpr uint32_t k_vocab = 300;

model::Shape small_shape(const std::string& family, uint32_t n_layers) {
  model::Shape shape;
  shape.name = "small";
  shape.family = family;
  shape.n_layers = n_layers;
  shape.n_embd = 256;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.head_dim = 64;
  shape.n_ff = 256;
  shape.n_vocab = k_vocab;
  shape.n_context = 512;
  if (family == "qwen3moe") {
    shape.n_experts = 8;
    shape.n_experts_used = 2;
  }
  return shape;
}

// Logits of the last position.
std::vector<float> last_logits(runtime::Model& model, const std::vector<int32_t>& tokens) {
  const std::vector<float> all = all_logits(model, tokens);
  return {all.end() - k_vocab, all.end()};
}

double rms(const std::vector<float>& values) {
  double squares = 0;
  for (const float v : values) squares += double{v} * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::unique_ptr<runtime::Model> open(const model::Shape& shape, const model::Mixture& mixture) {
  return load_file(
      model::open_synthetic(std::make_shared<const model::SyntheticModel>(shape, mixture, 3)));
}

void check(const model::Shape& shape, const model::Mixture& mixture) {
  SCOPED_TRACE(shape.family + " " + std::string(mixture.name));
  const auto model = open(shape, mixture);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 24; ++i) tokens.push_back(i * 97 % k_vocab);
  const std::vector<float> all = all_logits(*model, tokens);
  for (const float value : all) ASSERT_TRUE(std::isfinite(value));
  // Two is what they are made for; a few hundred outputs and one seed scatter around it.
  EXPECT_GT(rms(all), 1.3);
  EXPECT_LT(rms(all), 3.0);
  // Another token at the end, and another at the beginning.
  const std::vector<float> base = last_logits(*model, tokens);
  for (const size_t place : {tokens.size() - 1, size_t{0}}) {
    std::vector<int32_t> changed = tokens;
    changed[place] = (changed[place] + 1) % k_vocab;
    const double difference = std::sqrt(normalised_error(last_logits(*model, changed), base));
    EXPECT_GT(difference, place == 0 ? 0.003 : 0.5);
  }
}

TEST(Synthetic, EveryFamilyAndTypeGivesModerateLogits) {
  for (const std::string& family : model::known_families()) {
    for (const model::Mixture& mixture : model::mixtures()) check(small_shape(family, 3), mixture);
    for (const ElementType type : supported_types()) {
      check(small_shape(family, 2), {model::MixtureId::q4_0, info(type).name, type, 0, true});
    }
  }
}

TEST(Synthetic, DepthChangesNothing) {
  for (const std::string& family : model::known_families()) {
    check(small_shape(family, 64), model::find_mixture("q8_0"));
  }
}

TEST(Synthetic, TiedHeads) {
  model::Shape shape = small_shape("qwen3", 8);
  shape.tied_head = true;
  check(shape, model::find_mixture("q4_k_m"));
}

// Mixtral's kind of experts, and a head size that is not width / heads.
TEST(Synthetic, OtherShapes) {
  model::Shape shape = small_shape("llama", 4);
  shape.n_experts = 8;
  shape.n_experts_used = 2;
  check(shape, model::find_mixture("q4_k_m"));
  shape = small_shape("qwen3", 4);
  shape.head_dim = 96;
  shape.n_kv_heads = 4;
  check(shape, model::find_mixture("q5_k_m"));
  shape = small_shape("llama", 4);
  shape.rope_factor = 8;
  shape.rope_base = 500000;
  check(shape, model::find_mixture("q6_k"));
}

}  // namespace
}  // namespace strata::test
