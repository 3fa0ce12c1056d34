#include "strata/model_shape.h"

#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace strata::app {
namespace {

void require(const std::optional<int64_t>& value, const char* flag) {
  if (value) return;
  fail(ErrorCode::usage, "without --shape the dimensions must be given; {} is missing", flag);
}

void override_with(const std::optional<int64_t>& value, uint32_t& field) {
  if (value) field = static_cast<uint32_t>(*value);
}

model::Shape shape_of(const Options& options) {
  model::Shape shape;
  if (options.shape) {
    shape = model::find_shape(*options.shape);
  } else {
    require(options.layers, "--layers");
    require(options.width, "--width");
    require(options.heads, "--heads");
    require(options.ffn, "--ffn");
    shape.family = "llama";
    shape.n_kv_heads = static_cast<uint32_t>(options.kv_heads.value_or(*options.heads));
    shape.n_vocab = 32000;
    shape.n_context = 32768;
  }
  if (options.family) shape.family = *options.family;
  // A head size that followed from width and heads follows from the new ones.
  const bool follows = shape.n_heads == 0 || shape.head_dim * shape.n_heads == shape.n_embd;
  override_with(options.layers, shape.n_layers);
  override_with(options.width, shape.n_embd);
  override_with(options.heads, shape.n_heads);
  override_with(options.kv_heads, shape.n_kv_heads);
  override_with(options.ffn, shape.n_ff);
  override_with(options.experts, shape.n_experts);
  override_with(options.experts_used, shape.n_experts_used);
  override_with(options.vocab_size, shape.n_vocab);
  if (options.head_dim) {
    shape.head_dim = static_cast<uint32_t>(*options.head_dim);
  } else if (follows) {
    if (shape.n_embd % shape.n_heads != 0) {
      fail(ErrorCode::usage, "--width {} is not a multiple of --heads {}; give --head-dim",
           shape.n_embd, shape.n_heads);
    }
    shape.head_dim = shape.n_embd / shape.n_heads;
  }
  if (options.tied) shape.tied_head = *options.tied;
  if (options.experts_used && shape.n_experts == 0) {
    fail(ErrorCode::usage, "--experts-used {} without experts; give --experts",
         *options.experts_used);
  }
  if (shape.n_experts > 0 && shape.n_experts_used == 0) {
    fail(ErrorCode::usage, "--experts {} needs --experts-used", shape.n_experts);
  }
  const bool as_published = options.shape && !options.family && !options.layers && !options.width &&
                            !options.heads && !options.kv_heads && !options.head_dim &&
                            !options.ffn && !options.experts && !options.experts_used;
  if (!options.shape) {
    shape.name = shape.family;
  } else if (!as_published) {
    shape.name += "-changed";
  }
  return shape;
}

// --shape, or dimensions.
bool wants_shape(const Options& options) {
  return options.shape || options.layers || options.width || options.heads || options.ffn;
}

}  // namespace

bool shape_instead_of_file(const Options& options) {
  if (wants_shape(options)) {
    if (!options.model.empty()) {
      fail(
          ErrorCode::usage,
          "-m and a shape (--shape, or --layers, --width, --heads, --ffn) exclude each other; give "
          "one of them");
    }
    return true;
  }
  if (options.model.empty()) fail(ErrorCode::usage, "no model given; use -m FILE or --shape NAME");
  for (const auto& [member, flag] : std::initializer_list<std::pair<const char*, const char*>>{
           {"type", "--type"},
           {"pure", "--pure"},
           {"family", "--family"},
           {"kv_heads", "--kv-heads"},
           {"head_dim", "--head-dim"},
           {"experts", "--experts"},
           {"experts_used", "--experts-used"},
           {"vocab_size", "--vocab-size"},
           {"vocab", "--vocab"},
           {"tied", "--tied"}}) {
    if (options.given.contains(member)) {
      log::warning("{} changes nothing: the file of -m has its own; it is for --shape", flag);
    }
  }
  return false;
}

std::shared_ptr<const model::SyntheticModel> make_synthetic(const Options& options) {
  if (!wants_shape(options)) {
    fail(ErrorCode::usage,
         "no shape given; use --shape NAME, or --layers, --width, --heads, --ffn");
  }
  model::Mixture mixture = model::find_mixture(options.type);
  mixture.pure = options.pure;
  model::Shape shape = shape_of(options);
  std::optional<gguf::File> lender;
  if (options.vocab) {
    lender.emplace(gguf::File::open(*options.vocab));
    const auto* tokens = lender->metadata().find_strings("tokenizer.ggml.tokens");
    if (tokens == nullptr) {
      fail(ErrorCode::bad_file, "'{}' holds no vocabulary", printable(*options.vocab, 400));
    }
    if (!options.vocab_size) shape.n_vocab = static_cast<uint32_t>(tokens->size());
  }
  return std::make_shared<const model::SyntheticModel>(shape, mixture, options.seed.value_or(0),
                                                       lender ? &lender->metadata() : nullptr);
}

}  // namespace strata::app
