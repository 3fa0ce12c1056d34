// Failures on several devices: the error names the device, the sequences are as before, nothing
// hangs or leaks, and what comes next has the right bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "runtime/faulty_device.h"
#include "runtime/run_model.h"
#include "runtime/small_models.h"
#include "watchdog.h"

namespace strata {
namespace {

using test::same_bits;

using runtime::Chunk;
using runtime::Outputs;
using runtime::SequenceId;
using test::Failure;
using test::Faults;

constexpr uint32_t k_ubatch = 16;
constexpr uint64_t k_context = 1024;

const test::StoredModel& stored(size_t index) {
  static std::map<size_t, std::unique_ptr<test::StoredModel>> models;
  std::unique_ptr<test::StoredModel>& model = models[index];
  if (!model) model = std::make_unique<test::StoredModel>(test::small_models()[index]);
  return *model;
}
constexpr size_t k_dense = 0, k_mixture = 5;  // of small_models()

std::vector<int32_t> random_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 300);
  return tokens;
}

// Devices d0, d1, ... that can be told to fail.
struct Machine {
  Machine(uint32_t n, plan::Split split, std::optional<uint32_t> copies = {})
      : n_devices(n), split_by(split), n_copies(copies) {
    for (uint32_t d = 0; d < n; ++d) faults.push_back(std::make_shared<Faults>());
  }

  std::unique_ptr<runtime::Model> load(const test::StoredModel& model) {
    runtime::Model::Devices devices;
    std::vector<device::Description> descriptions;
    for (uint32_t d = 0; d < n_devices; ++d) {
      devices.push_back(
          std::make_unique<test::FaultyDevice>(device::open_device({"cpu", 1, 0}), faults[d]));
      descriptions.push_back(device::describe(*devices.back()));
      descriptions.back().info.name = "d" + std::to_string(d);
    }
    plan::Request request;
    request.n_context = k_context;
    request.n_ubatch = k_ubatch;
    request.split = split_by;
    request.copies = n_copies;
    request.type_k = request.type_v = ElementType::f32;
    if (split_by == plan::Split::layer) request.shares.assign(n_devices, 1.0);
    if (split_by == plan::Split::tensor && n_devices == 4) request.tensor_parallel = 2;
    plan::Plan plan = plan::make(model.spec, descriptions, request);
    return runtime::Model::load(*model.file, model.spec, std::move(plan), std::move(devices));
  }

  void work() {
    for (const auto& one : faults) one->work();
  }

  uint32_t n_devices;
  plan::Split split_by;
  std::optional<uint32_t> n_copies;
  std::vector<std::shared_ptr<Faults>> faults;
};

// Logits of the asked-for positions, one after another.
std::vector<float> evaluate(runtime::Model& model, SequenceId sequence,
                            std::span<const int32_t> tokens, Outputs outputs = Outputs::last,
                            const runtime::EvaluateOptions& options = {}) {
  std::vector<float> out;
  const Chunk chunk{sequence, tokens, outputs};
  model.evaluate(
      {&chunk, 1},
      [&](size_t, size_t, std::span<const float> row) {
        out.insert(out.end(), row.begin(), row.end());
      },
      options);
  return out;
}

TEST(Faults, a_refused_allocation_leaves_nothing) {
  test::Watchdog watchdog(std::chrono::seconds(200));
  for (const plan::Split split : {plan::Split::layer, plan::Split::tensor}) {
    for (uint32_t d = 0; d < 2; ++d) {
      int64_t refused = 0;
      for (;; ++refused) {
        Machine machine(2, split);
        machine.faults[d]->allocate_at = refused;
        try {
          machine.load(stored(k_dense));
          break;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
          EXPECT_NE(std::string(error.what()).find("injected"), std::string::npos) << error.what();
        }
        for (const auto& faults : machine.faults) EXPECT_EQ(faults->left_bytes, 0);
      }
      // Weights, cache, activations, scratch; logits and a boundary where they are.
      EXPECT_GE(refused, 4) << "device " << d;
    }
  }
}

