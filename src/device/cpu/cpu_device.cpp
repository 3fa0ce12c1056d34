#include "device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/start_thread.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/isa.h"
#include "device/cpu/pack.h"
#include "device/cpu/steps.h"
#include "device/cpu/thread_team.h"
#include "device/spin.h"

namespace strata::device::cpu {
namespace {

constexpr uint64_t k_alignment = 64;
// Kernels may read (not use) this many bytes past a weight.
constexpr uint64_t k_padding = 64;
constexpr uint64_t k_huge_page = uint64_t{2} << 20;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class CpuDevice;

class CpuArena final : public Arena {
 public:
  CpuArena(CpuDevice& device, uint64_t bytes, const std::string& purpose);
  ~CpuArena() override;
  uint64_t size() const override { return size_; }
  std::byte* host() override { return data_; }

 private:
  CpuDevice& device_;
  uint64_t size_;
  uint64_t mapped_;
  std::byte* data_ = nullptr;
};

class CpuEvent final : public Event {
 public:
  bool done() const override { return done_.load(std::memory_order_acquire); }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(); });
  }
  void signal() {
    {
      const std::lock_guard lock(mutex_);
      done_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
  }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::byte* address(const BufferRef& ref) { return ref.arena->host() + ref.offset; }

void check_range(const BufferRef& ref, uint64_t bytes, const char* what) {
  if (ref.arena == nullptr || ref.arena->host() == nullptr || ref.bytes < bytes ||
      ref.offset > ref.arena->size() || ref.bytes > ref.arena->size() - ref.offset) {
    fail(ErrorCode::internal, "{}: {} bytes do not lie in the buffer given", what, bytes);
  }
}

class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(const CompileArgs& args);

  Compiled compiled;
  const Program& program = compiled.program;
  uint32_t max_tokens;
  uint32_t max_outputs;
  std::vector<std::byte*> values;  // resolved anew in every run
  std::vector<const std::byte*> weights;
  std::vector<std::byte*> kv;
  std::vector<uint64_t> kv_blocks;
};

