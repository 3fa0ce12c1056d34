// Continuous batching: whatever runs beside it, a request gets the answer that it gets alone.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "base/error.h"
#include "support.h"

namespace strata {
namespace {

std::string demo(const char* name = "demo-q8_0.gguf") {
  return std::string(STRATA_SOURCE_DIR) + "/models/" + name;
}

std::unique_ptr<Engine> open(uint64_t n_context, const std::string& devices = "cpu:0",
                             const std::string& split = "layer", uint32_t n_ubatch = 64) {
  EngineOptions options;
  options.model = demo();
  options.n_context = n_context;
  options.n_ubatch = n_ubatch;
  options.placement.devices = devices;
  options.placement.split = split;
  options.placement.measure = false;
  return Engine::open(options);
}

struct Answer {
  std::string streamed;
  std::optional<GenerateResult> result;
  std::optional<ErrorCode> error;
};

// Requests and what came of them; waits for all.
class Clients {
 public:
  explicit Clients(Scheduler& scheduler) : scheduler_(scheduler) {}

  RequestId ask(GenerationRequest request) {
    const size_t base = answers_.size();
    for (uint32_t i = 0; i < request.n; ++i) answers_.push_back(std::make_unique<Answer>());
    const uint32_t n = request.n;
    open_ += n;
    Listener listener;
    listener.token = [this, base](uint32_t choice, const std::string& text, const Sample&) {
      answers_[base + choice]->streamed += text;
    };
    listener.done = [this, base](uint32_t choice, const std::string& rest,
                                 const GenerateResult& result) {
      answers_[base + choice]->streamed += rest;
      answers_[base + choice]->result = result;
      --open_;
    };
    listener.failed = [this, base, n](const Error& error) {
      for (uint32_t i = 0; i < n; ++i) answers_[base + i]->error = error.code();
      open_ -= n;
    };
    return scheduler_.submit(std::move(request), std::move(listener));
  }
  void wait() {
    for (int i = 0; i < 600000 && open_ > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(open_, 0);
  }
  const Answer& operator[](size_t i) const { return *answers_[i]; }

 private:
  Scheduler& scheduler_;
  std::deque<std::unique_ptr<Answer>> answers_;
  std::atomic<int> open_{0};
};

GenerationRequest greedy(const Engine& engine, const std::string& prompt, int64_t n) {
  GenerationRequest request;
  request.prompt = engine.tokenize(prompt);
  request.max_tokens = n;
  request.sampling.temperature = 0;
  return request;
}

const char* const k_prompts[] = {"Once upon a time",
                                 "Tom and Mia went to the lake.",
                                 "The dog",
                                 "One day, a little girl named Lily found a",
                                 "In the village there was",
                                 "Ben had a red ball."};

std::vector<std::string> alone(Engine& engine, int64_t n) {
  std::vector<std::string> out;
  for (const char* prompt : k_prompts) {
    Session session(engine);
    GenerateOptions options;
    options.max_tokens = n;
    options.sampling.temperature = 0;
    out.push_back(session.generate(engine.tokenize(prompt), options).text);
  }
  return out;
}

void check_same_answers(const std::string& devices, const std::string& split, uint64_t n_context) {
  const auto engine = open(n_context, devices, split);
  const std::vector<std::string> want = alone(*engine, 60);
  Scheduler scheduler(*engine, {4, 1000, 16, true});
  Clients clients(scheduler);
  for (int i = 0; i < 60; ++i) clients.ask(greedy(*engine, k_prompts[i % 6], 60));
  clients.wait();
  for (size_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(clients[i].result) << i;
    EXPECT_EQ(clients[i].result->text, want[i % 6]) << i;
    EXPECT_EQ(clients[i].streamed, clients[i].result->text) << i;
  }
  EXPECT_EQ(scheduler.state().finished, 60u);
}

TEST(Scheduler, answers_are_those_of_a_request_alone) {
  check_same_answers("cpu:0", "layer", 2048);
}

// Too little room for four at once: some give their place up and are resumed.
TEST(Scheduler, a_full_cache_changes_no_answer) { check_same_answers("cpu:0", "layer", 160); }

TEST(Scheduler, several_devices_change_no_answer) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  check_same_answers("cpu:0,cpu:1", "layer", 2048);
  check_same_answers("cpu:0,cpu:1", "tensor", 320);
}

TEST(Scheduler, prompts_that_begin_alike_are_read_once) {
  const auto engine = open(2048);
  std::string system;
  for (int i = 0; i < 20; ++i) system += "The little dog and the big cat went to the lake. ";
  const auto request = [&](const std::string& tail) { return greedy(*engine, system + tail, 5); };
  // Before the scheduler has the model to itself.
  std::string want;
  {
    Session session(*engine);
    GenerateOptions options;
    options.max_tokens = 5;
    options.sampling.temperature = 0;
    want = session.generate(engine->tokenize(system + "Mia"), options).text;
  }
  Scheduler scheduler(*engine, {4, 100, 64, true});
  Clients clients(scheduler);
  clients.ask(request("Tom"));
  clients.wait();
  clients.ask(request("Mia"));
  clients.wait();
  EXPECT_EQ(clients[0].result->cached_tokens, 0u);
  EXPECT_GT(clients[1].result->cached_tokens, clients[1].result->prompt_tokens - 40);
  EXPECT_EQ(clients[1].result->text, want);
}

TEST(Scheduler, several_answers_to_one_prompt) {
  const auto engine = open(2048);
  Scheduler scheduler(*engine, {4, 100, 64, true});
  Clients clients(scheduler);
  GenerationRequest request = greedy(*engine, "Once upon a time", 20);
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.n = 3;
  clients.ask(request);
  clients.wait();
  EXPECT_NE(clients[0].result->text, clients[1].result->text);
  EXPECT_NE(clients[1].result->text, clients[2].result->text);
  // The first is that of the seed alone.
  request.n = 1;
  clients.ask(request);
  clients.wait();
  EXPECT_EQ(clients[3].result->text, clients[0].result->text);
}

TEST(Scheduler, more_answers_than_places) {
  const auto engine = open(2048);
  std::vector<std::string> want;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "cat dog ";
  GenerationRequest request = greedy(*engine, words, 20);
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.n = 7;
  {
    Scheduler roomy(*engine, {8, 100, 64, true});
    Clients clients(roomy);
    clients.ask(request);
    clients.wait();
    for (size_t i = 0; i < 7; ++i) want.push_back(clients[i].result->text);
  }
  EXPECT_NE(want[5], want[6]);
  for (const bool cache : {true, false}) {
    for (const uint32_t places : {1u, 2u, 3u}) {
      Scheduler scheduler(*engine, {.n_parallel = places, .max_waiting = 1, .prefix_cache = cache});
      Clients clients(scheduler);
      clients.ask(request);
      clients.wait();
      for (size_t i = 0; i < 7; ++i) {
        EXPECT_EQ(clients[i].result->text, want[i]) << places << " " << i;
        EXPECT_EQ(clients[i].result->prompt_tokens, request.prompt.size());
        if (i >= places || !cache) {
          EXPECT_EQ(clients[i].result->cached_tokens > 0, cache) << places << " " << i;
        }
      }
    }
  }
  // One who leaves is told of every answer, begun or not; nobody waits for the rest.
  Scheduler scheduler(*engine, {2, 100, 64, true});
  Clients clients(scheduler);
  request.max_tokens = 1000;
  request.sampling.ignore_eos = true;
  const RequestId id = clients.ask(request);
  while (scheduler.state().generated_tokens == 0) std::this_thread::yield();
  scheduler.cancel(id);
  clients.wait();
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(clients[i].result->reason, StopReason::cancelled);
  GenerationRequest none = greedy(*engine, "Once", 0);
  none.n = 5;
  clients.ask(none);
  clients.wait();
  for (size_t i = 7; i < 12; ++i) EXPECT_EQ(clients[i].result->tokens.size(), 0u);
  EXPECT_TRUE(scheduler.drain(20));
}

TEST(Scheduler, whoever_leaves_frees_everything) {
  const auto engine = open(512);
  Scheduler scheduler(*engine, {4, 1000, 32, false});
  Clients clients(scheduler);
  std::mt19937 random(3);
  std::vector<RequestId> ids;
  for (int i = 0; i < 300; ++i) {
    ids.push_back(clients.ask(greedy(*engine, k_prompts[random() % 6], 1 + random() % 30)));
    if (random() % 2 == 0) scheduler.cancel(ids[random() % ids.size()]);
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 900));
  }
  clients.wait();
  // The thread looks after its lists once more after the last answer.
  for (int i = 0; i < 1000 && scheduler.state().running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const SchedulerState state = scheduler.state();
  EXPECT_EQ(state.finished + state.failed, 300u);
  EXPECT_EQ(state.kv_free, state.kv_blocks);
}

TEST(Scheduler, what_can_never_run_is_refused_at_once) {
  const auto engine = open(128);
  Scheduler scheduler(*engine, {2, 1, 32, true});
  const auto code = [&](GenerationRequest request) {
    try {
      scheduler.submit(std::move(request), {});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code({}), ErrorCode::bad_request);
  GenerationRequest request = greedy(*engine, "Once", 5);
  request.prompt.assign(200, 1);
  EXPECT_EQ(code(request), ErrorCode::does_not_fit);
  request.prompt = {1 << 20};
  EXPECT_EQ(code(request), ErrorCode::bad_request);
  request.prompt = {1};
  request.n = 0;
  EXPECT_EQ(code(request), ErrorCode::bad_request);
  request.n = 1;
  request.sampling.top_p = 7;
  EXPECT_EQ(code(request), ErrorCode::bad_request);
}

// What nobody asked for is no longer than what the model was trained for.
TEST(Scheduler, an_automatic_context_is_of_several_sequences_and_one_has_the_models_own) {
  EngineOptions options;
  options.model = demo();
  options.n_sequences = 3;
  options.placement.devices = "cpu:0";
  options.placement.measure = false;
  const auto engine = Engine::open(options);
  const ModelInfo& info = engine->info();
  ASSERT_EQ(info.n_context_trained, 512u);
  EXPECT_EQ(info.n_context, 512u);
  EXPECT_EQ(info.n_cache, 3 * 512u);
  Scheduler scheduler(*engine, {3, 8, 64, true});
  Clients clients(scheduler);
  GenerationRequest request;
  request.prompt = std::vector<TokenId>(500, engine->tokenize("a")[0]);
  request.sampling.ignore_eos = true;
  clients.ask(request);
  clients.wait();
  ASSERT_TRUE(clients[0].result);
  EXPECT_EQ(clients[0].result->reason, StopReason::context_full);
  EXPECT_LE(clients[0].result->tokens.size(), 13u);
  request.prompt.resize(513, request.prompt[0]);
  EXPECT_THROW(clients.ask(request), Error);
  // Who asks for more gets it.
  options.n_context = 1536;
  EXPECT_EQ(Engine::open(options)->info().n_context, 1536u);
}

TEST(Scheduler, only_so_many_wait) {
  const auto engine = open(512);
  Scheduler scheduler(*engine, {1, 2, 32, true});
  Clients clients(scheduler);
  int busy = 0;
  for (int i = 0; i < 40; ++i) {
    try {
      clients.ask(greedy(*engine, k_prompts[i % 6], 50));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::busy);
      ++busy;
    }
  }
  EXPECT_GT(busy, 0);
  EXPECT_TRUE(scheduler.drain(60));
  EXPECT_THROW(scheduler.submit(greedy(*engine, "Once", 1), {}), Error);
}

// Who finds a place does not count as one who waits, however fast they come.
TEST(Scheduler, as_many_as_there_are_places_need_not_wait) {
  const auto engine = open(512);
  for (int round = 0; round < 20; ++round) {
    Scheduler scheduler(*engine, {4, 1, 32, true});
    Clients clients(scheduler);
    for (int i = 0; i < 5; ++i) {
      EXPECT_NO_THROW(clients.ask(greedy(*engine, k_prompts[i], 20))) << round << ", " << i;
    }
    EXPECT_TRUE(scheduler.drain(60));
  }
}

}  // namespace
}  // namespace strata
