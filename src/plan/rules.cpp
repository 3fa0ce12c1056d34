#include "plan/rules.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/pattern.h"
#include "base/suggest.h"

namespace strata::plan {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Weights of a half of a block.
std::vector<model::WeightId> weights_of(const model::BlockSpec& block, bool attention) {
  std::vector<model::WeightId> out;
  const auto add = [&](std::initializer_list<model::WeightId> ids) {
    for (const model::WeightId id : ids) {
      if (id != model::k_none) out.push_back(id);
    }
  };
  if (attention) {
    const model::AttentionSpec& a = block.attention;
    add({block.attention_norm, a.q, a.k, a.v, a.output, a.q_bias, a.k_bias, a.v_bias, a.output_bias,
         a.q_norm, a.k_norm});
  } else if (block.dense) {
    const model::DenseFfn& f = *block.dense;
    add({block.ffn_norm, f.gate, f.up, f.down, f.gate_bias, f.up_bias, f.down_bias});
  } else {
    const model::ExpertFfn& f = *block.experts;
    add({block.ffn_norm, f.router, f.selection_bias, f.gate, f.up, f.down});
  }
  return out;
}

std::string letters_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') out += c;
  }
  return out;
}

// Letters of `words` that are not in `name` in this order; a name may have more.
size_t letters_missing(const std::string& words, const std::string& name) {
  std::vector<size_t> common(name.size() + 1, 0);  // longest common subsequence so far
  for (const char c : words) {
    size_t diagonal = 0;
    for (size_t i = 0; i < name.size(); ++i) {
      const size_t above = common[i + 1];
      common[i + 1] = name[i] == c ? diagonal + 1 : std::max(above, common[i]);
      diagonal = above;
    }
  }
  return words.size() - common.back();
}

