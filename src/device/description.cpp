#include "device/description.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "device/cpu/steps.h"

namespace strata::device {
namespace {

// What of the maker's figures a device reaches, and what he does not say. Rough, for planning
// only; what is here is measured instead.
struct Habits {
  double bandwidth = 0;            // bytes/s, when not said
  double operations_per_byte = 0;  // rate / bandwidth, when the rate is not said
  double seconds_per_op = 0;
};
// Cards of the last years read 400 to 1000 GB/s and have 50 to 120 operations of their matrix
// units per byte; 40 is what plain units give. Desktop processors read 40 to 80 GB/s.
constexpr Habits k_card{400e9, 40, 5e-6};
constexpr Habits k_processor{40e9, 10, 3e-6};
// Shares of bandwidth and rate: weights are read in long runs, but scales have to be applied; the
// cache is read in short runs, and the softmax takes units from the multiplications.
constexpr double k_linear_bandwidth = 0.75;
constexpr double k_linear_rate = 0.5;
constexpr double k_attention_bandwidth = 0.6;
constexpr double k_attention_rate = 0.3;
// PCIe 4 x16 moves 32 GB/s at most; a copy through host memory crosses it twice.
constexpr double k_copy_bytes_per_second = 12e9;
constexpr double k_copy_seconds = 20e-6;

constexpr double k_least_bytes = 1048576.0;               // of memory: a mebibyte
constexpr double k_most_bytes = 1125899906842624.0;       // a pebibyte
constexpr double k_least_rate = 1e6, k_most_rate = 1e18;  // bytes or operations per second
constexpr size_t k_longest_name = 32;
constexpr uint64_t k_alignment = 64, k_padding = 64;
constexpr const char* k_example = "gpu:24GiB:936GB/s:71TFLOPS";

struct Unit {
  std::string_view name;  // lower case
  double factor;
};
constexpr Unit k_sizes[] = {{"k", 1024.0},
                            {"kib", 1024.0},
                            {"m", 1048576.0},
                            {"mib", 1048576.0},
                            {"g", 1073741824.0},
                            {"gib", 1073741824.0},
                            {"t", 1099511627776.0},
                            {"tib", 1099511627776.0},
                            {"kb", 1e3},
                            {"mb", 1e6},
                            {"gb", 1e9},
                            {"tb", 1e12}};
constexpr Unit k_bandwidths[] = {{"mb/s", 1e6},           {"gb/s", 1e9},
                                 {"tb/s", 1e12},          {"mib/s", 1048576.0},
                                 {"gib/s", 1073741824.0}, {"tib/s", 1099511627776.0}};
constexpr Unit k_rates[] = {{"gflops", 1e9}, {"tflops", 1e12}, {"gops", 1e9},
                            {"tops", 1e12},  {"pflops", 1e15}, {"pops", 1e15}};

// In ASCII, whatever the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::vector<std::string_view> split(std::string_view word) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t colon = word.find(':');
    parts.push_back(word.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    word.remove_prefix(colon + 1);
  }
}

size_t number_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && (is_digit(text[n]) || text[n] == '.')) ++n;
  return n;
}

// A decimal number and a unit of the list; nullopt for anything else.
std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  const size_t n = number_length(text);
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + n, number, std::chars_format::fixed);
  if (n == 0 || error != std::errc{} || end != text.data() + n) return std::nullopt;
  std::string unit(text.substr(n));
  std::transform(unit.begin(), unit.end(), unit.begin(), lower);
  for (const Unit& known : units) {
    if (known.name == unit) return number * known.factor;
  }
  return std::nullopt;
}

double need(std::string_view word, std::string_view part, std::span<const Unit> units, double least,
            double most, const char* what, const char* examples) {
  const std::optional<double> value = parse(part, units);
  if (!value) {
    fail(ErrorCode::usage, "device '{}': '{}' is not {}; write it as {}: {}", printable(word),
         printable(part), what, examples, k_example);
  }
  if (!(*value >= least && *value <= most)) {
    fail(ErrorCode::usage, "device '{}': '{}' is out of range for {}; an example: {}",
         printable(word), printable(part), what, k_example);
  }
  return *value;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= k_longest_name && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; });
}

