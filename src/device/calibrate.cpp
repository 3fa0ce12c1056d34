#include "device/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/random_blocks.h"

namespace strata::device {
namespace {

using Clock = std::chrono::steady_clock;

// A matrix as large models have them; so many of them are read in turn that none is still in a
// cache when its turn comes again.
constexpr uint32_t k_width = 2048;
constexpr uint64_t k_cold_bytes = uint64_t{192} << 20;
// Attention multiplies more per byte: what waits for memory is hidden earlier.
constexpr uint64_t k_cold_cache_bytes = uint64_t{32} << 20;
constexpr uint64_t k_fewest_matrices = 2;
// Others may use the cores meanwhile. Windows are as short as a turn that a scheduler gives, and
// begin after a pause, with a fresh one; the best is believed when others come close to it, or when
// there is no more time.
constexpr double k_window_seconds = 0.004;
constexpr auto k_pause = std::chrono::milliseconds(1);
constexpr double k_close = 1.04;
constexpr size_t k_fewest_windows = 4;
constexpr ptrdiff_t k_close_windows = 3;
constexpr double k_most_seconds = 0.3;
// What is measured is more than this, whatever the clock says.
constexpr double k_least = 1e-9;

constexpr uint32_t k_block_tokens = 32;
constexpr uint32_t k_head_dim = 128;
constexpr uint32_t k_kv_heads = 4;
constexpr uint32_t k_heads = 16;
constexpr uint32_t k_long_past = 4096;
constexpr uint32_t k_short_past = 1024;
constexpr uint32_t k_attention_rows = 256;
// Blocks of a model as small as to cost nothing but being there.
constexpr uint32_t k_tiny_width = 64;
constexpr uint32_t k_tiny_blocks = 16;

constexpr uint32_t k_most_rows = 512;

// What is left of a measured time without a small part of it that is known. Where the part is not
// small one of both was disturbed.
double without(double seconds, double part) {
  return std::max({seconds - part, seconds / 2, k_least});
}

double seconds_of(const RunTimes& times) {
  return static_cast<double>(times.end - times.begin) / 1e9;
}

// A program under construction with the memory it will need.
class Build {
 public:
  explicit Build(std::string name) { program.name = std::move(name); }
  ValueId value(uint32_t width) {
    program.values.push_back({"v" + std::to_string(program.values.size()), width});
    return static_cast<ValueId>(program.values.size() - 1);
  }
  ValueId input(uint32_t width) {
    const ValueId id = value(width);
    program.values[id].place = Place::external;
    program.values[id].external = program.n_external++;
    return id;
  }
  WeightId weight(ElementType type, uint32_t n_in, uint32_t n_out) {
    program.weights.push_back(
        {"w" + std::to_string(program.weights.size()), type, {n_in, n_out, 1}});
    return static_cast<WeightId>(program.weights.size() - 1);
  }
  ValueId linear(ValueId in, ElementType type, uint32_t n_out) {
    const ValueId out = value(n_out);
    program.ops.push_back(Linear{in, weight(type, program.values[in].width, n_out), k_none, out});
    return out;
  }
  uint32_t cache(uint32_t kv_heads, uint32_t head_dim) {
    program.kv_layers.push_back(
        {kv_heads, head_dim, head_dim, ElementType::f16, ElementType::f16, k_block_tokens});
    return static_cast<uint32_t>(program.kv_layers.size() - 1);
  }
  ValueId attention(ValueId q, uint32_t layer, uint32_t n_heads) {
    const uint32_t dim = program.kv_layers[layer].head_dim_v;
    Attention op;
    op.q = q;
    op.out = value(n_heads * dim);
    op.layer = layer;
    op.n_heads = n_heads;
    op.scale = 1 / std::sqrt(static_cast<float>(dim));
    program.ops.push_back(op);
    return op.out;
  }
  ValueId norm(ValueId in) {
    const uint32_t width = program.values[in].width;
    const ValueId out = value(width);
    program.ops.push_back(RmsNorm{in, weight(ElementType::f32, width, 1), out, width, 1e-5f});
    return out;
  }
  ValueId gate(ValueId gate, ValueId up) {
    program.ops.push_back(Gate{gate, up, gate, Activation::silu});
    return gate;
  }
  ValueId add(ValueId a, ValueId b) {
    const ValueId out = value(program.values[a].width);
    program.ops.push_back(Add{a, b, out});
    return out;
  }