// The tensor names that look most like what the pattern was meant to match.
std::string nearest_tensors(const model::ModelSpec& spec, const std::string& pattern) {
  // What is left of the pattern without its operators, numbers apart.
  const std::string words = letters_of(pattern);
  std::map<std::string, std::string> by_word;  // letters of a name -> the name, once each
  for (const model::Weight& weight : spec.weights) {
    by_word.try_emplace(letters_of(weight.tensor), weight.tensor);
  }
  std::vector<std::tuple<size_t, size_t, std::string>> ranked;
  for (const auto& [letters, name] : by_word) {
    ranked.emplace_back(letters_missing(words, letters), edit_distance(letters, words), name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min<size_t>(3, ranked.size()); ++i) {
    nearest.push_back(printable(std::get<2>(ranked[i])));
  }
  return join_names(nearest);
}

class Application {
 public:
  Application(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
              const Request& request)
      : spec_(spec), devices_(devices), request_(request) {
    out_.halves.resize(2 * spec.blocks.size());
  }

  Overrides run() {
    by_layers();
    by_experts();
    by_rules();
    return std::move(out_);
  }

 private:
  uint32_t require_host(const char* flag) const {
    const auto host = host_of(devices_);
    if (!host) {
      fail(ErrorCode::usage, "{}: there is no device of main memory; add cpu to -dev", flag);
    }
    return *host;
  }

  void by_layers() {
    if (!request_.device_layers) return;
    const auto n = static_cast<uint32_t>(spec_.blocks.size());
    if (*request_.device_layers >= n) return;
    const uint32_t host = require_host("-ngl");
    if (devices_.size() == 1) {
      out_.warnings.push_back(fmt::format("-ngl {} changes nothing: {} is the only device",
                                          *request_.device_layers, devices_[0].info.name));
      return;
    }
    if (request_.split == Split::none && request_.main_device.value_or(0) == host) {
      out_.warnings.push_back(
          fmt::format("-ngl {} changes nothing: -sm none gives {} all, and the layers that -ngl "
                      "leaves to main memory are there anyway",
                      *request_.device_layers, devices_[host].info.name));
      return;
    }
    const uint32_t on_host = n - *request_.device_layers;
    for (uint32_t half = 0; half < 2 * on_host; ++half) out_.halves[half] = host;
    out_.first_half = 2 * on_host;
    // Cards without layers need no head either.
    if (on_host == n) out_.head = host;
    out_.notes.push_back(fmt::format("-ngl {}: layers {}{} on {}", *request_.device_layers,
                                     on_host == 1 ? "0" : fmt::format("0-{}", on_host - 1),
                                     on_host == n ? " and the head" : "",
                                     devices_[host].info.name));
  }

  void by_experts() {
    if (!request_.host_expert_layers || *request_.host_expert_layers == 0) return;
    std::vector<uint32_t> layers;
    for (uint32_t i = 0; i < spec_.blocks.size(); ++i) {
      if (spec_.blocks[i].experts) layers.push_back(i);
    }
    if (layers.empty()) {
      out_.warnings.push_back("-cmoe and -ncmoe change nothing: the model has no experts");
      return;
    }
    const uint32_t host = require_host("-ncmoe");
    // Spread over all layers, and so over all devices that have them.
    const uint64_t n = std::min<uint64_t>(*request_.host_expert_layers, layers.size());
    for (uint64_t i = 0; i < layers.size(); ++i) {
      if ((i + 1) * n / layers.size() > i * n / layers.size()) {
        out_.halves[2 * layers[i] + 1] = host;
      }
    }
    out_.notes.push_back(fmt::format("experts of {} of {} layers on {}, spread evenly", n,
                                     layers.size(), devices_[host].info.name));
  }

  void by_rules() {
    struct Compiled {
      Pattern pattern;
      uint32_t device;
      uint64_t matched = 0;
    };
    std::vector<Compiled> rules;
    for (const Rule& rule : request_.rules) {
      const std::string origin = "-ot '" + rule.pattern + "=" + rule.device + "'";
      rules.push_back({Pattern(rule.pattern, origin), device_named(devices_, rule.device, origin)});
    }
    const auto first_match = [&](model::WeightId id) -> Compiled* {
      for (Compiled& rule : rules) {
        if (!rule.pattern.matches(spec_.weights[id].tensor)) continue;
        ++rule.matched;
        return &rule;
      }
      return nullptr;
    };
    uint32_t stayed = 0, followed = 0;
    std::string example_stayed, example_followed;
    for (uint32_t half = 0; half < out_.halves.size(); ++half) {
      std::map<int64_t, uint64_t> bytes;  // device, or -1 for where it would be anyway
      std::map<int64_t, std::pair<uint64_t, std::string>> example;  // the largest tensor
      for (const model::WeightId id : weights_of(spec_.blocks[half / 2], half % 2 == 0)) {
        const Compiled* rule = first_match(id);
        const int64_t to = rule == nullptr ? -1 : int64_t{rule->device};
        const model::Weight& weight = spec_.weights[id];
        // Vectors go along with the matrices that they serve.
        const uint64_t count = weight.spec.rows() > 1 ? weight.spec.bytes() : 1;
        if (count > 1 || rule != nullptr) bytes[to] += count;
        if (weight.spec.rows() > 1) {
          example[to] = std::max(example[to], std::pair(count, weight.tensor));
        }
      }
      int64_t winner = -1;
      uint64_t most = 0;
      for (const auto& [to, count] : bytes) {
        if (count > most) {
          most = count;
          winner = to;
        }
      }
      if (winner >= 0) out_.halves[half] = static_cast<uint32_t>(winner);
      for (const auto& [to, largest] : example) {
        const std::string& name = largest.second;
        if (to == winner) continue;
        if (to >= 0) {
          ++stayed;
          example_stayed = name;
        } else {
          ++followed;
          example_followed = name;
        }
      }
    }
    if (stayed > 0) {
      out_.warnings.push_back(fmt::format(
          "-ot: {} not where {} says: attention, or the feed-forward of a layer, runs on one "
          "device, and the larger part of it goes elsewhere",
          stayed == 1 ? printable(example_stayed) + " is"
                      : fmt::format("{} and parts of {} more halves of layers are",
                                    printable(example_stayed), stayed - 1),
          stayed == 1 ? "its rule" : "their rule"));
    }
    if (followed > 0) {
      out_.notes.push_back(fmt::format(
          "-ot: {} goes along with the larger part of its feed-forward or attention{}",
          printable(example_followed),
          followed == 1
              ? ""
              : fmt::format(", and so do parts of {} more halves of layers", followed - 1)));
    }
    if (Compiled* rule = first_match(spec_.embedding)) {
      out_.embedding = rule->device;
      if (spec_.tied_head) {
        // The head is the same tensor.
        out_.head = rule->device;
        out_.notes.push_back(fmt::format("-ot: the head is {} too, and goes along to {}",
                                         printable(spec_.weights[spec_.head].tensor),
                                         devices_[rule->device].info.name));
      }
    }
    if (!spec_.tied_head) {
      if (Compiled* rule = first_match(spec_.head)) out_.head = rule->device;
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      if (rules[i].matched > 0) continue;
      out_.warnings.push_back(fmt::format(
          "-ot '{}={}' matches no tensor; the nearest are {}", printable(request_.rules[i].pattern),
          printable(request_.rules[i].device), nearest_tensors(spec_, request_.rules[i].pattern)));
    }
  }

  const model::ModelSpec& spec_;
  const std::vector<device::Description>& devices_;
  const Request& request_;
  Overrides out_;
};

}  // namespace

std::optional<uint32_t> host_of(const std::vector<device::Description>& devices) {
  for (size_t i = devices.size(); i-- > 0;) {
    if (devices[i].info.kind == "cpu") return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

uint32_t device_named(const std::vector<device::Description>& devices, const std::string& name,
                      const std::string& origin) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    if (lower(devices[i].info.name) == lower(name)) return i;
    names.push_back(devices[i].info.name);
  }
  // As in guides: "CPU" is where main memory is, whatever its devices are called.
  if (lower(name) == "cpu") {
    if (const auto host = host_of(devices)) return *host;
  }
  fail(ErrorCode::usage, "{}: '{}' is not among the devices ({})", printable(origin),
       printable(name), join_names(names));
}

bool host_is_apart(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
                   const Request& request) {
  if (!request.device_layers || request.split != Split::layer) return false;
  const bool cards = std::any_of(devices.begin(), devices.end(),
                                 [](const auto& d) { return d.info.kind != "cpu"; });
  return devices.size() > 1 && host_of(devices) &&
         (cards || *request.device_layers < spec.blocks.size());
}

Overrides apply_rules(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
                      const Request& request) {
  return Application(spec, devices, request).run();
}

}  // namespace strata::plan
