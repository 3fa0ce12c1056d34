// Reading a description: what is missing, misshapen or hostile is named, never a crash.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/lower.h"
#include "model/spec.h"
#include "support.h"
#include "tiny_model.h"

namespace strata::model {
namespace {

using test::TinyModel;

ModelSpec read(const TinyModel& model) {
  const test::TemporaryFile file;
  model.write(file.path());
  return read_spec(gguf::File::open(file.path()));
}

// The error's text when reading fails; fails the test when it does not.
std::string reason(const TinyModel& model, ErrorCode code = ErrorCode::bad_file) {
  try {
    read(model);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was read";
  return {};
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Spec, reads_the_tiny_model) {
  const ModelSpec spec = read(test::tiny_model());
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.n_vocab, 267u);
  EXPECT_EQ(spec.blocks.size(), 2u);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_TRUE(spec.unused_tensors.empty());
  EXPECT_EQ(spec.blocks[1].attention.n_kv_heads, 2u);
}

TEST(Spec, the_head_is_tied_by_absence) {
  test::TinyShape shape;
  shape.tied = true;
  const ModelSpec spec = read(test::tiny_model(shape));
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.head, spec.embedding);
}

TEST(Spec, every_missing_tensor_is_named) {
  const TinyModel whole = test::tiny_model();
  for (const auto& tensor : whole.tensors) {
    if (tensor.name == "output.weight") continue;
    TinyModel model = whole;
    model.remove(tensor.name);
    EXPECT_HAS(reason(model), "'" + tensor.name + "'");
  }
}

TEST(Spec, a_misshapen_tensor_is_named_with_both_shapes) {
  TinyModel model = test::tiny_model();
  auto* tensor = model.find("blk.1.ffn_up.weight");
  tensor->dims = {48, 32};
  const std::string text = reason(model);
  EXPECT_HAS(text, "blk.1.ffn_up.weight");
  EXPECT_HAS(text, "[48, 32]");
  EXPECT_HAS(text, "[32, 48]");
}

TEST(Spec, surplus_tensors_are_noted) {
  TinyModel model = test::tiny_model();
  model.tensors.push_back({"blk.0.strange.weight", {4}, {1, 2, 3, 4}});
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.unused_tensors, std::vector<std::string>{"blk.0.strange.weight"});
}

TEST(Spec, an_unknown_family_lists_the_known) {
  TinyModel model = test::tiny_model();
  model.metadata.set("general.architecture", std::string("mamba"));
  const std::string text = reason(model, ErrorCode::unsupported);
  EXPECT_HAS(text, "mamba");
  for (const std::string& family : known_families()) EXPECT_HAS(text, family);
}

TEST(Spec, a_family_is_never_guessed) {
  TinyModel model = test::tiny_model();
  model.metadata = {};
  EXPECT_HAS(reason(model), "general.architecture");
}

// Every key of the architecture with 0, 1, a negative number, the largest and of every type: it is
// read or refused with the key's name, and whatever is read can be lowered.
TEST(Spec, hostile_metadata_never_crash) {
  const TinyModel whole = test::tiny_model();
  const std::vector<gguf::Value> values = {uint8_t{0},
                                           uint32_t{0},
                                           uint32_t{1},
                                           uint32_t{UINT32_MAX},
                                           int32_t{-1},
                                           int64_t{-1},
                                           uint64_t{7},
                                           UINT64_MAX,
                                           0.0f,
                                           -1.0f,
                                           1e30f,
                                           std::nanf(""),
                                           1e-300,
                                           true,
                                           std::string("x"),
                                           gguf::Array(std::vector<uint32_t>{}),
                                           gguf::Array(std::vector<uint32_t>{4, 4}),
                                           gguf::Array(std::vector<int32_t>{4, 0}),
                                           gguf::Array(std::vector<float>{1, 2}),
                                           gguf::Array(std::vector<std::string>{"a", "b"})};
  size_t refused = 0;
  std::vector<std::string> keys;
  for (const auto& entry : whole.metadata.entries()) {
    if (entry.key.starts_with("llama.")) keys.push_back(entry.key);
  }
  for (const char* extra :
       {"llama.rope.freq_base", "llama.rope.scaling.factor", "llama.rope.scaling.type",
        "llama.expert_count", "llama.expert_used_count", "llama.vocab_size",
        "llama.rope.scaling.original_context_length"}) {
    keys.emplace_back(extra);
  }
  for (const std::string& key : keys) {
    for (const gguf::Value& value : values) {
      TinyModel model = whole;
      model.metadata.set(key, value);
      try {
        const ModelSpec spec = read(model);
        LowerOptions options;
        options.embeds = true;
        options.end_half = static_cast<uint32_t>(2 * spec.blocks.size());
        device::plan_arena(lower_stage(spec, options).program);
        device::plan_arena(lower_head(spec).program);
        for (const RopeSpec& rope : spec.ropes) inverse_frequencies(rope);
      } catch (const Error& error) {
        ++refused;
        EXPECT_NE(error.code(), ErrorCode::internal) << key << ": " << error.what();
      }
    }
  }
  EXPECT_GT(refused, keys.size() * 5);
}

