#include "strata/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"

namespace strata::app {
namespace {

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> rates(const BenchResult& result) {
  std::vector<double> out;
  for (const double s : result.seconds) {
    out.push_back(s > 0 ? static_cast<double>(result.tokens()) / s : 0);
  }
  return out;
}

// At the mean speed: `amount` is that of one repetition.
double per_second(const BenchResult& result, double amount) {
  if (result.tokens() == 0) return 0;
  return amount * result.tokens_per_second() / static_cast<double>(result.tokens());
}

std::optional<double> share(double rate, double peak) {
  if (peak <= 0 || rate <= 0) return std::nullopt;
  return rate / peak;
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", *value * 100) : "";
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// A field of a CSV file (RFC 4180).
std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  std::string out = "\"";
  for (const char c : value.as_string()) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const Json& object, bool names) {
  std::string line;
  for (const auto& [key, value] : object.as_object()) {
    if (value.is_array()) continue;
    if (!line.empty()) line += ',';
    line += names ? key : csv_field(value);
  }
  return line + "\n";
}

}  // namespace

std::string BenchResult::test() const { return fmt::format("{}{}", prefill ? "pp" : "tg", count); }

double BenchResult::tokens_per_second() const { return mean_of(rates(*this)); }

double BenchResult::tokens_per_second_deviation() const {
  const std::vector<double> all = rates(*this);
  if (all.size() < 2) return 0;
  const double mean = mean_of(all);
  double squares = 0;
  for (const double rate : all) squares += (rate - mean) * (rate - mean);
  return std::sqrt(squares / static_cast<double>(all.size() - 1));
}

std::optional<double> BenchResult::bandwidth_share() const {
  return share(per_second(*this, bytes), peak_bytes_per_second);
}

std::optional<double> BenchResult::compute_share() const {
  return share(per_second(*this, operations), peak_operations_per_second);
}

std::optional<double> BenchResult::joules_per_token() const {
  const double all = static_cast<double>(tokens()) * static_cast<double>(seconds.size());
  if (!joules || all == 0) return std::nullopt;
  return *joules / all;
}

std::string use_text(const BenchResult& result) {
  std::string out = result.test() + ":";
  const BenchResult::Use* most = nullptr;
  for (const BenchResult::Use& use : result.use) {
    const double share = use.seconds > 0 ? use.busy_seconds / use.seconds : 0;
    const double copying = use.seconds > 0 ? use.copy_seconds / use.seconds : 0;
    out += fmt::format(" {} busy {:.0f} %,", use.device, 100 * share);
    if (copying >= 0.001) {
      out.pop_back();
      out += fmt::format(" and copying {:.1f} %,", 100 * copying);
    }
    if (most == nullptr || use.busy_seconds > most->busy_seconds) most = &use;
  }
  if (most != nullptr) out += fmt::format(" the others wait most for {}", most->device);
  return out;
}

Json to_json(const BenchResult& r) {
  Json samples = Json::array();
  for (const double rate : rates(r)) samples.push(rate);
  Json use = Json::array();
  for (const BenchResult::Use& one : r.use) {
    use.push(Json::object(
        {{"device", one.device},
         {"busy_seconds", one.busy_seconds},
         {"copy_seconds", one.copy_seconds},
         {"wait_seconds", std::max(0.0, one.seconds - one.busy_seconds - one.copy_seconds)},
         {"runs", one.runs}}));
  }
  return Json::object({{"model", r.model},
                       {"type", r.type},
                       {"parameters", r.parameters},
                       {"weight_bytes", r.weight_bytes},
                       {"test", r.test()},
                       {"depth", r.depth},
                       {"sequences", r.sequences},
                       {"threads", r.threads},
                       {"devices", r.devices},
                       {"isa", r.isa},
                       {"cache_type_k", r.cache_type_k},
                       {"cache_type_v", r.cache_type_v},
                       {"n_batch", r.n_batch},
                       {"n_ubatch", r.n_ubatch},
                       {"tps", r.tokens_per_second()},
                       {"tps_stddev", r.tokens_per_second_deviation()},
                       {"seconds", mean_of(r.seconds)},
                       {"bandwidth", per_second(r, r.bytes)},
                       {"bandwidth_peak", r.peak_bytes_per_second},
                       {"bandwidth_share", number_or_null(r.bandwidth_share())},
                       {"compute", per_second(r, r.operations)},
                       {"compute_peak", r.peak_operations_per_second},
                       {"compute_share", number_or_null(r.compute_share())},
                       {"joules_per_token", number_or_null(r.joules_per_token())},
                       {"samples", std::move(samples)},
                       {"device_use", std::move(use)}});
}

std::string md_header() {
  return "| model | type | size | threads | test | depth | seqs | tokens/s | bandwidth | int8 peak "
         "| J/token |\n"
         "|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n";
}

std::string md_row(const BenchResult& r) {
  // A file's name may hold what ends a cell or the row.
  std::string model = printable(r.model, 200);
  for (size_t at = 0; (at = model.find('|', at)) != std::string::npos; at += 2) {
    model.insert(at, 1, '\\');
  }
  const auto joules = r.joules_per_token();
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.2f} ± {:.2f} | {} | {} | {} |\n",
                     model, r.type, format_bytes(r.weight_bytes), r.threads, r.test(), r.depth,
                     r.sequences, r.tokens_per_second(), r.tokens_per_second_deviation(),
                     percent(r.bandwidth_share()), percent(r.compute_share()),
                     joules ? fmt::format("{:.2f}", *joules) : "");
}

std::string csv_header() { return csv_line(to_json({}), /*names=*/true); }
std::string csv_row(const BenchResult& result) {
  return csv_line(to_json(result), /*names=*/false);
}

}  // namespace strata::app