  Program program;
};

// A program with its memory on a device.
class Ready {
 public:
  Ready(Device& device, Queue& queue, Program program, uint32_t past, uint32_t most_rows)
      : queue_(queue), program_(std::move(program)), past_(past) {
    CompileArgs compile;
    compile.program = &program_;
    compile.max_tokens = static_cast<uint32_t>(align_up(most_rows, k_row_granule));
    allocate_weights(device, compile);
    allocate_cache(device, compile, past + most_rows);
    const auto buffer = [&](uint64_t bytes) {
      if (bytes == 0) return BufferRef{};
      arenas_.push_back(device.allocate(bytes, "measurements"));
      return BufferRef{arenas_.back().get(), 0, bytes};
    };
    args_.activations = buffer(device.activation_bytes(program_, compile.max_tokens, 0));
    args_.scratch = buffer(device.scratch_bytes(program_, compile.max_tokens, 0));
    for (const Value& value : program_.values) {
      if (value.place != Place::external) continue;
      args_.externals.push_back(buffer(uint64_t{compile.max_tokens} * value.width * 4));
      std::vector<float> rows(uint64_t{compile.max_tokens} * value.width);
      random_values(ElementType::f32, 7, 1, rows.data(), rows.size());
      queue_.upload(args_.externals.back(), rows.data());
      queue_.synchronize();
    }
    args_.times = std::make_shared<RunTimes>();
    executable_ = device.compile(compile);
  }

  // Seconds of one run with so many tokens after the past.
  double run(uint32_t rows) {
    if (batch_ == nullptr || batch_->size() != rows) {
      auto batch = std::make_shared<Batch>();
      batch->tokens.assign(rows, 0);
      batch->sequences.assign(rows, 0);
      for (uint32_t i = 0; i < rows; ++i) {
        batch->positions.push_back(static_cast<int32_t>(past_ + i));
      }
      batch->block_tables.resize(1);
      for (uint32_t b = 0; b * k_block_tokens < past_ + rows; ++b) {
        batch->block_tables[0].push_back(b);
      }
      batch_ = std::move(batch);
    }
    args_.batch = batch_;
    queue_.run(*executable_, args_);
    queue_.synchronize();
    return seconds_of(*args_.times);
  }

  // The best of several windows; the first does not count.
  double best(uint32_t rows, bool& disturbed) {
    const auto start = Clock::now();
    run(rows);
    std::vector<double> windows;
    for (;;) {
      windows.push_back(run(rows));
      const double least = *std::min_element(windows.begin(), windows.end());
      const auto close = std::count_if(windows.begin(), windows.end(),
                                       [&](double took) { return took <= k_close * least; });
      if (windows.size() >= k_fewest_windows && close >= k_close_windows) return least;
      const std::chrono::duration<double> spent = Clock::now() - start;
      if (spent.count() > k_most_seconds) {
        disturbed = true;
        return least;
      }
      std::this_thread::sleep_for(k_pause);
    }
  }

  // As many rows as a window has time for.
  uint32_t affordable(std::initializer_list<uint32_t> choices) {
    const uint32_t probe =
        std::min<uint32_t>(*std::min_element(choices.begin(), choices.end()), 32);
    run(probe);
    const double per_row = std::min(run(probe), run(probe)) / probe;
    uint32_t least = *choices.begin();
    for (const uint32_t rows : choices) {
      least = std::min(least, rows);
      if (per_row * rows <= k_window_seconds) return rows;
    }
    return least;
  }

  const Program& program() const { return program_; }

 private:
  void allocate_weights(Device& device, CompileArgs& compile) {
    uint64_t total = 0;
    for (const WeightSpec& spec : program_.weights) total += device.weight_bytes(spec);
    if (total == 0) return;
    arenas_.push_back(device.allocate(total, "measurements"));
    Arena* arena = arenas_.back().get();
    uint64_t at = 0;
    for (size_t i = 0; i < program_.weights.size(); ++i) {
      const WeightSpec& spec = program_.weights[i];
      const BufferRef here{arena, at, device.weight_bytes(spec)};
      // What a matrix holds does not matter; one of each shape is made.
      const auto like = std::find_if(program_.weights.begin(), program_.weights.begin() + i,
                                     [&](const WeightSpec& other) {
                                       return other.type == spec.type && other.dims == spec.dims;
                                     });
      if (like != program_.weights.begin() + i) {
        queue_.copy(here, compile.weights[like - program_.weights.begin()], nullptr);
      } else {
        std::vector<std::byte> rows(spec.bytes());
        random_values(spec.type, i + 1, 1 / std::sqrt(static_cast<double>(spec.dims[0])),
                      rows.data(), spec.dims[0] * spec.rows());
        queue_.store_weight(spec, here, rows.data(), {0, spec.rows()});
        queue_.synchronize();
      }
      compile.weights.push_back(here);
      at += here.bytes;
    }
    queue_.synchronize();
  }

