// strata bench: prefill and decode of a file or of a shape, next to what the machine can do.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "device/energy.h"
#include "device/registry.h"
#include "engine/placement.h"
#include "plan/cost.h"
#include "runtime/model.h"
#include "strata/bench_report.h"
#include "strata/model_shape.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/verb.h"
#include "tensor/random_blocks.h"

namespace strata::app {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::SequenceId;

constexpr uint64_t k_shown_bytes = uint64_t{64} << 20;
constexpr uint64_t k_warm_up_tokens = 64;
constexpr uint64_t k_warm_up_steps = 2;

// "512,4096": whole numbers in the order given, each once.
std::vector<uint64_t> parse_list(const char* flag, std::string_view text, uint64_t min,
                                 uint64_t max) {
  std::vector<uint64_t> out;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < min || value > max) {
      fail(ErrorCode::usage, "{} {}: '{}' is not a whole number from {} to {}; give a list as 1,2",
           flag, printable(text), printable(word), min, max);
    }
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

struct Tests {
  std::vector<uint64_t> prompts, steps, depths, sequences;
  std::vector<uint32_t> threads;
  uint64_t most_sequences = 1;

  explicit Tests(const Options& options) {
    constexpr uint64_t k_most = uint64_t{1} << 24;
    prompts = parse_list("-p", options.n_prompt, 0, k_most);
    steps = parse_list("-n", options.n_gen, 0, k_most);
    depths = parse_list("-d", options.n_depth, 0, k_most);
    sequences = parse_list("-npl", options.n_parallel, 1, 4096);
    std::erase(prompts, 0);
    std::erase(steps, 0);
    if (prompts.empty() && steps.empty()) {
      fail(ErrorCode::usage, "-p 0 and -n 0 leave nothing to measure");
    }
    // The cache only grows: the shallow tests come first.
    std::sort(depths.begin(), depths.end());
    if (!steps.empty()) most_sequences = *std::max_element(sequences.begin(), sequences.end());
    if (options.bench_threads == "auto" || options.bench_threads == "-1") {
      threads = {0};  // all that each device has
    } else {
      for (const uint64_t n : parse_list("-t", options.bench_threads, 1, 4096)) {
        threads.push_back(static_cast<uint32_t>(n));
      }
    }
  }

  // Of each device; 0: all that it has.
  uint32_t most_threads() const { return *std::max_element(threads.begin(), threads.end()); }

  // Tokens of cache for the deepest tests: every sequence has a past of its own, and a block of
  // its own that is begun after it.
  uint64_t context(uint32_t block_tokens) const {
    const auto blocks = [&](uint64_t tokens) {
      return (tokens + block_tokens - 1) / block_tokens + 1;
    };
    const auto most = [](const std::vector<uint64_t>& list) {
      return list.empty() ? 0 : *std::max_element(list.begin(), list.end());
    };
    const uint64_t past = blocks(depths.back()) * most_sequences;
    const uint64_t work = std::max(blocks(most(prompts)),
                                   blocks(std::max(most(steps), k_warm_up_steps)) * most_sequences);
    return (past + work) * block_tokens;
  }
};

class Bench {
 public:
  Bench(const Options& options, const Tests& tests) : options_(options), tests_(tests) {}

  void run() {
    load();
    meter_ = device::EnergyMeter::open();
    measure_peaks();
    if (options_.table_format == "md") print(md_header());
    if (options_.table_format == "csv") print(csv_header());
    flush_output();
    for (const uint64_t depth : tests_.depths) {
      reach_depth(depth);
      for (const uint32_t n : runs_) run_at(depth, n);
    }
    if (options_.table_format == "json") print(list_.dump(2) + "\n");
    flush_output();
    if (options_.audit_memory) check_audit(audit(), options_.table_format != "json");
    if (trace_) trace_->write(*options_.trace);
  }

 private:
  void load();
  void measure_peaks();
  std::vector<MemoryAudit> audit() const;
  void add_use(BenchResult& result) const;
  void reach_depth(uint64_t depth);
  void run_at(uint64_t depth, uint32_t threads);
  void report(BenchResult result);
  BenchResult blank(uint64_t depth, uint32_t threads) const;

  std::vector<int32_t> random_tokens(uint64_t n);
  void prefill(SequenceId sequence, uint64_t n, uint32_t threads);
  void decode(const std::vector<SequenceId>& sequences, uint64_t steps, uint32_t threads);

  // `work` once per repetition, timed, on forks of the first `n_sequences` pasts.
  template <class Work>
  void measure(BenchResult& result, uint64_t n_sequences, const Work& work);

