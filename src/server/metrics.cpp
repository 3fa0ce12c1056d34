#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::server {
namespace {

constexpr double k_window_seconds = 60;
// Looks that are closer together than this tell nothing new.
constexpr double k_look_seconds = 1;

std::vector<double> seconds_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
}

std::string head(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP strata_{} {}\n# TYPE strata_{} {}\n", name, help, name, type);
}

std::string label(const char* name, const std::string& value) {
  std::string out = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

void Histogram::add(double value) {
  const auto at = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                      bounds_.begin());
  const std::lock_guard lock(mutex_);
  ++counts_[at];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& help,
                            const std::string& labels) const {
  const std::lock_guard lock(mutex_);
  std::string out = head(name, "histogram", help);
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("strata_{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  out += fmt::format("strata_{}_sum{{{}}} {}\n", name, labels, sum_);
  return out + fmt::format("strata_{}_count{{{}}} {}\n", name, labels, count);
}

std::vector<double> BusyShare::share(double at, const std::vector<double>& busy_seconds) {
  const std::lock_guard lock(mutex_);
  if (looks_.empty()) looks_.push_back({0, std::vector<double>(busy_seconds.size(), 0)});
  // The first look is the latest that is a whole window away, or the earliest there is.
  while (looks_.size() > 1 && looks_[1].at <= at - k_window_seconds) looks_.pop_front();
  const Look& then = looks_.front();
  std::vector<double> out(busy_seconds.size(), 0);
  for (size_t i = 0; i < out.size() && i < then.busy.size() && at > then.at; ++i) {
    out[i] = std::clamp((busy_seconds[i] - then.busy[i]) / (at - then.at), 0.0, 1.0);
  }
  if (at >= looks_.back().at + k_look_seconds) looks_.push_back({at, busy_seconds});
  return out;
}

Metrics::Metrics()
    : first_token(seconds_bounds()),
      between_tokens(seconds_bounds()),
      whole(seconds_bounds()),
      queued(seconds_bounds()) {}

std::string Metrics::text(const std::string& model, const SchedulerState& s,
                          const std::vector<MemoryUse>& memory, double up_seconds) {
  const std::string labels = label("model_name", model);
  std::string out;
  const auto one = [&](const char* name, const char* type, const char* help, auto value) {
    out += head(name, type, help) + fmt::format("strata_{}{{{}}} {}\n", name, labels, value);
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    one(name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    one(name, "gauge", help, value);
  };
  const auto ratio = [](auto part, auto whole_of_it) {
    return whole_of_it > 0 ? static_cast<double>(part) / static_cast<double>(whole_of_it) : 0.0;
  };
  counter("prompt_tokens_total", "Prompt tokens read.", s.prompt_tokens);
  counter("prompt_cached_tokens_total", "Prompt tokens found in the cache.", s.cached_tokens);
  counter("prompt_seconds_total", "Time from admission to the first token.", s.prompt_seconds);
  counter("tokens_predicted_total", "Tokens generated.", s.generated_tokens);
  counter("tokens_predicted_seconds_total", "Time of generation after the first token.",
          s.generate_seconds);
  counter("n_decode_total", "Steps: micro-batches handed to the model.", s.steps);
  counter("requests_finished_total", "Requests that came to an end, those of clients who left too.",
          s.finished);
  counter("requests_failed_total", "Requests that failed.", s.failed);
  counter("preemptions_total", "Times that an answer gave its place up.", s.preemptions);
  gauge("prompt_tokens_seconds", "Prompt tokens per second, on the average of all requests.",
        ratio(s.prompt_tokens, s.prompt_seconds));
  gauge("predicted_tokens_seconds", "Tokens generated per second of a request, on the average.",
        ratio(s.generated_tokens, s.generate_seconds));
  gauge("requests_processing", "Sequences that run.", s.running);
  gauge("requests_deferred", "Requests that wait.", s.waiting);
  gauge("kv_cache_usage_ratio", "Share of the KV cache that sequences hold.",
        ratio(s.kv_blocks - s.kv_free, s.kv_blocks));
  gauge("kv_cache_kept_ratio", "Share that is kept for prompts that begin alike.",
        ratio(s.kv_kept, s.kv_blocks));
  gauge("prefix_cache_hit_ratio", "Share of all prompt tokens that was found in the cache.",
        ratio(s.cached_tokens, s.cached_tokens + s.prompt_tokens));
  gauge("uptime_seconds", "Time since the start.", up_seconds);

  out += head("device_memory_bytes", "gauge", "Bytes held on a device, by purpose.");
  for (const MemoryUse& m : memory) {
    for (const auto& [purpose, bytes] :
         {std::pair{"weights", m.weights}, {"kv_cache", m.kv_cache}, {"compute", m.compute}}) {
      out += fmt::format("strata_device_memory_bytes{{{},{},{}}} {}\n", labels,
                         label("device", m.device), label("purpose", purpose), bytes);
    }
  }
  std::vector<double> busy;
  for (const DeviceUse& u : s.devices) busy.push_back(u.busy_seconds);
  const std::vector<double> shares = busy_.share(up_seconds, busy);
  out += head("device_busy_seconds_total", "counter", "Time in which a device ran programs.");
  for (const DeviceUse& u : s.devices) {
    out += fmt::format("strata_device_busy_seconds_total{{{},{}}} {}\n", labels,
                       label("device", u.device), u.busy_seconds);
  }
  out += head("device_busy_ratio", "gauge", "Share of the last minute in which it did.");
  for (size_t i = 0; i < shares.size(); ++i) {
    out += fmt::format("strata_device_busy_ratio{{{},{}}} {}\n", labels,
                       label("device", s.devices[i].device), shares[i]);
  }

  out +=
      first_token.text("time_to_first_token_seconds", "From arrival to the first token.", labels);
  out += between_tokens.text("inter_token_latency_seconds", "Between two tokens of an answer.",
                             labels);
  out += whole.text("e2e_request_latency_seconds", "From arrival to the end of an answer.", labels);
  out += queued.text("request_queue_time_seconds", "From arrival to admission.", labels);
  return out;
}

}  // namespace strata::server