  void allocate_cache(Device& device, CompileArgs& compile, uint32_t positions) {
    const uint64_t blocks = (uint64_t{positions} + k_block_tokens - 1) / k_block_tokens;
    for (const KvLayer& layer : program_.kv_layers) {
      arenas_.push_back(device.allocate(blocks * layer.block_bytes(), "measurements"));
      compile.kv_layers.push_back({arenas_.back().get(), 0, arenas_.back()->size()});
      // Memory that nobody has written may not be there yet.
      queue_.fill_zero(compile.kv_layers.back());
    }
    queue_.synchronize();
  }

  Queue& queue_;
  Program program_;
  uint32_t past_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<Executable> executable_;
  std::shared_ptr<const Batch> batch_;
  RunArgs args_;
};

class Calibration {
 public:
  explicit Calibration(Device& device) : device_(device), queue_(device.make_queue()) {
    const DeviceInfo& info = device.info();
    const uint64_t used = std::min(device.allocated_bytes(), info.budget_bytes);
    room_ = std::min(info.budget_bytes - used, k_calibration_bytes);
    profile.measured = true;
  }

  void ops() {
    const uint32_t w = k_tiny_width;
    Build build("calibration: ops");
    ValueId x = build.input(w);
    for (uint32_t i = 0; i < k_tiny_blocks; ++i) {
      const ValueId n = build.norm(x);
      const ValueId q = build.linear(n, ElementType::q8_0, w);
      const ValueId k = build.linear(n, ElementType::q8_0, w);
      const ValueId v = build.linear(n, ElementType::q8_0, w);
      const uint32_t layer = build.cache(1, w);
      build.program.ops.push_back(StoreKv{k, v, layer});
      const ValueId a = build.attention(q, layer, 1);
      x = build.add(x, build.linear(a, ElementType::q8_0, w));
      const ValueId m = build.norm(x);
      const ValueId gate = build.linear(m, ElementType::q8_0, w);
      const ValueId up = build.linear(m, ElementType::q8_0, w);
      x = build.add(x, build.linear(build.gate(gate, up), ElementType::q8_0, w));
    }
    Ready ready(device_, *queue_, std::move(build.program), 1, 16);
    profile.seconds_per_op = best(ready, 1) / static_cast<double>(ready.program().ops.size());
  }

  void linear(ElementType type) {
    const WeightSpec matrix{"", type, {k_width, k_width, 1}};
    const uint64_t each = device_.weight_bytes(matrix);
    const uint64_t wanted = (k_cold_bytes + each - 1) / each;
    const uint64_t n = std::clamp<uint64_t>(room_ / 2 / each, k_fewest_matrices, wanted);
    const auto chain = [&](uint64_t length) {
      Build build("calibration: linear");
      ValueId x = build.input(k_width);
      for (uint64_t i = 0; i < length; ++i) x = build.linear(x, type, k_width);
      return std::move(build.program);
    };
    Rate rate;
    const double bytes = static_cast<double>(matrix.bytes());
    {
      Ready cold(device_, *queue_, chain(n), 0, 16);
      const double seconds = best(cold, 1) / static_cast<double>(n);
      rate.bytes_per_second = bytes / without(seconds, profile.seconds_per_op);
    }
    {
      Ready many(device_, *queue_, chain(1), 0, k_most_rows);
      const uint32_t rows = many.affordable({512, 256, 128, 64, 32});
      const double one = profile.seconds_per_op + bytes / rate.bytes_per_second;
      rate.operations_per_second =
          2.0 * k_width * k_width * (rows - 1) / without(best(many, rows), one);
    }
    profile.linear[type] = rate;
  }