  const Options& options_;
  const Tests& tests_;
  std::unique_ptr<runtime::Model> model_;
  std::string name_, type_;
  uint64_t weight_bytes_ = 0;
  ElementType type_k_ = ElementType::f16, type_v_ = ElementType::f16;
  RandomBits random_{1};
  std::vector<SequenceId> pasts_;  // as many tokens each as the depth
  std::map<uint32_t, device::Peaks> peaks_;
  std::map<uint32_t, uint32_t> threads_;  // in all
  std::vector<uint32_t> runs_;            // numbers of threads that are measured
  std::optional<device::EnergyMeter> meter_;
  std::optional<runtime::Trace> trace_;
  Json list_ = Json::array();
};

// The name of a file's mixture, or the type that most of its bytes have.
std::string type_of(const gguf::File& file) {
  if (const auto id = file.metadata().find_uint("general.file_type")) {
    for (const model::Mixture& mixture : model::mixtures()) {
      if (mixture.file_type == *id && mixture.id != model::MixtureId::mxfp4) {
        return std::string(mixture.name);
      }
    }
  }
  std::map<uint32_t, uint64_t> bytes;
  for (const gguf::TensorInfo& tensor : file.tensors()) bytes[tensor.type] += tensor.bytes;
  uint32_t most = 0;
  for (const auto& [type, count] : bytes) {
    if (count > bytes[most]) most = type;
  }
  const TypeInfo* info = find_type(most);
  return info != nullptr ? std::string(info->name) : "";
}

void Bench::load() {
  const uint32_t threads = tests_.most_threads();
  std::optional<gguf::File> file;
  if (shape_instead_of_file(options_)) {
    const auto synthetic = make_synthetic(options_);
    file.emplace(model::open_synthetic(synthetic, threads));
    name_ = synthetic->shape().name;
  } else {
    file.emplace(gguf::File::open(options_.model));
    name_ = std::filesystem::path(options_.model).stem().string();
  }
  type_ = type_of(*file);
  for (const gguf::TensorInfo& tensor : file->tensors()) weight_bytes_ += tensor.bytes;
  model::ModelSpec spec = model::read_spec(*file);

  const PlacementOptions placement = placement_of(options_);
  plan::Request request = request_of(placement);
  request.n_sequences = static_cast<uint32_t>(tests_.most_sequences);
  request.n_batch = static_cast<uint32_t>(options_.batch_size);
  request.n_ubatch = static_cast<uint32_t>(options_.ubatch_size);
  request.type_k = type_k_ = cache_type(options_.cache_type_k, "-ctk");
  request.type_v = type_v_ = cache_type(options_.cache_type_v, "-ctv");
  OpenDevices open = open_devices(placement, threads, options_.mlock);
  if (!open.all_here()) {
    fail(ErrorCode::usage, "-dev {}: a device that is only described cannot be measured",
         printable(options_.device));
  }
  know_speeds(open, placement, spec, /*always=*/false);
  const uint64_t needed = tests_.context(plan::k_kv_block_tokens);
  const uint64_t asked = static_cast<uint64_t>(options_.ctx_size.value_or(0));
  request.n_context = std::max(needed, asked);
  if (asked > 0 && asked < needed) {
    log::info("-c {}: the tests need {} tokens of context", asked, needed);
  }
  plan::Plan plan = plan::make(spec, open.descriptions, request);
  for (const std::string& warning : plan.warnings) log::warning("{}", warning);
  if (plan.devices.size() > 1) {
    log::info("pipeline: {}", plan::pipeline_text(plan, request));
    for (const plan::DevicePlan& device : plan.devices) {
      const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
      log::info("{}: weights {:.1f} MiB, KV cache {:.1f} MiB, compute {:.1f} MiB", device.name,
                mib(device.bytes.weights), mib(device.bytes.kv), mib(device.bytes.compute()));
    }
  }
  if (options_.trace) {
    OutputFile::check(*options_.trace);
    std::vector<std::string> names;
    for (const plan::DevicePlan& device : plan.devices) names.push_back(device.name);
    trace_.emplace(std::move(names));
  }

  std::optional<Progress> progress;
  runtime::LoadOptions load;
  load.mmap = options_.mmap;
  load.progress = [&](uint64_t done, uint64_t total) {
    if (!progress && total >= k_shown_bytes) progress.emplace("loading weights", total);
    if (progress) progress->update(done);
  };
  model_ =
      runtime::Model::load(*file, std::move(spec), std::move(plan), std::move(open.devices), load);
  if (progress) progress->done();
  if (trace_) model_->set_trace(&*trace_);
  for (uint64_t i = 0; i < tests_.most_sequences; ++i) pasts_.push_back(model_->create_sequence());
}

// Of all devices together: that is what a model on them could reach.
void Bench::measure_peaks() {
  for (const uint32_t n : tests_.threads) {
    device::Peaks sum;
    uint32_t threads = 0;
    for (size_t d = 0; d < model_->n_devices(); ++d) {
      const device::DeviceInfo& info = model_->device(d).info();
      const uint32_t units = n == 0 ? info.units : std::min(n, info.units);
      const device::Peaks one = device::measure_peaks({info.name, units, 0, false});
      sum.read_bytes_per_second += one.read_bytes_per_second;
      sum.int8_operations_per_second += one.int8_operations_per_second;
      threads += units;
    }
    // Numbers above what can run are that one number.
    const auto same = [&](uint32_t other) { return threads_.at(other) == threads; };
    if (std::any_of(runs_.begin(), runs_.end(), same)) continue;
    runs_.push_back(n);
    peaks_[n] = sum;
    threads_[n] = threads;
    log::info("{} thread{}: memory read {:.1f} GB/s, int8 {:.2f} TOPS", threads,
              threads == 1 ? "" : "s", sum.read_bytes_per_second / 1e9,
              sum.int8_operations_per_second / 1e12);
  }
}

std::vector<MemoryAudit> Bench::audit() const {
  std::vector<MemoryAudit> out;
  for (const runtime::MemoryAudit& row : model_->audit()) {
    out.push_back({row.device, row.purpose, row.planned, row.allocated, row.used});
  }
  return out;
}

// What each device did in the repetitions.
void Bench::add_use(BenchResult& result) const {
  double seconds = 0;
  for (const double one : result.seconds) seconds += one;
  for (const runtime::DeviceUse& use : model_->use()) {
    result.use.push_back({use.name, use.busy_seconds, use.copy_seconds, seconds, use.runs});
  }
}

std::vector<int32_t> Bench::random_tokens(uint64_t n) {
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random_.next() % model_->spec().n_vocab);
  }
  return tokens;
}

