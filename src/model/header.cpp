#include "model/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/families/builder.h"
#include "model/mixtures.h"

namespace strata::model {
namespace {

// Of general.file_type: the mixture was guessed from the tensors.
constexpr uint64_t k_guessed = 1024;

struct Name {
  std::optional<uint32_t> layer;
  std::string suffix;  // "attn_q.weight"; the whole name where there is no layer
};

Name parse_name(const std::string& name) {
  constexpr std::string_view k_block = "blk.";
  if (!name.starts_with(k_block)) return {std::nullopt, name};
  uint32_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + k_block.size(), end, layer);
  if (error != std::errc{} || at == end || *at != '.') return {std::nullopt, name};
  return {layer, std::string(at + 1, end)};
}

Part part_of(const std::string& suffix) {
  static const std::map<std::string_view, Part> k_parts{
      {"token_embd.weight", Part::embedding},
      {"output.weight", Part::head},
      {"attn_q.weight", Part::q},
      {"attn_qkv.weight", Part::q},
      {"attn_k.weight", Part::k},
      {"attn_v.weight", Part::v},
      {"attn_output.weight", Part::attention_output},
      {"ffn_gate.weight", Part::gate},
      {"ffn_up.weight", Part::up},
      {"ffn_down.weight", Part::down},
      {"ffn_gate_exps.weight", Part::expert_gate},
      {"ffn_up_exps.weight", Part::expert_up},
      {"ffn_down_exps.weight", Part::expert_down},
      {"ffn_gate_inp.weight", Part::router},
  };
  const auto found = k_parts.find(suffix);
  return found == k_parts.end() ? Part::vector : found->second;
}

// The dimensions that decide types.
Shape shape_of(const gguf::Metadata& metadata) {
  Shape shape;
  shape.family = metadata.get_string("general.architecture");
  const auto number = [&](const char* suffix) {
    return metadata.find_uint(shape.family + "." + suffix).value_or(0);
  };
  shape.n_layers = static_cast<uint32_t>(
      std::clamp<uint64_t>(number("block_count"), 1, SpecBuilder::k_max_layers));
  const auto heads = [&](const char* suffix, uint32_t fallback) {
    const auto list = metadata.find_uint_per_layer(shape.family + "." + suffix, shape.n_layers);
    const uint64_t value = list && !list->empty() ? list->front() : fallback;
    return static_cast<uint32_t>(std::clamp<uint64_t>(value, 1, SpecBuilder::k_max_dimension));
  };
  shape.n_heads = heads("attention.head_count", 1);
  shape.n_kv_heads = heads("attention.head_count_kv", shape.n_heads);
  shape.n_experts = static_cast<uint32_t>(std::min<uint64_t>(number("expert_count"), 65536));
  return shape;
}

// Llama 3.1 and 3.2: their rotary angles have divisors, in a tensor of their own (rope_freqs).
bool stretches_waves(const gguf::Metadata& metadata) {
  const std::string family(metadata.get_string("general.architecture"));
  return metadata.find_real(family + ".rope.freq_base").value_or(0) == 5e5 &&
         metadata.find_uint(family + ".context_length").value_or(0) > 8192;
}

class Derivation : public AbsentTensors {
 public:
  // `globals`: optional tensors of no layer that are taken to exist.
  Derivation(const gguf::File& file, std::set<std::string> globals)
      : file_(file), globals_(std::move(globals)), shape_(shape_of(file.metadata())) {
    shape_.tied_head =
        file.find_tensor("output.weight") == nullptr && !globals_.contains("output.weight");
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      const Name name = parse_name(tensor.name);
      if (name.layer) known_[name.suffix][*name.layer] = &tensor;
    }
    choose_mixture();
  }

  bool has(const std::string& name) override {
    const Name parsed = parse_name(name);
    if (!parsed.layer) {
      asked_.insert(name);
      return globals_.contains(name);
    }
    if (known_.contains(parsed.suffix)) return true;
    static const std::set<std::string_view> k_biases{"attn_q.bias", "attn_k.bias", "attn_v.bias"};
    return k_biases.contains(parsed.suffix) && find_traits(shape_.family).qkv_bias;
  }

  const gguf::TensorInfo& make(const std::string& name,
                               const std::vector<uint64_t>& shape) override {
    const auto [at, added] = made_.try_emplace(name);
    if (!added) return at->second;
    gguf::TensorInfo& tensor = at->second;
    tensor.name = name;
    tensor.n_dims = static_cast<uint32_t>(std::min(shape.size(), tensor.dims.size()));
    std::copy_n(shape.begin(), tensor.n_dims, tensor.dims.begin());
    tensor.type = static_cast<uint32_t>(type_of(parse_name(name), shape));
    return tensor;
  }

  uint64_t count() const { return made_.size(); }
  // Optional tensors of no layer that the family asked for in vain.
  const std::set<std::string>& asked() const { return asked_; }
  std::string types_from() const {
    if (mixture_ == nullptr) return "the layers that are there";
    return fmt::format("general.file_type {} ({})", mixture_->file_type, mixture_->name);
  }