  void attention() {
    const KvLayer layer{k_kv_heads,       k_head_dim,       k_head_dim,
                        ElementType::f16, ElementType::f16, k_block_tokens};
    const double position = static_cast<double>(layer.block_bytes()) / k_block_tokens;
    const auto layers = [&](uint64_t n) {
      Build build("calibration: attention");
      const ValueId q = build.input(k_heads * k_head_dim);
      for (uint64_t i = 0; i < n; ++i) {
        build.attention(q, build.cache(k_kv_heads, k_head_dim), k_heads);
      }
      return std::move(build.program);
    };
    {
      const auto each = static_cast<uint64_t>(position) * k_long_past;
      const uint64_t n =
          std::clamp<uint64_t>(std::min(room_ / 2, k_cold_cache_bytes) / each, 1, 16);
      Ready cold(device_, *queue_, layers(n), k_long_past - 1, 1);
      const double seconds = best(cold, 1) / static_cast<double>(n);
      profile.attention.bytes_per_second =
          position * k_long_past / without(seconds, profile.seconds_per_op);
    }
    Ready many(device_, *queue_, layers(1), k_short_past, k_attention_rows);
    const uint32_t rows = many.affordable({k_attention_rows, 128, 64, 32});
    const double cached = k_short_past + rows;
    const double attended = rows * double{k_short_past} + rows * (rows + 1.0) / 2;
    const double read =
        profile.seconds_per_op + position * cached / profile.attention.bytes_per_second;
    profile.attention.operations_per_second =
        2.0 * k_heads * 2 * k_head_dim * (attended - cached) / without(best(many, rows), read);
  }

  void elements() {
    Build build("calibration: elements");
    ValueId x = build.input(k_width);
    double values = 0;
    for (int i = 0; i < 2; ++i) {
      const ValueId y = build.norm(x);
      const ValueId z = build.add(x, y);
      x = build.gate(z, y);
      values += 2 + 3 + 4;
    }
    Ready ready(device_, *queue_, std::move(build.program), 0, k_most_rows);
    const uint32_t rows = ready.affordable({512, 256, 128, 64, 32});
    const double seconds =
        without(best(ready, rows),
                profile.seconds_per_op * static_cast<double>(ready.program().ops.size()));
    profile.element_bytes_per_second = values * 4 * k_width * rows / seconds;
  }

  void copies() {
    constexpr uint64_t k_bytes = uint64_t{k_most_rows} * k_width * 4;
    const auto from = device_.allocate(k_bytes, "measurements");
    const auto to = device_.allocate(k_bytes, "measurements");
    const auto copy = [&](uint64_t bytes) {
      const auto start = Clock::now();
      queue_->copy({to.get(), 0, bytes}, {from.get(), 0, bytes}, nullptr);
      queue_->synchronize();
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    queue_->fill_zero({from.get(), 0, k_bytes});
    std::vector<double> small, large;
    copy(k_bytes);
    for (int i = 0; i < 16; ++i) {
      small.push_back(copy(64));
      large.push_back(copy(k_bytes));
    }
    std::sort(small.begin(), small.end());
    profile.copy_seconds = small[small.size() / 4];
    const double least = *std::min_element(large.begin(), large.end());
    profile.copy_bytes_per_second = k_bytes / without(least, small.front());
  }

  void finish() {
    // Types that were not asked for are as slow as the slowest of those that were.
    Rate& other = profile.other_linear;
    for (const auto& [type, rate] : profile.linear) {
      const bool first = other.bytes_per_second <= 0;
      other.bytes_per_second =
          first ? rate.bytes_per_second : std::min(other.bytes_per_second, rate.bytes_per_second);
      other.operations_per_second =
          first ? rate.operations_per_second
                : std::min(other.operations_per_second, rate.operations_per_second);
    }
  }

  Profile profile;

 private:
  double best(Ready& ready, uint32_t rows) { return ready.best(rows, profile.disturbed); }

  Device& device_;
  std::unique_ptr<Queue> queue_;
  uint64_t room_ = 0;
};

}  // namespace

Profile calibrate(Device& device, std::span<const ElementType> types) {
  std::set<ElementType> all(types.begin(), types.end());
  if (all.empty()) all.insert(ElementType::q8_0);
  Calibration calibration(device);
  calibration.ops();
  for (const ElementType type : all) calibration.linear(type);
  calibration.attention();
  calibration.elements();
  calibration.copies();
  calibration.finish();
  return calibration.profile;
}

}  // namespace strata::device
