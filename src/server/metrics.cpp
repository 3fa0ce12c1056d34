#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::server {
namespace {

std::vector<double> seconds_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
}

std::string head(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP strata_{} {}\n# TYPE strata_{} {}\n", name, help, name, type);
}

std::string one(const std::string& name, const char* type, const std::string& help, double value) {
  return head(name, type, help) + fmt::format("strata_{} {}\n", name, value);
}

std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

void Histogram::add(double value) {
  const auto at = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                      bounds_.begin());
  const std::lock_guard lock(mutex_);
  ++counts_[at];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  const std::lock_guard lock(mutex_);
  std::string out = head(name, "histogram", help);
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("strata_{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  return out + fmt::format("strata_{}_sum {}\nstrata_{}_count {}\n", name, sum_, name, count);
}

Metrics::Metrics()
    : first_token(seconds_bounds()),
      between_tokens(seconds_bounds()),
      whole(seconds_bounds()),
      queued(seconds_bounds()) {}

std::string Metrics::text(const SchedulerState& s, const std::vector<MemoryUse>& memory,
                          double up_seconds) const {
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  std::string out;
  out += one("prompt_tokens_total", "counter", "Prompt tokens read.", number(s.prompt_tokens));
  out += one("prompt_cached_tokens_total", "counter", "Prompt tokens found in the cache.",
             number(s.cached_tokens));
  out += one("tokens_predicted_total", "counter", "Tokens generated.", number(s.generated_tokens));
  out += one("prompt_seconds_total", "counter", "Time from admission to the first token.",
             s.prompt_seconds);
  out += one("tokens_predicted_seconds_total", "counter", "Time of generation after that.",
             s.generate_seconds);
  out +=
      one("decode_total", "counter", "Steps: micro-batches handed to the model.", number(s.steps));
  out +=
      one("requests_finished_total", "counter", "Requests that were answered.", number(s.finished));
  out += one("requests_failed_total", "counter", "Requests that failed.", number(s.failed));
  out += one("preemptions_total", "counter", "Times that an answer gave its place up.",
             number(s.preemptions));
  out += one("requests_processing", "gauge", "Sequences that run.", s.running);
  out += one("requests_deferred", "gauge", "Requests that wait.", s.waiting);
  const double used = number(s.kv_blocks - s.kv_free);
  out += one("kv_cache_usage_ratio", "gauge", "Share of the KV cache that sequences hold.",
             s.kv_blocks > 0 ? used / number(s.kv_blocks) : 0);
  out += one("kv_cache_kept_ratio", "gauge", "Share that is kept for prompts that begin alike.",
             s.kv_blocks > 0 ? number(s.kv_kept) / number(s.kv_blocks) : 0);
  out += one("uptime_seconds", "gauge", "Time since the start.", up_seconds);
  out += head("device_memory_bytes", "gauge", "Bytes held on a device, by purpose.");
  for (const MemoryUse& m : memory) {
    for (const auto& [purpose, bytes] :
         {std::pair{"weights", m.weights}, {"kv_cache", m.kv_cache}, {"compute", m.compute}}) {
      out += fmt::format("strata_device_memory_bytes{{device=\"{}\",purpose=\"{}\"}} {}\n",
                         label(m.device), purpose, bytes);
    }
  }
  out += head("device_busy_seconds_total", "counter", "Time in which a device ran programs.");
  for (const DeviceUse& u : s.devices) {
    out += fmt::format("strata_device_busy_seconds_total{{device=\"{}\"}} {}\n", label(u.device),
                       u.busy_seconds);
  }
  out += first_token.text("time_to_first_token_seconds", "From arrival to the first token.");
  out += between_tokens.text("inter_token_latency_seconds", "Between two tokens of an answer.");
  out += whole.text("e2e_request_latency_seconds", "From arrival to the end of an answer.");
  out += queued.text("request_queue_seconds", "From arrival to admission.");
  return out;
}

}  // namespace strata::server
