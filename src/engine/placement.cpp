#include "engine/placement.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "device/profile_store.h"
#include "device/registry.h"
#include "plan/rules.h"
#include "tensor/types.h"

namespace strata {
namespace {

// What a card's driver, its context and others on it take of its memory.
constexpr double k_card_margin = 0.04;
constexpr uint64_t k_least_card_margin = uint64_t{256} << 20;

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const size_t at = text.find(separator);
    out.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

std::vector<double> parse_shares(const std::string& text) {
  std::vector<double> out;
  if (text.empty()) return out;
  std::string list = text;
  std::replace(list.begin(), list.end(), '/', ',');
  for (const std::string& word : split_at(list, ',')) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value) ||
        value < 0) {
      fail(ErrorCode::usage,
           "-ts {}: '{}' is not a share; give one number for each device, as 70,30",
           printable(text), printable(word));
    }
    out.push_back(value);
  }
  return out;
}

// Budgets by device name.
std::map<std::string, uint64_t> parse_budgets(const std::vector<std::string>& options) {
  std::map<std::string, uint64_t> out;
  for (const std::string& option : options) {
    const std::string origin = "--memory " + option;
    std::string name;
    // cpu:0,2=1GiB,cpu:1=2GiB: a comma ends an entry only behind its size.
    std::string_view rest = option;
    while (!rest.empty()) {
      const size_t equals = rest.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        fail(ErrorCode::usage, "{}: write DEVICE=SIZE, as in cpu:0=2GiB", printable(origin));
      }
      const size_t comma = rest.find(',', equals);
      out[std::string(rest.substr(0, equals))] = parse_size(
          rest.substr(equals + 1, comma == std::string_view::npos ? std::string_view::npos
                                                                  : comma - equals - 1),
          origin);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  return out;
}

plan::Split parse_split(const PlacementOptions& options) {
  const std::string& word = options.split;
  const uint32_t group = options.tensor_parallel.value_or(1);
  if (word.empty()) return group > 1 ? plan::Split::tensor : plan::Split::layer;
  if (word == "tensor" || word == "row") return plan::Split::tensor;
  if (word != "none" && word != "layer") {
    fail(ErrorCode::usage, "-sm '{}': known are none, layer, tensor and row (which is tensor)",
         printable(word));
  }
  if (group > 1) {
    const size_t n = device::split_device_list(options.devices).size();
    fail(ErrorCode::usage,
         "-tp {} and -sm {} contradict each other: -tp {} gives each of {} devices a part of every "
         "layer (-sm tensor), -sm {}; leave one of the two out. -dev names {} device{}{}",
         group, word, group, group,
         word == "layer" ? "layer gives each device whole layers" : "none gives one device all", n,
         n == 1 ? "" : "s",
         n % group == 0 ? std::string()
                        : fmt::format(", -tp {} needs {} or a multiple of that", group, group));
  }
  return word == "none" ? plan::Split::none : plan::Split::layer;
}

std::string with_digits(double value) {
  std::string text = fmt::format("{:.6f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string gib_text(uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / 1073741824.0);
}

// What the machine does not have cannot be given to its devices.
void check_budgets(const OpenDevices& open, const std::vector<uint32_t>& given) {
  uint64_t sum = 0, most = 0;
  std::vector<std::string> names;
  for (const uint32_t d : given) {
    const device::DeviceInfo& info = open.descriptions[d].info;
    if (info.budget_bytes > info.most_bytes) {
      fail(ErrorCode::usage,
           "--memory {}={}: there are only {}; to plan for another machine, describe its devices, "
           "as in -dev cpu:64GiB:50GB/s",
           info.name, gib_text(info.budget_bytes), gib_text(info.most_bytes));
    }
    if (info.kind != "cpu") continue;
    sum += info.budget_bytes;
    most = info.most_bytes;
    names.push_back(info.name);
  }
  if (names.size() > 1 && sum > most) {
    log::warning(
        "--memory gives {} {} in all, but they share one memory of {}: a plan that takes more is "
        "refused",
        join_names(names), gib_text(sum), gib_text(most));
  }
}

// A word as a POSIX shell takes it; quoted unless it is plain.
std::string shell_word(const std::string& word) {
  constexpr std::string_view k_plain = "-_.:,=%+";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) || k_plain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

uint64_t parse_size(std::string_view text, const std::string& origin) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  double factor = -1;
  for (const auto& [name, size] : {std::pair<std::string_view, double>{"", 1},
                                   {"B", 1},
                                   {"KiB", 0x1p10},
                                   {"MiB", 0x1p20},
                                   {"GiB", 0x1p30},
                                   {"TiB", 0x1p40},
                                   {"K", 0x1p10},
                                   {"M", 0x1p20},
                                   {"G", 0x1p30},
                                   {"T", 0x1p40},
                                   {"KB", 1e3},
                                   {"MB", 1e6},
                                   {"GB", 1e9},
                                   {"TB", 1e12}}) {
    if (unit == name) factor = size;
  }
  if (error != std::errc{} || factor < 0 || !(value > 0) || value * factor > 0x1p60) {
    fail(ErrorCode::usage, "{}: '{}' is not a size; write 2GiB, 512MiB or a number of bytes",
         printable(origin), printable(text));
  }
  return static_cast<uint64_t>(value * factor);
}

ElementType cache_type(const std::string& name, const char* flag) {
  const auto type = parse_type(name);
  for (const auto known : {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::q8_0,
                           ElementType::q4_0}) {
    if (type == known) return known;
  }
  fail(ErrorCode::usage, "{} '{}' is not a cache type; known are f32, f16, bf16, q8_0 and q4_0",
       flag, printable(name));
}

bool OpenDevices::all_here() const {
  return std::all_of(devices.begin(), devices.end(),
                     [](const auto& device) { return device != nullptr; });
}

OpenDevices open_devices(const PlacementOptions& options, uint32_t threads, bool lock_memory) {
  std::map<std::string, uint64_t> budgets = parse_budgets(options.memory);
  const std::vector<std::string> names = device::split_device_list(options.devices);
  OpenDevices out;
  std::map<std::string, uint32_t> described;  // by the word's name: how many so far
  std::map<std::string, uint32_t> total;
  std::vector<std::string> real;
  std::vector<uint32_t> given;  // devices here whose budget is said
  for (const std::string& name : names) {
    if (device::is_described(name)) {
      ++total[name.substr(0, name.find(':'))];
    } else {
      real.push_back(name);
    }
  }
  device::check_disjoint(real);
  for (const std::string& name : names) {
    if (device::is_described(name)) {
      const std::string kind = name.substr(0, name.find(':'));
      // The only one of its name needs no number.
      device::Description d = device::described_device(name, described[kind]++);
      if (total[kind] == 1) d.info.name = kind;
      if (d.info.kind != "cpu") {
        const auto margin =
            static_cast<uint64_t>(k_card_margin * static_cast<double>(d.info.memory_bytes));
        d.info.budget_bytes -= std::min(d.info.budget_bytes, std::max(margin, k_least_card_margin));
      }
      d.info.most_bytes = d.info.budget_bytes;
      if (const auto found = budgets.find(d.info.name); found != budgets.end()) {
        d.info.budget_bytes = found->second;
        budgets.erase(found);
      }
      d.info.free_bytes = std::min(d.info.free_bytes, d.info.budget_bytes);
      out.descriptions.push_back(std::move(d));
      out.devices.push_back(nullptr);
      continue;
    }
    device::DeviceRequest wanted;
    wanted.name = name;
    wanted.threads = threads;
    wanted.lock_memory = lock_memory;
    if (const auto found = budgets.find(name); found != budgets.end()) {
      wanted.budget_bytes = found->second;
      given.push_back(static_cast<uint32_t>(out.devices.size()));
      budgets.erase(found);
    }
    out.devices.push_back(device::open_device(wanted));
    out.descriptions.push_back(device::describe(*out.devices.back()));
  }
  for (size_t i = 0; i < out.descriptions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string& name = out.descriptions[i].info.name;
      if (out.descriptions[j].info.name != name) continue;
      fail(ErrorCode::usage,
           "-dev {}: two devices are called '{}'; call the described one otherwise, as in "
           "host:64GiB",
           printable(options.devices), name);
    }
  }
  check_budgets(out, given);
  if (!budgets.empty()) {
    std::vector<std::string> known;
    for (const device::Description& d : out.descriptions) known.push_back(d.info.name);
    fail(ErrorCode::usage, "--memory: '{}' is not among the devices ({})",
         printable(budgets.begin()->first), join_names(known));
  }
  return out;
}