TEST(Faults, a_weight_or_a_program_that_fails_names_the_device) {
  test::Watchdog watchdog(std::chrono::seconds(200));
  for (const plan::Split split : {plan::Split::layer, plan::Split::tensor}) {
    for (uint32_t d = 0; d < 2; ++d) {
      for (const Failure kind :
           {Failure::in_queue, Failure::at_call, Failure::out_of_memory, Failure::foreign}) {
        for (const int64_t at : {0, 1, 5}) {
          Machine machine(2, split);
          machine.faults[d]->kind = kind;
          machine.faults[d]->store_at = at;
          try {
            machine.load(stored(k_mixture));
            ADD_FAILURE() << "weight " << at << " of device " << d << " was to fail";
          } catch (const Error& error) {
            const std::string name = kind == Failure::at_call ? "cpu" : "d" + std::to_string(d);
            EXPECT_NE(std::string(error.what()).find("'" + name + "'"), std::string::npos)
                << error.what();
          }
          for (const auto& faults : machine.faults) EXPECT_EQ(faults->left_bytes, 0);
        }
      }
      for (int64_t at = 0;; ++at) {
        Machine machine(2, split);
        machine.faults[d]->compile_at = at;
        try {
          machine.load(stored(k_mixture));
          EXPECT_GE(at, 1);
          break;
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("injected"), std::string::npos) << error.what();
        }
        for (const auto& faults : machine.faults) EXPECT_EQ(faults->left_bytes, 0);
      }
    }
  }
}

struct StepCase {
  const char* name;
  uint32_t n_devices;
  plan::Split split;
  size_t model;
  int requests;  // of the many
};

class Steps : public testing::TestWithParam<StepCase> {};

// A prompt behind a shared past fails at each of its runs in turn, the head's among them.
TEST_P(Steps, a_run_that_fails_changes_nothing) {
  const StepCase& one = GetParam();
  test::Watchdog watchdog(std::chrono::seconds(400));
  const test::StoredModel& file = stored(one.model);
  const auto past = random_tokens(21, 1), prompt = random_tokens(100, 2);
  Machine machine(one.n_devices, one.split);
  const auto model = machine.load(file);
  const uint32_t blocks = model->cache().n_blocks();
  const uint32_t stages = model->plan().pipeline.stages;
  EXPECT_EQ(stages, one.split == plan::Split::layer ? one.n_devices : one.n_devices == 4 ? 2 : 1);
  EXPECT_EQ(model->n_lanes(), stages > 1 ? stages + 1 : 1);
  const auto first = model->create_sequence();
  evaluate(*model, first, past);
  const auto reference_sequence = model->fork_sequence(first);
  const auto reference = evaluate(*model, reference_sequence, prompt, Outputs::all);
  model->remove_sequence(reference_sequence);

  int failures = 0;
  // Every run of stages; of groups, which wait for each other, some.
  const int64_t stride = one.split == plan::Split::layer ? 1 : 5;
  for (const Failure kind :
       {Failure::in_queue, Failure::at_call, Failure::out_of_memory, Failure::foreign}) {
    for (uint32_t d = 0; d < one.n_devices; ++d) {
      Faults& faults = *machine.faults[d];
      const int64_t runs = faults.runs;
      const auto whole = model->fork_sequence(first);
      evaluate(*model, whole, prompt, Outputs::all);
      model->remove_sequence(whole);
      const int64_t n_runs = faults.runs - runs;
      ASSERT_GE(n_runs, 6);
      const auto sequence = model->fork_sequence(first);
      const uint32_t free = model->cache().free_blocks();
      for (int64_t at = 0; at < n_runs; at += kind == Failure::in_queue ? stride : 7) {
        SCOPED_TRACE("device " + std::to_string(d) + " fails in run " + std::to_string(at));
        watchdog.at(std::string(one.name) + ", device " + std::to_string(d) + ", run " +
                    std::to_string(at) + ", kind " + std::to_string(static_cast<int>(kind)));
        faults.kind = kind;
        faults.fail_run_in(at);
        const int hits = faults.hits;
        try {
          evaluate(*model, sequence, prompt, Outputs::all);
          ADD_FAILURE() << "it was to fail";
        } catch (const Error& error) {
          ++failures;
          const std::string what = error.what();
          EXPECT_EQ(error.code(), ErrorCode::internal);
          const std::string name = kind == Failure::at_call ? "cpu" : "d" + std::to_string(d);
          EXPECT_NE(what.find("'" + name + "'"), std::string::npos) << what;
          EXPECT_EQ(what.find("another device"), std::string::npos) << what;
        }
        EXPECT_EQ(faults.hits, hits + 1);
        machine.work();
        EXPECT_EQ(model->length(sequence), past.size());
        EXPECT_EQ(model->cache().free_blocks(), free);
        EXPECT_EQ(model->free_lanes(), model->n_lanes());
        if (at % 4 == 0) {
          const auto next = model->fork_sequence(sequence);
          ASSERT_TRUE(same_bits(evaluate(*model, next, prompt, Outputs::all), reference));
          model->remove_sequence(next);
        }
      }
      // The same sequence goes on.
      ASSERT_TRUE(same_bits(evaluate(*model, sequence, prompt, Outputs::all), reference));
      model->remove_sequence(sequence);
    }
  }
  EXPECT_GT(failures, 10);
  model->remove_sequence(first);
  EXPECT_EQ(model->cache().free_blocks(), blocks);
}