void Bench::prefill(SequenceId sequence, uint64_t n, uint32_t threads) {
  const std::vector<int32_t> tokens = random_tokens(n);
  const uint64_t n_batch = model_->plan().n_batch;
  for (uint64_t at = 0; at < n; at += n_batch) {
    const uint64_t count = std::min(n_batch, n - at);
    const runtime::Chunk chunk{sequence, std::span(tokens).subspan(at, count),
                               at + count == n ? runtime::Outputs::last : runtime::Outputs::none};
    model_->evaluate({&chunk, 1}, [](size_t, size_t, std::span<const float>) {},
                     {threads, nullptr});
  }
}

// Several stages are kept busy by different sequences: each group of them has a lane, and begins
// its next step as soon as its last one is done.
void Bench::decode(const std::vector<SequenceId>& sequences, uint64_t steps, uint32_t threads) {
  const auto ignore = [](size_t, size_t, std::span<const float>) {};
  const uint64_t n_groups = std::min<uint64_t>(
      {sequences.size(), model_->n_lanes(), std::max(1u, model_->plan().pipeline.stages)});
  const auto chunks_of = [&](uint64_t group, std::vector<int32_t>& tokens) {
    const size_t begin = sequences.size() * group / n_groups;
    const size_t end = sequences.size() * (group + 1) / n_groups;
    tokens = random_tokens(end - begin);
    std::vector<runtime::Chunk> chunks;
    for (size_t i = begin; i < end; ++i) {
      chunks.push_back(
          {sequences[i], std::span(tokens).subspan(i - begin, 1), runtime::Outputs::last});
    }
    return chunks;
  };
  std::vector<int32_t> tokens;
  if (n_groups == 1) {
    for (uint64_t step = 0; step < steps; ++step) {
      model_->evaluate(chunks_of(0, tokens), ignore, {threads, nullptr});
    }
    return;
  }
  std::vector<runtime::Model::JobId> jobs(n_groups);
  for (uint64_t step = 0; step <= steps; ++step) {
    for (uint64_t group = 0; group < n_groups; ++group) {
      if (step > 0) model_->finish(jobs[group], ignore);
      if (step < steps) jobs[group] = model_->start(chunks_of(group, tokens), {threads, nullptr});
    }
  }
}

void Bench::reach_depth(uint64_t depth) {
  const uint64_t before = model_->length(pasts_[0]);
  if (depth == before) return;
  Progress progress("filling the cache", (depth - before) * pasts_.size(), Progress::Unit::items);
  uint64_t done = 0;
  const uint64_t n_batch = model_->plan().n_batch;
  for (const SequenceId past : pasts_) {
    for (uint64_t at = before; at < depth; at += n_batch) {
      const uint64_t n = std::min(n_batch, depth - at);
      prefill(past, n, tests_.most_threads());
      done += n;
      progress.update(done);
    }
  }
  progress.done();
}