void know_speeds(OpenDevices& open, const PlacementOptions& options, const model::ModelSpec& spec,
                 bool always) {
  if (open.devices.size() < 2 && !always) return;
  std::set<ElementType> types;
  for (const model::Weight& weight : spec.weights) {
    if (weight.spec.rows() > 1) types.insert(weight.spec.type);
  }
  const std::vector<ElementType> list(types.begin(), types.end());
  for (size_t d = 0; d < open.devices.size(); ++d) {
    if (!open.devices[d]) continue;
    try {
      open.descriptions[d].profile = device::profile_of(*open.devices[d], list, options.measure);
    } catch (const Error& error) {
      // A device too small to be measured can still hold a part of a model.
      if (error.code() != ErrorCode::does_not_fit) throw;
      log::debug("{}: its speed was not measured: {}", open.descriptions[d].info.name,
                 error.what());
    }
  }
}

plan::Request request_of(const PlacementOptions& options) {
  plan::Request request;
  request.split = parse_split(options);
  request.tensor_parallel = options.tensor_parallel.value_or(0);
  request.shares = parse_shares(options.tensor_split);
  request.main_device = options.main_device;
  request.copies = options.pipeline_copies;
  for (const std::string& list : options.override_tensor) {
    // Several rules in one word are separated by commas, as guides have it.
    for (const std::string& word : split_at(list, ',')) {
      const size_t equals = word.rfind('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
        fail(ErrorCode::usage, "-ot '{}': write PATTERN=DEVICE, as in 'ffn_.*_exps=cpu'",
             printable(list));
      }
      request.rules.push_back({word.substr(0, equals), word.substr(equals + 1)});
    }
  }
  request.device_layers = options.gpu_layers;
  if (options.cpu_moe) request.host_expert_layers = UINT32_MAX;
  if (options.n_cpu_moe) request.host_expert_layers = *options.n_cpu_moe;
  if (options.cpu_moe && options.n_cpu_moe) {
    request.warnings.push_back(fmt::format(
        "-cmoe and -ncmoe {} contradict each other: -ncmoe counts, the experts of {} layers are "
        "with the host",
        *options.n_cpu_moe, *options.n_cpu_moe));
  }
  request.kv_on_host = !options.kv_offload;
  return request;
}