TEST_P(Steps, a_prompt_that_is_stopped_changes_nothing) {
  const StepCase& one = GetParam();
  test::Watchdog watchdog(std::chrono::seconds(400));
  const auto past = random_tokens(37, 3), prompt = random_tokens(150, 4);
  Machine machine(one.n_devices, one.split);
  const auto model = machine.load(stored(one.model));
  const auto first = model->create_sequence();
  evaluate(*model, first, past);
  const auto clean = model->fork_sequence(first);
  const auto reference = evaluate(*model, clean, prompt);
  model->remove_sequence(clean);
  const auto sequence = model->fork_sequence(first);
  const uint32_t free = model->cache().free_blocks();
  for (uint32_t d = 0; d < one.n_devices; ++d) machine.faults[d]->delay_us = d == 0 ? 0 : 300;
  for (int at = 0; at < 9; ++at) {
    int asked = 0;
    runtime::EvaluateOptions options;
    options.stop = [&] { return asked++ == at; };
    try {
      evaluate(*model, sequence, prompt, Outputs::last, options);
      ADD_FAILURE() << "it was to be stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.what();
    }
    EXPECT_EQ(model->length(sequence), past.size());
    EXPECT_EQ(model->cache().free_blocks(), free);
    EXPECT_EQ(model->free_lanes(), model->n_lanes());
    const auto next = model->fork_sequence(sequence);
    EXPECT_TRUE(same_bits(evaluate(*model, next, prompt), reference)) << "stopped at " << at;
    model->remove_sequence(next);
  }
  // A sink that throws, at any row.
  for (const size_t at : {0, 1, 63, 64, 149}) {
    size_t rows = 0;
    const Chunk chunk{sequence, prompt, Outputs::all};
    EXPECT_THROW(model->evaluate({&chunk, 1},
                                 [&](size_t, size_t, std::span<const float>) {
                                   if (rows++ == at) throw std::out_of_range("full");
                                 }),
                 std::out_of_range);
    EXPECT_EQ(model->length(sequence), past.size());
    EXPECT_EQ(model->cache().free_blocks(), free);
    EXPECT_EQ(model->free_lanes(), model->n_lanes());
  }
  EXPECT_TRUE(same_bits(evaluate(*model, sequence, prompt), reference));
}