template <class Work>
void Bench::measure(BenchResult& result, uint64_t n_sequences, const Work& work) {
  double joules = 0;
  bool metered = meter_.has_value();
  // Repetition -1 warms up.
  for (int64_t repetition = -1; repetition < options_.repetitions; ++repetition) {
    std::vector<SequenceId> forks;
    for (uint64_t i = 0; i < n_sequences; ++i) forks.push_back(model_->fork_sequence(pasts_[i]));
    if (metered) meter_->start();
    const auto start = Clock::now();
    work(forks, repetition < 0);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto used = metered ? meter_->joules() : std::nullopt;
    for (const SequenceId fork : forks) model_->remove_sequence(fork);
    if (repetition < 0) {
      model_->reset_use();
      continue;
    }
    result.seconds.push_back(seconds);
    metered = metered && used;
    joules += used.value_or(0);
  }
  if (metered) result.joules = joules;
  add_use(result);
}

BenchResult Bench::blank(uint64_t depth, uint32_t threads) const {
  BenchResult result;
  result.model = name_;
  result.type = type_;
  result.parameters = model_->spec().parameters();
  result.weight_bytes = weight_bytes_;
  result.depth = depth;
  result.threads = threads_.at(threads);
  for (size_t d = 0; d < model_->n_devices(); ++d) {
    const device::DeviceInfo& info = model_->device(d).info();
    result.devices += (d > 0 ? "," : "") + info.name;
    if (d == 0 || result.isa.find(info.isa) == std::string::npos) {
      result.isa += (d > 0 ? "," : "") + info.isa;
    }
  }
  result.cache_type_k = info(type_k_).name;
  result.cache_type_v = info(type_v_).name;
  result.n_batch = model_->plan().n_batch;
  result.n_ubatch = model_->plan().n_ubatch;
  result.peak_bytes_per_second = peaks_.at(threads).read_bytes_per_second;
  result.peak_operations_per_second = peaks_.at(threads).int8_operations_per_second;
  return result;
}

void Bench::run_at(uint64_t depth, uint32_t threads) {
  const auto add_cost = [&](BenchResult& result, const plan::StepWork& work) {
    const plan::StepCost cost = plan::cost_of(model_->spec(), type_k_, type_v_, work);
    result.bytes += cost.weight_bytes + cost.kv_bytes;
    result.operations += cost.operations;
  };
  for (const uint64_t n : tests_.prompts) {
    BenchResult result = blank(depth, threads);
    result.prefill = true;
    result.count = n;
    const uint64_t n_ubatch = result.n_ubatch;
    // Batches begin micro-batches anew.
    for (uint64_t at = 0; at < n;) {
      const uint64_t in_batch = std::min<uint64_t>(result.n_batch - at % result.n_batch, n - at);
      const uint64_t count = std::min(n_ubatch, in_batch);
      add_cost(result, plan::appended(depth + at, count, at + count == n ? 1 : 0));
      at += count;
    }
    measure(result, 1, [&](const std::vector<SequenceId>& forks, bool warm_up) {
      prefill(forks[0], warm_up ? std::min(n, k_warm_up_tokens) : n, threads);
    });
    report(std::move(result));
  }
  for (const uint64_t n_sequences : tests_.sequences) {
    for (const uint64_t steps : tests_.steps) {
      BenchResult result = blank(depth, threads);
      result.count = steps;
      result.sequences = n_sequences;
      const auto together = static_cast<double>(n_sequences);
      for (uint64_t step = 0; step < steps; ++step) {
        const auto length = static_cast<double>(depth + step + 1);
        add_cost(result, {together, together, together * length, together * length});
      }
      measure(result, n_sequences, [&](const std::vector<SequenceId>& forks, bool warm_up) {
        decode(forks, warm_up ? std::min(steps, k_warm_up_steps) : steps, threads);
      });
      report(std::move(result));
    }
  }
}

void Bench::report(BenchResult result) {
  if (options_.table_format == "md") {
    print(md_row(result));
  } else if (options_.table_format == "csv") {
    print(csv_row(result));
  } else {
    Json json = to_json(result);
    if (options_.audit_memory) json.set("memory", audit_json(audit()));
    list_.push(std::move(json));
  }
  flush_output();
  if (result.use.size() > 1) log::info("{}", use_text(result));
}

}  // namespace

int bench_verb(const Options& options) {
  const Tests tests(options);
  Bench(options, tests).run();
  return 0;
}

}  // namespace strata::app