std::string flags_of(const plan::Plan& plan, const plan::Request& request,
                     const PlacementOptions& options) {
  std::string out = "-dev " + shell_word(options.devices);
  for (const std::string& memory : options.memory) out += " --memory " + shell_word(memory);
  switch (request.split) {
    case plan::Split::none:
      out += fmt::format(" -sm none -mg {}", request.main_device.value_or(0));
      break;
    case plan::Split::layer:
      out += " -sm layer";
      break;
    case plan::Split::tensor:
      out += " -sm tensor";
      if (request.tensor_parallel > 0) out += fmt::format(" -tp {}", request.tensor_parallel);
      break;
  }
  if (request.split != plan::Split::none && plan.devices.size() > 1) {
    std::string shares;
    for (const double share : plan.shares) {
      shares += (shares.empty() ? "" : ",") + with_digits(share);
    }
    out += " -ts " + shares;
  }
  if (request.device_layers) out += fmt::format(" -ngl {}", *request.device_layers);
  if (plan.host_expert_layers > 0) out += fmt::format(" -ncmoe {}", plan.host_expert_layers);
  for (const std::string& rule : options.override_tensor) out += " -ot " + shell_word(rule);
  if (request.kv_on_host) out += " -nkvo";
  if (plan.pipeline.stages > 1) out += fmt::format(" --pipeline-copies {}", plan.pipeline.copies);
  out += fmt::format(" -c {} -b {} -ub {}", plan.n_context, plan.n_batch, plan.n_ubatch);
  if (request.type_k != ElementType::f16) out += fmt::format(" -ctk {}", info(request.type_k).name);
  if (request.type_v != ElementType::f16) out += fmt::format(" -ctv {}", info(request.type_v).name);
  if (request.n_sequences > 1) out += fmt::format(" -np {}", request.n_sequences);
  return out;
}

}  // namespace strata