// What a user's many requests do, with everything that can go wrong among them.
TEST_P(Steps, many_requests_with_failures) {
  const StepCase& one = GetParam();
  test::Watchdog watchdog(std::chrono::seconds(500), std::string(one.name) + ", many requests");
  // Stages give the bits of one device; shards those of the same shards without failures.
  const bool layers = one.split == plan::Split::layer;
  Machine machine(one.n_devices, one.split), sound(layers ? 1 : one.n_devices, one.split, 1);
  const auto model = machine.load(stored(one.model));
  const auto clean = sound.load(stored(one.model));
  // So many at least that everything can be expected to happen.
  const int requests = std::max(test::repeated(one.requests), std::min(one.requests, 300));
  std::mt19937 random(17);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::map<SequenceId, std::vector<int32_t>> truth;
  int failed = 0, stopped = 0, thrown = 0, full = 0, fine = 0, checked = 0;

  // The last logits of what the sequence should hold.
  const auto expect_right = [&](const std::vector<int32_t>& tokens,
                                const std::vector<float>& logits) {
    const auto sequence = clean->create_sequence();
    ASSERT_TRUE(same_bits(evaluate(*clean, sequence, tokens), logits));
    clean->remove_sequence(sequence);
    ++checked;
  };
  const auto any_sequence = [&] {
    auto it = truth.begin();
    std::advance(it, below(static_cast<uint32_t>(truth.size())));
    return it->first;
  };
  const auto maybe_break = [&](uint32_t one_in) {
    if (below(one_in) != 0) return;
    Faults& faults = *machine.faults[below(one.n_devices)];
    faults.kind = static_cast<Failure>(below(4));
    faults.fail_run_in(below(6));
  };
  const auto check_error = [&](const Error& error) {
    switch (error.code()) {
      case ErrorCode::internal:
        EXPECT_NE(std::string(error.what()).find("device '"), std::string::npos) << error.what();
        ++failed;
        break;
      case ErrorCode::cancelled:
        ++stopped;
        break;
      case ErrorCode::does_not_fit:
        ++full;
        break;
      default:
        ADD_FAILURE() << error.what();
    }
  };

  bool after_failure = false;
  for (int i = 0; i < requests; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    if (truth.empty() || (below(10) == 0 && truth.size() < 6)) truth[model->create_sequence()];
    if (below(12) == 0 && truth.size() < 6) {
      const SequenceId from = any_sequence();
      truth[model->fork_sequence(from)] = truth[from];
    }
    if (below(14) == 0) {
      const SequenceId id = any_sequence();
      const uint32_t length = below(static_cast<uint32_t>(truth[id].size()) + 1);
      model->truncate_sequence(id, length);
      truth[id].resize(length);
    }
    for (auto it = truth.begin(); it != truth.end() && truth.size() > 1;) {
      const bool drop = it->second.size() > 120 || below(60) == 0;
      if (drop) model->remove_sequence(it->first);
      it = drop ? truth.erase(it) : std::next(it);
    }
    if (below(2) == 0) {
      // One call with several chunks, which may belong to one sequence.
      const uint32_t n = 1 + below(3);
      std::vector<std::vector<int32_t>> tokens;
      std::vector<Chunk> chunks;
      for (uint32_t c = 0; c < n; ++c) tokens.push_back(random_tokens(1 + below(24), random()));
      for (const auto& list : tokens) chunks.push_back({any_sequence(), list, Outputs::last});
      std::vector<std::vector<float>> logits(n);
      maybe_break(8);
      runtime::EvaluateOptions options;
      int until = below(8) == 0 ? static_cast<int>(below(5)) : 1000;
      options.stop = [&] { return until-- == 0; };
      const bool throws = below(20) == 0;
      bool right = false;
      try {
        model->evaluate(
            chunks,
            [&](size_t chunk, size_t, std::span<const float> row) {
              if (throws && chunk + 1 == n) throw std::out_of_range("full");
              logits[chunk].assign(row.begin(), row.end());
            },
            options);
        right = true;
        ++fine;
      } catch (const Error& error) {
        check_error(error);
      } catch (const std::out_of_range&) {
        ++thrown;
      }
      machine.work();
      const bool check = right && (after_failure || below(25) == 0);
      for (uint32_t c = 0; right && c < n; ++c) {
        std::vector<int32_t>& history = truth[chunks[c].sequence];
        history.insert(history.end(), tokens[c].begin(), tokens[c].end());
        if (check) expect_right(history, logits[c]);
      }
      after_failure = !right;
    } else {
      // Several micro-batches in flight.
      struct Flight {
        runtime::Model::JobId id;
        SequenceId sequence;
        std::vector<int32_t> tokens;
      };
      std::vector<Flight> flights;
      std::map<SequenceId, bool> broken;
      maybe_break(8);
      bool all_right = true;
      for (uint32_t f = 0; f < model->n_lanes(); ++f) {
        Flight flight{0, any_sequence(), random_tokens(1 + below(k_ubatch), random())};
        const Chunk chunk{flight.sequence, flight.tokens, Outputs::last};
        try {
          flight.id = model->start({&chunk, 1});
          flights.push_back(std::move(flight));
        } catch (const Error& error) {
          check_error(error);
          all_right = false;
        }
      }
      const bool check = after_failure || below(25) == 0;
      for (const Flight& flight : flights) {
        std::vector<float> logits;
        std::vector<int32_t>& history = truth[flight.sequence];
        try {
          model->finish(flight.id, [&](size_t, size_t, std::span<const float> row) {
            logits.assign(row.begin(), row.end());
          });
          EXPECT_FALSE(broken[flight.sequence]) << "it follows one that failed";
          history.insert(history.end(), flight.tokens.begin(), flight.tokens.end());
          ++fine;
          if (check) expect_right(history, logits);
        } catch (const Error& error) {
          check_error(error);
          broken[flight.sequence] = true;
          all_right = false;
        }
      }
      machine.work();
      after_failure = !all_right;
    }
    ASSERT_EQ(model->free_lanes(), model->n_lanes());
    for (const auto& [id, tokens] : truth) ASSERT_EQ(model->length(id), tokens.size());
    if (testing::Test::HasFailure()) return;
  }
  for (const auto& [id, tokens] : truth) model->remove_sequence(id);
  EXPECT_EQ(model->cache().free_blocks(), model->cache().n_blocks());
  std::printf("%d fine (%d compared), %d failed, %d stopped, %d full, %d sinks threw\n", fine,
              checked, failed, stopped, full, thrown);
  EXPECT_GT(failed, requests / 40);
  EXPECT_GT(stopped, requests / 60);
  EXPECT_GT(checked, requests / 20);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Steps,
    testing::Values(StepCase{"layer_2", 2, plan::Split::layer, k_dense, 10000},
                    StepCase{"layer_3", 3, plan::Split::layer, k_mixture, 1000},
                    StepCase{"tensor_2", 2, plan::Split::tensor, k_dense, 500},
                    StepCase{"tensor_3", 3, plan::Split::tensor, k_mixture, 200},
                    StepCase{"groups_of_2", 4, plan::Split::tensor, k_dense, 200}),
    [](const auto& one) { return std::string(one.param.name); });