TEST(Spec, integer_widths_do_not_matter) {
  for (const gguf::Value& heads :
       {gguf::Value(uint64_t{4}), gguf::Value(int32_t{4}), gguf::Value(uint8_t{4}),
        gguf::Value(gguf::Array(std::vector<int32_t>{4, 4}))}) {
    TinyModel model = test::tiny_model();
    model.metadata.set("llama.attention.head_count", heads);
    EXPECT_EQ(read(model).blocks[0].attention.n_heads, 4u);
  }
}

TEST(Spec, fused_qkv_is_cut_into_rows) {
  TinyModel model = test::tiny_model();
  for (const char* block : {"blk.0.", "blk.1."}) {
    std::vector<float> fused;
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
      const std::string name = std::string(block) + part + ".weight";
      const auto& values = model.find(name)->values;
      fused.insert(fused.end(), values.begin(), values.end());
      model.remove(name);
    }
    model.tensors.push_back({std::string(block) + "attn_qkv.weight", {32, 64}, fused});
  }
  const ModelSpec spec = read(model);
  const AttentionSpec& a = spec.blocks[0].attention;
  EXPECT_EQ(spec.weights[a.q].row_begin, 0u);
  EXPECT_EQ(spec.weights[a.k].row_begin, 32u);
  EXPECT_EQ(spec.weights[a.v].row_begin, 48u);
  EXPECT_EQ(spec.weights[a.v].spec.dims[1], 16u);
}

TEST(Spec, every_golden_model_is_read_and_lowered) {
  STRATA_NEED_SHARED();
  for (const char* name :
       {"llama-gqa", "llama-tied", "llama-linear-rope", "mixtral", "qwen2", "qwen3", "qwen3moe"}) {
    const auto file =
        gguf::File::open(test::shared_path("models/mini/" + std::string(name) + ".gguf"));
    const ModelSpec spec = read_spec(file);
    EXPECT_TRUE(spec.unused_tensors.empty()) << name << ": " << spec.unused_tensors[0];
    LowerOptions options;
    options.embeds = true;
    options.end_half = static_cast<uint32_t>(2 * spec.blocks.size());
    EXPECT_GT(device::plan_arena(lower_stage(spec, options).program).bytes_per_token, 0u);
  }
}

// A stage that begins later reads the boundary that an earlier one wrote.
TEST(Lower, stages_share_no_weights_and_all_blocks) {
  const ModelSpec spec = read(test::tiny_model());
  LowerOptions options;
  options.embeds = true;
  options.end_half = 2;
  const Lowered first = lower_stage(spec, options);
  options.embeds = false;
  options.first_half = 2;
  options.end_half = 4;
  const Lowered second = lower_stage(spec, options);
  EXPECT_EQ(first.program.n_external, 1u);
  EXPECT_EQ(second.program.n_external, 2u);
  for (const WeightPart& part : first.weights) {
    EXPECT_EQ(std::count(second.weights.begin(), second.weights.end(), part), 0) << part.id;
  }
  EXPECT_EQ(second.kv_blocks, std::vector<uint32_t>{1});
  options.end_half = 5;
  EXPECT_THROW(lower_stage(spec, options), Error);
}

}  // namespace
}  // namespace strata::model