CpuExecutable::CpuExecutable(const CompileArgs& args)
    : compiled(cpu::compile(*args.program, std::max(args.max_tokens, args.max_outputs))),
      max_tokens(args.max_tokens),
      max_outputs(args.max_outputs),
      values(program.values.size(), nullptr) {
  if (args.weights.size() != program.weights.size() ||
      args.kv_layers.size() != program.kv_layers.size()) {
    fail(ErrorCode::internal, "program '{}': {} weights and {} KV layers given, {} and {} needed",
         program.name, args.weights.size(), args.kv_layers.size(), program.weights.size(),
         program.kv_layers.size());
  }
  if (max_tokens % k_row_granule != 0 || max_outputs % k_row_granule != 0) {
    fail(ErrorCode::internal, "program '{}': row counts {} and {} are not multiples of {}",
         program.name, max_tokens, max_outputs, k_row_granule);
  }
  for (size_t i = 0; i < program.weights.size(); ++i) {
    check_range(args.weights[i], stored_bytes(program.weights[i]) + k_padding,
                program.weights[i].name.c_str());
    weights.push_back(address(args.weights[i]));
  }
  for (size_t i = 0; i < program.kv_layers.size(); ++i) {
    const uint64_t block = program.kv_layers[i].block_bytes();
    check_range(args.kv_layers[i], 0, "KV cache");
    kv.push_back(address(args.kv_layers[i]));
    kv_blocks.push_back(args.kv_layers[i].bytes / block);
  }
}

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(CpuDevice& device)
      : device_(device), thread_(start_thread([this] { work(); })) {}
  ~CpuQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      waiting_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    thread_.join();
  }

  void upload(const BufferRef& to, const void* from) override {
    check_range(to, to.bytes, "upload");
    push([=] { std::memcpy(address(to), from, to.bytes); });
  }
  void download(void* to, const BufferRef& from) override {
    check_range(from, from.bytes, "download");
    push([=] { std::memcpy(to, address(from), from.bytes); });
  }
  void copy(const BufferRef& to, const BufferRef& from, std::shared_ptr<RunTimes> times) override {
    check_range(from, from.bytes, "copy");
    check_range(to, from.bytes, "copy");
    push([=, times = std::move(times)] {
      const int64_t begin = now_ns();
      std::memmove(address(to), address(from), from.bytes);
      if (times) *times = {begin, now_ns()};
    });
  }
  void fill_zero(const BufferRef& to) override {
    check_range(to, to.bytes, "fill");
    push([=] { std::memset(address(to), 0, to.bytes); });
  }
  void store_weight(const WeightSpec& spec, const BufferRef& to, const void* from,
                    RowRange rows) override;
  void run(Executable& executable, RunArgs args) override;
  std::shared_ptr<Event> record() override {
    auto event = std::make_shared<CpuEvent>();
    push([event] { event->signal(); }, /*always=*/true);
    return event;
  }
  void wait(std::shared_ptr<Event> event) override {
    // The queue's thread has a core to wait on; a caller of the event itself may have none.
    push(
        [event = std::move(event)] {
          if (!spin_until([&] { return event->done(); })) event->wait();
        },
        /*always=*/true);
  }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct Task {
    std::function<void()> work;
    bool always;                    // carried out even after an error: events that others wait for
    std::function<void()> skipped;  // instead of the work, after an error
  };

  void push(std::function<void()> work, bool always = false,
            std::function<void()> skipped = nullptr) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back({std::move(work), always, std::move(skipped)});
      waiting_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
  }

  void enter();
  void work() {
    enter();
    std::unique_lock lock(mutex_);
    for (;;) {
      if (tasks_.empty() && !stop_) {
        // The next task often follows at once; an idle queue sleeps.
        lock.unlock();
        spin_until([&] { return waiting_.load(std::memory_order_acquire); });
        lock.lock();
        changed_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
      }
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      if (tasks_.empty()) waiting_.store(false, std::memory_order_relaxed);
      busy_ = true;
      const bool skip = error_ != nullptr && !task.always;
      lock.unlock();
      std::exception_ptr error;
      if (skip && task.skipped) task.skipped();
      if (!skip) {
        try {
          task.work();
        } catch (...) {
          error = std::current_exception();
        }
      }
      task = {};  // what it holds (a batch) is let go before anybody is told
      lock.lock();
      if (error && !error_) error_ = error;
      busy_ = false;
      if (tasks_.empty()) changed_.notify_all();
    }
  }

  CpuDevice& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::exception_ptr error_;
  std::atomic<bool> waiting_{false};  // there are tasks, or an end; for who looks without the lock
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, const TeamShape& shape);

  const DeviceInfo& info() const override { return info_; }
  uint64_t allocated_bytes() const override { return allocated_.load(); }
  std::unique_ptr<Arena> allocate(uint64_t bytes, const std::string& purpose) override {
    return std::make_unique<CpuArena>(*this, bytes, purpose);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(*this); }
  uint64_t weight_bytes(const WeightSpec& spec) const override {
    return align_up(stored_bytes(spec) + k_padding, k_alignment);
  }
  uint64_t activation_bytes(const Program& program, uint32_t max_tokens,
                            uint32_t max_outputs) const override {
    return cpu::compile(program, std::max(max_tokens, max_outputs))
        .arena.bytes(max_tokens, max_outputs);
  }
  uint64_t scratch_bytes(const Program& program, uint32_t max_tokens,
                         uint32_t max_outputs) const override {
    return cpu::compile(program, std::max(max_tokens, max_outputs)).scratch_per_rank * team_.size();
  }
  std::string unsupported(const Program& program) const override;
  std::unique_ptr<Executable> compile(const CompileArgs& args) override {
    return std::make_unique<CpuExecutable>(args);
  }

  void check_run(const CpuExecutable& executable, const RunArgs& args) const;
  void run(CpuExecutable& executable, const RunArgs& args);
  void store(const WeightSpec& spec, RowRange rows, const std::byte* from, std::byte* to);
  void reserve(uint64_t bytes, const std::string& purpose);
  void pin_queue_thread() const { team_.pin_caller(); }
  void release(uint64_t bytes) { allocated_.fetch_sub(bytes); }
  bool locks_memory() const { return lock_memory_; }

 private:
  DeviceInfo info_;
  const Isa isa_;  // of the kernels; neither packed weights nor sizes depend on it
  bool lock_memory_ = false;
  std::atomic<uint64_t> allocated_{0};
  std::mutex team_mutex_;
  ThreadTeam team_;
};