 private:
  ElementType predicted(const Mixture& mixture, const Name& name, uint64_t n_in) const {
    return type_in(mixture, shape_, part_of(name.suffix), name.layer.value_or(0), n_in);
  }

  // Of the mixtures with the file's number the one that most tensors agree with; the later in the
  // table where that does not tell (mxfp4_moe, which is what downloads are).
  void choose_mixture() {
    const auto number = file_.metadata().find_uint("general.file_type");
    if (!number) return;
    size_t most = 0;
    for (const Mixture& mixture : mixtures()) {
      if (mixture.file_type != (*number & ~k_guessed)) continue;
      size_t agree = 0;
      for (const gguf::TensorInfo& tensor : file_.tensors()) {
        const auto type =
            static_cast<uint32_t>(predicted(mixture, parse_name(tensor.name), tensor.dims[0]));
        if (tensor.type == type) ++agree;
      }
      if (agree < most) continue;
      most = agree;
      mixture_ = &mixture;
    }
  }

  using Layers = std::map<uint32_t, const gguf::TensorInfo*>;

  bool agrees(const Mixture& mixture, const std::string& suffix, const Layers& layers) const {
    return std::all_of(layers.begin(), layers.end(), [&](const auto& known) {
      const gguf::TensorInfo& tensor = *known.second;
      return tensor.type ==
             static_cast<uint32_t>(predicted(mixture, {known.first, suffix}, tensor.dims[0]));
    });
  }

  // The type that most layers have of it.
  static ElementType usual(const Layers& layers) {
    std::map<uint32_t, size_t> counts;
    for (const auto& [layer, tensor] : layers) ++counts[tensor->type];
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return static_cast<ElementType>(most->first);
  }

  ElementType type_of(const Name& name, const std::vector<uint64_t>& shape) const {
    if (shape.size() == 1) return ElementType::f32;
    const auto known = known_.find(name.suffix);
    const bool here = name.layer && known != known_.end();
    if (mixture_ != nullptr && (!here || agrees(*mixture_, name.suffix, known->second))) {
      return predicted(*mixture_, name, shape[0]);
    }
    if (!here) {
      const auto number = file_.metadata().find_uint("general.file_type");
      fail(ErrorCode::unsupported,
           "'{}': {} files of the set are not there, and nothing tells the element type of tensor "
           "'{}' in them (general.file_type is {}); get the next file of the set too",
           printable(file_.shards()[0].path, 400), file_.missing_files(),
           printable(tensor_name(name)), number ? std::to_string(*number) : "absent");
    }
    const ElementType type = usual(known->second);
    const TypeInfo* type_info = find_type(static_cast<uint32_t>(type));
    // Layers need not be alike.
    const bool whole = type_info == nullptr || shape[0] % type_info->block_elems == 0;
    return whole ? type : ElementType::f16;
  }

  static std::string tensor_name(const Name& name) {
    return name.layer ? block_tensor(*name.layer, name.suffix) : name.suffix;
  }

  const gguf::File& file_;
  std::set<std::string> globals_;
  Shape shape_;
  const Mixture* mixture_ = nullptr;
  std::map<std::string, Layers> known_;  // by suffix, by layer
  std::map<std::string, gguf::TensorInfo> made_;
  std::set<std::string> asked_;
};

}  // namespace

PartialModel read_partial_spec(const gguf::File& file) {
  if (file.missing_tensors() == 0) return {read_spec(file), 0, {}};
  // Which optional tensors there are follows from how many the set has.
  std::set<std::string> globals;
  PartialModel out;
  std::string from;
  for (int pass = 0; pass < 2; ++pass) {
    Derivation absent(file, globals);
    out.spec = read_spec(file, &absent);
    out.derived = absent.count();
    from = absent.types_from();
    if (out.derived >= file.missing_tensors()) break;
    const uint64_t lacking = file.missing_tensors() - out.derived;
    std::vector<std::string> order{"output.weight", "rope_freqs.weight", "output.bias"};
    if (stretches_waves(file.metadata())) std::swap(order[0], order[1]);
    for (const std::string& name : order) {
      if (globals.size() < lacking && absent.asked().contains(name)) globals.insert(name);
    }
    if (globals.empty()) break;
  }
  out.note = fmt::format(
      "{} of the set's {} files {} not here: {} tensors were derived, their shapes from the "
      "metadata, their types from {}",
      file.missing_files(), file.shards().size() + file.missing_files(),
      file.missing_files() == 1 ? "is" : "are", out.derived, from);
  if (out.derived != file.missing_tensors()) {
    out.note +=
        fmt::format("; the set has {}, so the sizes may be a little off", file.missing_tensors());
  }
  return out;
}

PartialModel open_header(const std::string& path) {
  gguf::ParseOptions options;
  options.allow_missing_data = true;
  options.allow_missing_files = true;
  return read_partial_spec(gguf::File::open(path, options));
}

}  // namespace strata::model