Profile profile_of(bool processor, double bandwidth, double rate) {
  Profile profile;
  profile.other_linear = {k_linear_bandwidth * bandwidth, k_linear_rate * rate};
  profile.attention = {k_attention_bandwidth * bandwidth, k_attention_rate * rate};
  profile.seconds_per_op = (processor ? k_processor : k_card).seconds_per_op;
  profile.element_bytes_per_second = k_linear_bandwidth * bandwidth;
  profile.copy_bytes_per_second = k_copy_bytes_per_second;
  profile.copy_seconds = k_copy_seconds;
  return profile;
}

}  // namespace

Description describe(const Device& device) {
  Description out;
  out.info = device.info();
  out.weight_bytes = [&device](const WeightSpec& spec) { return device.weight_bytes(spec); };
  out.activation_bytes = [&device](const Program& program, uint32_t tokens, uint32_t outputs) {
    return device.activation_bytes(program, tokens, outputs);
  };
  out.scratch_bytes = [&device](const Program& program, uint32_t tokens, uint32_t outputs) {
    return device.scratch_bytes(program, tokens, outputs);
  };
  return out;
}

bool is_described(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos) return false;
  // Cores are numbers without a unit.
  const std::string_view size = word.substr(colon + 1);
  const size_t n = number_length(size);
  return n > 0 && n < size.size() && is_letter(size[n]);
}

Description described_device(std::string_view word, uint32_t index) {
  const std::vector<std::string_view> parts = split(word);
  if (parts.size() < 2 || parts.size() > 4) {
    fail(ErrorCode::usage,
         "device '{}': a described device is NAME:SIZE, NAME:SIZE:BANDWIDTH or "
         "NAME:SIZE:BANDWIDTH:RATE, like {}",
         printable(word), k_example);
  }
  if (!is_name(parts[0])) {
    fail(ErrorCode::usage,
         "device '{}': '{}' is not a name; use up to {} letters and digits, like {}",
         printable(word), printable(parts[0]), k_longest_name, k_example);
  }
  const double size =
      need(word, parts[1], k_sizes, k_least_bytes, k_most_bytes, "a size of memory", "24GiB");
  std::string kind(parts[0]);
  std::transform(kind.begin(), kind.end(), kind.begin(), lower);
  const bool numbered = is_digit(kind.back());
  while (is_digit(kind.back())) kind.pop_back();
  const bool processor = kind == "cpu";
  const Habits& habits = processor ? k_processor : k_card;
  const double bandwidth = parts.size() > 2 ? need(word, parts[2], k_bandwidths, k_least_rate,
                                                   k_most_rate, "a bandwidth", "936GB/s")
                                            : habits.bandwidth;
  const double rate = parts.size() > 3 ? need(word, parts[3], k_rates, k_least_rate, k_most_rate,
                                              "a rate of operations", "71TFLOPS")
                                       : habits.operations_per_byte * bandwidth;

  Description out;
  out.here = false;
  out.info.name = numbered ? std::string(parts[0]) : std::string(parts[0]) + std::to_string(index);
  out.info.kind = kind;
  out.info.description = fmt::format("described: {:.1f} GiB, {:.0f} GB/s, {:.3g} TOPS",
                                     size / 1073741824.0, bandwidth / 1e9, rate / 1e12);
  out.info.memory_bytes = static_cast<uint64_t>(size);
  out.info.free_bytes = out.info.memory_bytes;
  out.info.budget_bytes = out.info.most_bytes = out.info.memory_bytes;
  out.profile = profile_of(processor, bandwidth, rate);
  out.weight_bytes = [](const WeightSpec& spec) {
    return align_up(spec.bytes(), k_alignment) + k_padding;
  };
  // As the CPU device with one thread: any good device fuses as much.
  out.activation_bytes = [](const Program& program, uint32_t tokens, uint32_t outputs) {
    return cpu::compile(program, std::max(tokens, outputs)).arena.bytes(tokens, outputs);
  };
  out.scratch_bytes = [](const Program& program, uint32_t tokens, uint32_t outputs) {
    return cpu::compile(program, std::max(tokens, outputs)).scratch_per_rank;
  };
  return out;
}

}  // namespace strata::device