CpuDevice::CpuDevice(const CpuDeviceOptions& options, const TeamShape& shape)
    : isa_(options.isa ? *options.isa : chosen_isa()), team_(shape.threads, shape.cores) {
  lock_memory_ = options.lock_memory;
  info_.name = options.name;
  info_.kind = "cpu";
  info_.isa = std::string(name_of(isa_));
  info_.description = processor_name();
  info_.units = team_.size();
  info_.memory_bytes = memory_limit();
  info_.free_bytes = memory_available();
  info_.most_bytes = info_.memory_bytes;
  info_.budget_bytes = options.budget_bytes > 0 ? options.budget_bytes : info_.memory_bytes;
}

void CpuDevice::reserve(uint64_t bytes, const std::string& purpose) {
  uint64_t before = allocated_.load();
  do {
    if (bytes > info_.budget_bytes || before > info_.budget_bytes - bytes) {
      fail(ErrorCode::does_not_fit,
           "device '{}': {} need {:.1f} MiB, but only {:.1f} of its {:.1f} MiB are left",
           info_.name, purpose, static_cast<double>(bytes) / 1048576.0,
           static_cast<double>(info_.budget_bytes - std::min(before, info_.budget_bytes)) /
               1048576.0,
           static_cast<double>(info_.budget_bytes) / 1048576.0);
    }
  } while (!allocated_.compare_exchange_weak(before, before + bytes));
}

std::string CpuDevice::unsupported(const Program& program) const {
  for (const KvLayer& layer : program.kv_layers) {
    for (const ElementType type : {layer.type_k, layer.type_v}) {
      if (!cpu::is_cache_type(type)) return "KV cache in " + std::string(strata::info(type).name);
    }
  }
  return {};
}

// What could be wrong with a run, before anything waits for it.
void CpuDevice::check_run(const CpuExecutable& executable, const RunArgs& args) const {
  const Batch& batch = *args.batch;
  if (batch.size() > executable.max_tokens || batch.output_rows.size() > executable.max_outputs) {
    fail(ErrorCode::internal, "program '{}': {} tokens and {} outputs, compiled for {} and {}",
         executable.program.name, batch.size(), batch.output_rows.size(), executable.max_tokens,
         executable.max_outputs);
  }
  const Compiled& compiled = executable.compiled;
  const uint64_t arena = compiled.arena.bytes(executable.max_tokens, executable.max_outputs);
  if (arena > 0) check_range(args.activations, arena, "activations");
  const uint64_t scratch = compiled.scratch_per_rank * team_.size();
  if (scratch > 0) check_range(args.scratch, scratch, "scratch");
  for (const Value& value : executable.program.values) {
    if (value.place != Place::external) continue;
    const uint64_t rows = value.rows == Rows::tokens ? batch.size() : batch.output_rows.size();
    if (value.external >= args.externals.size()) {
      fail(ErrorCode::internal, "program '{}': no buffer for '{}'", executable.program.name,
           value.name);
    }
    check_range(args.externals[value.external], rows * value.width * 4, value.name.c_str());
  }
}

