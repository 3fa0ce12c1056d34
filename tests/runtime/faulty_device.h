// A device that works like another one until it is told to fail: for tests of what follows.
//
// Purpose: refuses the n-th allocation, fails in the n-th weight that is stored, run or program
// that is made ready; or holds a run up. Failures come when the queue gets there, or at the call.
// Threads: as the device inside; faults are set while nothing is under way.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "device/registry.h"

namespace strata::test {

enum class Failure : uint8_t { in_queue, at_call, out_of_memory, foreign };

// Shared by the test and the device, which may go first. Counted from 0; below zero: never.
struct Faults {
  std::atomic<int64_t> allocate_at{-1}, store_at{-1}, compile_at{-1}, run_at{-1};
  std::atomic<Failure> kind{Failure::in_queue};
  std::atomic<int> delay_us{0};  // of every run
  std::atomic<int64_t> allocations{0}, stores{0}, compiled{0}, runs{0};
  std::atomic<int64_t> left_bytes{0};  // that were allocated when the device went
  std::atomic<int> hits{0};

  void fail_run_in(int64_t n) { run_at = runs + n; }
  void work() { allocate_at = store_at = compile_at = run_at = -1; }
};

class FaultyDevice final : public device::Device {
 public:
  FaultyDevice(std::unique_ptr<device::Device> inside, std::shared_ptr<Faults> faults)
      : inside_(std::move(inside)), faults_(std::move(faults)) {}
  ~FaultyDevice() override {
    faults_->left_bytes += static_cast<int64_t>(inside_->allocated_bytes());
  }

  const device::DeviceInfo& info() const override { return inside_->info(); }
  uint64_t allocated_bytes() const override { return inside_->allocated_bytes(); }
  std::unique_ptr<device::Arena> allocate(uint64_t bytes, const std::string& purpose) override {
    if (due(faults_->allocations, faults_->allocate_at)) {
      fail(ErrorCode::does_not_fit, "device '{}': {} refused (injected)", info().name, purpose);
    }
    return inside_->allocate(bytes, purpose);
  }
  std::unique_ptr<device::Queue> make_queue() override {
    return std::make_unique<FaultyQueue>(*this, inside_->make_queue());
  }
  uint64_t weight_bytes(const device::WeightSpec& spec) const override {
    return inside_->weight_bytes(spec);
  }
  uint64_t activation_bytes(const device::Program& program, uint32_t max_tokens,
                            uint32_t max_outputs) const override {
    return inside_->activation_bytes(program, max_tokens, max_outputs);
  }
  uint64_t scratch_bytes(const device::Program& program, uint32_t max_tokens,
                         uint32_t max_outputs) const override {
    return inside_->scratch_bytes(program, max_tokens, max_outputs);
  }
  std::string unsupported(const device::Program& program) const override {
    return inside_->unsupported(program);
  }
  std::unique_ptr<device::Executable> compile(const device::CompileArgs& args) override {
    if (due(faults_->compiled, faults_->compile_at)) {
      fail(ErrorCode::internal, "device '{}': no program (injected)", info().name);
    }
    return inside_->compile(args);
  }

 private:
  // Waiting for it fails: it makes a queue fail when it gets there.
  struct FailingEvent final : device::Event {
    explicit FailingEvent(Failure how) : kind(how) {}
    bool done() const override { return false; }
    void wait() override { throw_it(kind); }
    Failure kind;
  };
  struct SlowEvent final : device::Event {
    explicit SlowEvent(int time) : us(time) {}
    bool done() const override { return false; }
    void wait() override { std::this_thread::sleep_for(std::chrono::microseconds(us)); }
    int us;
  };
  [[noreturn]] static void throw_it(Failure kind) {
    if (kind == Failure::out_of_memory) throw std::bad_alloc();
    if (kind == Failure::foreign) throw std::runtime_error("a driver's failure (injected)");
    fail(ErrorCode::internal, "a failure (injected)");
  }

  class FaultyQueue final : public device::Queue {
   public:
    FaultyQueue(FaultyDevice& device, std::unique_ptr<device::Queue> inside)
        : device_(device), inside_(std::move(inside)) {}
    void upload(const device::BufferRef& to, const void* from) override {
      inside_->upload(to, from);
    }
    void download(void* to, const device::BufferRef& from) override { inside_->download(to, from); }
    void copy(const device::BufferRef& to, const device::BufferRef& from,
              std::shared_ptr<device::RunTimes> times) override {
      inside_->copy(to, from, std::move(times));
    }
    void fill_zero(const device::BufferRef& to) override { inside_->fill_zero(to); }
    void store_weight(const device::WeightSpec& spec, const device::BufferRef& to, const void* from,
                      device::RowRange rows) override {
      Faults& faults = *device_.faults_;
      maybe_fail(faults.stores, faults.store_at);
      inside_->store_weight(spec, to, from, rows);
    }
    // A run after a failure is passed over by the queue inside, which abandons its group.
    void run(device::Executable& executable, device::RunArgs args) override {
      Faults& faults = *device_.faults_;
      if (const int us = faults.delay_us; us > 0) inside_->wait(std::make_shared<SlowEvent>(us));
      maybe_fail(faults.runs, faults.run_at);
      inside_->run(executable, std::move(args));
    }
    std::shared_ptr<device::Event> record() override { return inside_->record(); }
    void wait(std::shared_ptr<device::Event> event) override { inside_->wait(std::move(event)); }
    void synchronize() override { inside_->synchronize(); }

   private:
    void maybe_fail(std::atomic<int64_t>& count, const std::atomic<int64_t>& at) {
      if (!device_.due(count, at)) return;
      const Failure kind = device_.faults_->kind;
      if (kind == Failure::at_call) {
        fail(ErrorCode::internal, "device '{}': a refusal (injected)", device_.info().name);
      }
      inside_->wait(std::make_shared<FailingEvent>(kind));
    }

    FaultyDevice& device_;
    std::unique_ptr<device::Queue> inside_;
  };

  bool due(std::atomic<int64_t>& count, const std::atomic<int64_t>& at) {
    if (count++ != at.load()) return false;
    ++faults_->hits;
    return true;
  }

  std::unique_ptr<device::Device> inside_;
  std::shared_ptr<Faults> faults_;
};

}  // namespace strata::test