// A micro-batch fails while others are in flight.
TEST(Faults, those_that_follow_in_the_sequence_fail_and_no_others) {
  test::Watchdog watchdog(std::chrono::seconds(100));
  Machine machine(2, plan::Split::layer, 3);
  const auto model = machine.load(stored(k_dense));
  const auto a = model->create_sequence(), b = model->create_sequence();
  const auto tokens = random_tokens(40, 9);
  const auto reference = evaluate(*model, b, std::span(tokens).first(k_ubatch));
  model->truncate_sequence(b, 0);
  for (const bool in_order : {true, false}) {
    machine.faults[1]->fail_run_in(0);
    const auto part = [&](SequenceId id, size_t at) {
      const Chunk chunk{id, std::span(tokens).subspan(at, k_ubatch), Outputs::last};
      return model->start({&chunk, 1});
    };
    const auto first = part(a, 0), other = part(b, 0), second = part(a, k_ubatch);
    std::vector<float> logits;
    const auto sink = [&](size_t, size_t, std::span<const float> row) {
      logits.assign(row.begin(), row.end());
    };
    EXPECT_THROW(model->finish(in_order ? first : second, sink), Error);
    EXPECT_EQ(model->length(a), in_order ? 0u : k_ubatch);
    EXPECT_THROW(model->finish(in_order ? second : first, sink), Error);
    EXPECT_EQ(model->length(a), 0u);
    model->finish(other, sink);
    EXPECT_TRUE(same_bits(logits, reference));
    EXPECT_TRUE(same_bits(evaluate(*model, a, std::span(tokens).first(k_ubatch)), reference));
    model->truncate_sequence(a, 0);
    model->truncate_sequence(b, 0);
  }
  EXPECT_EQ(model->cache().free_blocks(), model->cache().n_blocks());
}

TEST(Faults, a_sequence_may_go_while_it_is_in_flight) {
  test::Watchdog watchdog(std::chrono::seconds(100));
  Machine machine(2, plan::Split::layer, 3);
  const auto model = machine.load(stored(k_dense));
  const auto tokens = random_tokens(30, 10);
  for (const bool fails : {false, true}) {
    const auto a = model->create_sequence();
    evaluate(*model, a, tokens);
    const auto b = model->fork_sequence(a);
    if (fails) machine.faults[0]->fail_run_in(0);
    const Chunk chunk{b, std::span(tokens).first(8), Outputs::last};
    const auto job = model->start({&chunk, 1});
    model->remove_sequence(b);
    model->remove_sequence(a);
    const auto sink = [](size_t, size_t, std::span<const float>) {};
    if (fails) {
      EXPECT_THROW(model->finish(job, sink), Error);
    } else {
      model->finish(job, sink);
    }
    EXPECT_EQ(model->cache().free_blocks(), model->cache().n_blocks());
    EXPECT_EQ(model->free_lanes(), model->n_lanes());
  }
}

TEST(Faults, a_model_may_go_while_micro_batches_are_in_flight) {
  test::Watchdog watchdog(std::chrono::seconds(100));
  const auto tokens = random_tokens(k_ubatch, 11);
  for (const plan::Split split : {plan::Split::layer, plan::Split::tensor}) {
    for (const bool fails : {false, true}) {
      Machine machine(2, split);
      {
        const auto model = machine.load(stored(k_dense));
        machine.faults[1]->delay_us = 2000;
        if (fails) machine.faults[1]->fail_run_in(1);
        const auto sequence = model->create_sequence();
        for (uint32_t lane = 0; lane < model->n_lanes(); ++lane) {
          const Chunk chunk{sequence, tokens, Outputs::last};
          model->start({&chunk, 1});
        }
      }
      for (const auto& faults : machine.faults) EXPECT_EQ(faults->left_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace strata