void CpuDevice::run(CpuExecutable& executable, const RunArgs& args) {
  HostGroup* group = args.group.group.get();
  try {
    check_run(executable, args);
  } catch (...) {
    if (group != nullptr) group->abandon(args.group.number);
    throw;
  }
  // Member 0 joins with the team in hand, the others before they take theirs: see host_group.h.
  if (group != nullptr && args.group.member != 0)
    group->enter(args.group.member, args.group.number);
  const std::lock_guard lock(team_mutex_);
  if (group != nullptr && args.group.member == 0) group->enter(0, args.group.number);

  std::byte* arena = args.activations.bytes > 0 ? address(args.activations) : nullptr;
  for (ValueId id = 0; id < executable.values.size(); ++id) {
    const Value& value = executable.program.values[id];
    if (value.place == Place::external) {
      executable.values[id] = address(args.externals[value.external]);
    } else {
      const ArenaPlan::Slot& slot = executable.compiled.arena.slots[id];
      executable.values[id] =
          arena + slot.per_token * executable.max_tokens + slot.per_output * executable.max_outputs;
    }
  }
  struct Job {
    CpuExecutable* executable;
    HostContext context;
    std::byte* scratch;  // of rank 0
    uint64_t scratch_bytes;
    Claims claims[2];  // of even and odd steps
  };
  const uint64_t scratch_bytes = executable.compiled.scratch_per_rank;
  Job job{&executable, {}, scratch_bytes > 0 ? address(args.scratch) : nullptr, scratch_bytes, {}};
  job.context.program = &executable.program;
  job.context.batch = args.batch.get();
  job.context.values = executable.values;
  job.context.weights = executable.weights;
  job.context.kv = executable.kv;
  job.context.kv_blocks = executable.kv_blocks;
  job.context.n_ranks = args.units == 0 ? team_.size() : std::min(args.units, team_.size());
  job.context.team = &team_;
  job.context.group = group;
  job.context.member = args.group.member;
  job.context.kernels = &kernels(isa_);
  const int64_t begin = now_ns();
  team_.run(
      [](void* argument, uint32_t rank) {
        Job& shared = *static_cast<Job*>(argument);
        HostContext context = shared.context;
        context.rank = rank;
        context.scratch = {shared.scratch + rank * shared.scratch_bytes, shared.scratch_bytes};
        run_steps(shared.executable->compiled.steps, context, shared.claims);
      },
      &job, job.context.n_ranks);
  if (args.times) *args.times = {begin, now_ns()};
  if (group != nullptr) group->leave(args.group.number);
}

// All threads take items until none is left: the packing of some rows waits for the disk.
void CpuDevice::store(const WeightSpec& spec, RowRange rows, const std::byte* from, std::byte* to) {
  struct Job {
    const WeightSpec& spec;
    RowRange rows;
    const std::byte* from;
    std::byte* to;
    uint64_t n_items;
    uint64_t at_once;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> finite{true};
  };
  const uint64_t n_items = store_items(spec, rows);
  Job job{spec, rows, from, to, n_items, std::max<uint64_t>(1, n_items / (8 * team_.size()))};
  const std::lock_guard lock(team_mutex_);
  team_.run(
      [](void* argument, uint32_t) {
        Job& shared = *static_cast<Job*>(argument);
        for (;;) {
          const uint64_t begin = shared.next.fetch_add(shared.at_once);
          if (begin >= shared.n_items) return;
          const uint64_t end = std::min(begin + shared.at_once, shared.n_items);
          if (!store_items(shared.spec, shared.rows, shared.from, shared.to, begin, end)) {
            shared.finite = false;
          }
        }
      },
      &job, team_.size());
  if (!job.finite) {
    fail(ErrorCode::bad_file, "tensor '{}' holds values that are not finite: the file is damaged",
         spec.name);
  }
}

CpuArena::CpuArena(CpuDevice& device, uint64_t bytes, const std::string& purpose)
    : device_(device), size_(bytes) {
  device_.reserve(bytes, purpose);
  const bool huge = bytes >= k_huge_page;
  mapped_ = align_up(std::max<uint64_t>(bytes, 1), huge ? k_huge_page : 4096);
  // Over-mapping by one huge page lets the arena begin on a huge-page boundary.
  const uint64_t asked = huge ? mapped_ + k_huge_page : mapped_;
  void* mapping =
      ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    device_.release(bytes);
    fail(ErrorCode::does_not_fit, "device '{}': the system refused {:.1f} MiB for {}",
         device_.info().name, static_cast<double>(bytes) / 1048576.0, purpose);
  }
  auto begin = reinterpret_cast<uintptr_t>(mapping);
  if (huge) {
    const uintptr_t aligned = align_up(begin, k_huge_page);
    if (aligned > begin) ::munmap(mapping, aligned - begin);
    const uintptr_t end = begin + asked;
    if (end > aligned + mapped_) {
      ::munmap(reinterpret_cast<void*>(aligned + mapped_), end - aligned - mapped_);
    }
    begin = aligned;
    ::madvise(reinterpret_cast<void*>(begin), mapped_, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<std::byte*>(begin);
  if (device_.locks_memory() && ::mlock2(data_, mapped_, MLOCK_ONFAULT) != 0) {
    log::warning(
        "--mlock: the system does not let {:.1f} MiB ({}) be locked ({}); raise the limit "
        "(ulimit -l) to keep them from being swapped out",
        static_cast<double>(bytes) / 1048576.0, purpose, std::strerror(errno));
  }
}

CpuArena::~CpuArena() {
  ::munmap(data_, mapped_);
  device_.release(size_);
}

void CpuQueue::enter() { device_.pin_queue_thread(); }

void CpuQueue::store_weight(const WeightSpec& spec, const BufferRef& to, const void* from,
                            RowRange rows) {
  check_range(to, stored_bytes(spec) + k_padding, spec.name.c_str());
  if (rows.first > spec.rows() || rows.count > spec.rows() - rows.first) {
    fail(ErrorCode::internal, "weight '{}' has {} rows, not {} from {}", spec.name, spec.rows(),
         rows.count, rows.first);
  }
  push([this, spec, to, from, rows] {
    device_.store(spec, rows, static_cast<const std::byte*>(from), address(to));
  });
}

void CpuQueue::run(Executable& executable, RunArgs args) {
  auto* cpu = dynamic_cast<CpuExecutable*>(&executable);
  if (cpu == nullptr || args.batch == nullptr) {
    fail(ErrorCode::internal, "device '{}': not a program of this device", device_.info().name);
  }
  std::function<void()> skipped;
  if (args.group.group != nullptr) {
    skipped = [group = args.group] { group.group->abandon(group.number); };
  }
  push([this, cpu, args = std::move(args)] { device_.run(*cpu, args); }, false, std::move(skipped));
}

}  // namespace

TeamShape team_shape(const CpuDeviceOptions& options) {
  const CpuLimits limits = cpu_limits();
  TeamShape out;
  out.threads = options.threads;
  if (options.cores.empty()) {
    if (out.threads == 0) out.threads = limits.usable;
    // Pinning helps only when no two ranks would share a core, and when all cores are wanted: of
    // some the system knows better which are free.
    if (limits.usable == limits.physical && out.threads >= limits.physical &&
        out.threads <= limits.processors.size()) {
      out.cores = limits.processors;
    }
    return out;
  }
  for (const uint32_t core : options.cores) {
    if (std::find(limits.processors.begin(), limits.processors.end(), core) ==
        limits.processors.end()) {
      fail(ErrorCode::usage, "device '{}': core {} is not among those this process may use",
           options.name, core);
    }
  }
  // Cores that were named are kept to always: others may belong to another device.
  out.cores = options.cores;
  if (out.threads == 0) out.threads = static_cast<uint32_t>(options.cores.size());
  while (out.cores.size() < out.threads) {
    out.cores.push_back(out.cores[out.cores.size() - options.cores.size()]);
  }
  return out;
}

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options, team_shape(options));
}

}  // namespace strata::device::cpu
