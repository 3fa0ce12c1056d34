// Embeddings: the formulas of pooling and norms, and the same vectors beside whatever else runs.
#include "strata/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "engine/scheduler.h"
#include "support.h"
#include "tiny_model.h"

namespace strata {
namespace {

using Vector = std::vector<float>;

std::unique_ptr<Engine> open(uint64_t n_context, const std::string& devices = "cpu:0",
                             const std::string& split = "layer", uint32_t n_ubatch = 64) {
  EngineOptions options;
  options.model = std::string(STRATA_SOURCE_DIR) + "/models/demo-q8_0.gguf";
  options.n_context = n_context;
  options.n_ubatch = n_ubatch;
  options.placement.devices = devices;
  options.placement.split = split;
  options.placement.measure = false;
  return Engine::open(options);
}

bool same(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

TEST(Normalise, is_the_formula) {
  const Vector in{3, -4, 0, 0.5f, -1.25f};
  for (const int32_t norm : {-1, 0, 1, 2, 3, 7}) {
    Vector got = in;
    normalise(got, norm);
    double length = 0;
    for (const float x : in) {
      length = norm <= 0 ? std::max(length, std::fabs(double{x}))
                         : length + std::pow(std::fabs(double{x}), norm);
    }
    if (norm > 0) length = std::pow(length, 1.0 / norm);
    const double factor = norm < 0 ? 1 : norm == 0 ? 32760 / length : 1 / length;
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_NEAR(got[i], in[i] * factor, std::fabs(in[i] * factor) * 1e-6) << norm;
    }
  }
}

TEST(Normalise, holds_where_powers_would_not) {
  Vector large{3e38f, -3e38f, 1e38f}, tiny{1e-40f, 0, 0}, zero{0, 0};
  normalise(large, 2);
  EXPECT_NEAR(large[0], 3 / std::sqrt(19.0), 1e-6);
  normalise(tiny, 1000);
  EXPECT_EQ(tiny[0], 1);
  normalise(zero, 2);
  EXPECT_EQ(zero, (Vector{0, 0}));
  Vector many(1000, 2);
  normalise(many, k_max_norm);
  for (const float x : many) EXPECT_NEAR(x, 1, 1e-4);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Vector broken{1, bad};
    try {
      normalise(broken, -1);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
    }
  }
}

TEST(Pooling, has_names) {
  for (const Pooling one : {Pooling::none, Pooling::mean, Pooling::cls, Pooling::last}) {
    EXPECT_EQ(parse_pooling(name_of(one)), one);
  }
  EXPECT_FALSE(parse_pooling("rank"));
  EXPECT_FALSE(parse_pooling(""));
}

TEST(Embedding, is_the_pooled_hidden_states) {
  const auto engine = open(512);
  const auto tokens = engine->tokenize(
      "Tom and Mia went to the lake. The dog ran after them, and "
      "then it was time to go home. ",
      true, false);
  const size_t width = engine->info().n_embd;
  Vector all;
  engine->hidden_states(tokens, 0, [&](size_t position, std::span<const float> row) {
    EXPECT_EQ(position * width, all.size());
    all.insert(all.end(), row.begin(), row.end());
  });
  ASSERT_EQ(all.size(), tokens.size() * width);
  EXPECT_TRUE(same(engine->embed(tokens, Pooling::none), all));
  EXPECT_TRUE(same(engine->embed(tokens, Pooling::last),
                   Vector(all.end() - static_cast<ptrdiff_t>(width), all.end())));
  EXPECT_TRUE(same(engine->embed(tokens, Pooling::cls),
                   Vector(all.begin(), all.begin() + static_cast<ptrdiff_t>(width))));
  const Vector mean = engine->embed(tokens, Pooling::mean);
  ASSERT_EQ(mean.size(), width);
  for (size_t i = 0; i < width; ++i) {
    double sum = 0;
    for (size_t t = 0; t < tokens.size(); ++t) sum += double{all[t * width + i]};
    EXPECT_EQ(mean[i], static_cast<float>(sum / static_cast<double>(tokens.size())));
  }
}

TEST(Embedding, refuses_what_cannot_be_read) {
  const auto engine = open(64);
  EXPECT_THROW(engine->embed({}, Pooling::last), Error);
  const std::vector<TokenId> many(65, 5);
  try {
    engine->embed(many, Pooling::mean);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find("65 tokens"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("holds 64"), std::string::npos);
  }
  EXPECT_EQ(engine->embed(std::span(many).first(64), Pooling::mean).size(), engine->info().n_embd);
}

TEST(Embedding, pooling_is_the_files) {
  EXPECT_FALSE(open(64)->info().pooling);
  for (const auto& [number, pooling] :
       {std::pair<uint32_t, std::optional<Pooling>>{1, Pooling::mean},
        {3, Pooling::last},
        {4, std::nullopt}}) {
    const test::TemporaryFile file;
    test::TinyModel model = test::tiny_model();
    model.metadata.set("llama.pooling_type", number);
    model.write(file.path());
    EngineOptions options;
    options.model = file.path();
    options.n_context = 64;
    EXPECT_EQ(Engine::open(options)->info().pooling, pooling) << number;
  }
}

// Embeddings asked of a scheduler.
class Vectors {
 public:
  explicit Vectors(Scheduler& scheduler) : scheduler_(scheduler) {}
  RequestId ask(std::vector<TokenId> tokens, Pooling pooling) {
    return ask(std::vector<std::vector<TokenId>>{std::move(tokens)}, pooling);
  }
  // As one request.
  RequestId ask(std::vector<std::vector<TokenId>> texts, Pooling pooling) {
    const size_t first = add(texts.size());
    EmbeddingListener listener;
    listener.done = [this, first](size_t text, Vector vector) {
      const std::lock_guard lock(mutex_);
      results_[first + text].vector = std::move(vector);
      --open_;
    };
    listener.failed = [this, first, n = texts.size()](const Error& error) {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < n; ++i) {
        Result& one = results_[first + i];
        if (!one.vector.empty()) continue;
        one.error = error.code();
        --open_;
      }
    };
    return scheduler_.embed({std::move(texts), pooling, 0}, std::move(listener));
  }
  void wait() {
    for (int i = 0; i < 600000 && open() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(open(), 0u);
  }
  struct Result {
    Vector vector;
    std::optional<ErrorCode> error;
  };
  Result operator[](size_t i) const {
    const std::lock_guard lock(mutex_);
    return results_[i];
  }

 private:
  size_t add(size_t n) {
    const std::lock_guard lock(mutex_);
    results_.resize(results_.size() + n);
    open_ += n;
    return results_.size() - n;
  }
  size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  Scheduler& scheduler_;
  mutable std::mutex mutex_;
  std::vector<Result> results_;
  size_t open_ = 0;
};

std::vector<std::vector<TokenId>> some_texts(uint32_t longest) {
  std::vector<std::vector<TokenId>> out;
  for (uint32_t i = 0; i < 40; ++i) {
    std::vector<TokenId> tokens(1 + i * 37 % longest);
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = static_cast<TokenId>(3 + (i * 131 + t * 17) % 250);
    }
    out.push_back(std::move(tokens));
  }
  return out;
}

void check_beside_generation(const std::string& devices, const std::string& split,
                             uint64_t n_context, uint32_t n_ubatch, uint32_t longest) {
  const auto engine = open(n_context, devices, split, n_ubatch);
  const auto texts = some_texts(longest);
  constexpr Pooling k_kinds[] = {Pooling::mean, Pooling::last, Pooling::cls, Pooling::none};
  std::vector<Vector> want;
  for (size_t i = 0; i < texts.size(); ++i) {
    want.push_back(engine->embed(texts[i], k_kinds[i % 4]));
  }
  const auto prompt = engine->tokenize("Once upon a time");
  GenerateOptions greedy;
  greedy.max_tokens = 50;
  greedy.sampling.temperature = 0;
  std::string story;
  {
    Session session(*engine);
    story = session.generate(prompt, greedy).text;
  }
  SchedulerOptions options;
  options.n_parallel = 2;
  options.max_waiting = 1000;
  Scheduler scheduler(*engine, options);
  Vectors vectors(scheduler);
  std::atomic<int> answers{0};
  std::vector<std::string> stories(6);
  for (size_t i = 0; i < stories.size(); ++i) {
    GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = 50;
    request.sampling.temperature = 0;
    request.cache_prompt = false;
    Listener listener;
    listener.done = [&, i](uint32_t, const std::string&, const GenerateResult& result) {
      stories[i] = result.text;
      ++answers;
    };
    listener.failed = [&](const Error& error) {
      ADD_FAILURE() << error.what();
      ++answers;
    };
    scheduler.submit(request, std::move(listener));
    for (size_t k = i * 7; k < std::min(texts.size(), i * 7 + 7); ++k) {
      vectors.ask(texts[k], k_kinds[k % 4]);
    }
  }
  vectors.wait();
  for (int i = 0; i < 600000 && answers < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_FALSE(vectors[i].error) << i;
    EXPECT_TRUE(same(vectors[i].vector, want[i])) << i << ": " << name_of(k_kinds[i % 4]);
  }
  for (const std::string& one : stories) EXPECT_EQ(one, story);
  EXPECT_TRUE(scheduler.drain(10));
  // Neither asked for the cache: nothing is left in it.
  SchedulerState state = scheduler.state();
  for (int i = 0; i < 1000 && state.running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = scheduler.state();
  }
  EXPECT_EQ(state.finished, texts.size() + stories.size());
  EXPECT_EQ(state.kv_free, state.kv_blocks);
  EXPECT_EQ(state.kv_kept, 0u);
}

TEST(Embedding, the_same_beside_others) {
  check_beside_generation("cpu:0", "layer", 2048, 64, 200);
}

TEST(Embedding, the_same_on_two_stages) {
  check_beside_generation("cpu:0,cpu:1", "layer", 2048, 32, 200);
}

TEST(Embedding, the_same_on_shards) {
  check_beside_generation("cpu:0,cpu:1", "tensor", 2048, 64, 200);
}

// So little room that one gives its place up for the other.
TEST(Embedding, the_same_where_the_cache_is_small) {
  check_beside_generation("cpu:0", "layer", 256, 48, 250);
}

TEST(Embedding, fill_the_steps_together) {
  const auto engine = open(4096, "cpu:0", "layer", 256);
  SchedulerOptions options;
  options.n_parallel = 1;
  options.max_waiting = 1000;
  Scheduler scheduler(*engine, options);
  Vectors vectors(scheduler);
  for (int i = 0; i < 200; ++i) vectors.ask(std::vector<TokenId>(8, 5 + i % 100), Pooling::mean);
  vectors.wait();
  EXPECT_TRUE(scheduler.drain(10));
  // 1600 tokens in steps of 256 are 7; the first ones may begin before all have come.
  EXPECT_LE(scheduler.state().steps, 60u);
  EXPECT_EQ(scheduler.state().prompt_tokens, 1600u);
}

// However many texts it has, a request is one that waits, and it lets others in between.
TEST(Embedding, many_texts_are_one_request) {
  const auto engine = open(1024);
  const auto texts = some_texts(100);
  std::vector<Vector> want;
  for (const auto& text : texts) want.push_back(engine->embed(text, Pooling::mean));
  SchedulerOptions options;
  options.max_waiting = 2;
  Scheduler scheduler(*engine, options);
  Vectors vectors(scheduler);
  std::vector<std::vector<TokenId>> many;
  for (int i = 0; i < 10; ++i) many.insert(many.end(), texts.begin(), texts.end());
  const RequestId large = vectors.ask(many, Pooling::mean);
  vectors.ask(std::vector<TokenId>(texts[7]), Pooling::mean);
  for (int i = 0; i < 600000 && vectors[many.size()].vector.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(same(vectors[many.size()].vector, want[7]));
  scheduler.cancel(large);
  vectors.wait();
  size_t done = 0;
  for (size_t i = 0; i < many.size(); ++i) {
    if (vectors[i].error) {
      EXPECT_EQ(vectors[i].error, ErrorCode::cancelled);
      continue;
    }
    ++done;
    EXPECT_TRUE(same(vectors[i].vector, want[i % want.size()])) << i;
  }
  EXPECT_LT(done, many.size());
  vectors.ask(texts, Pooling::mean);
  vectors.wait();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(same(vectors[many.size() + 1 + i].vector, want[i])) << i;
  }
  EXPECT_TRUE(scheduler.drain(10));
}

TEST(Embedding, can_be_cancelled_and_refused) {
  const auto engine = open(2048);
  Scheduler scheduler(*engine, {});
  Vectors vectors(scheduler);
  std::vector<RequestId> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(vectors.ask(std::vector<TokenId>(2000, 5 + i), Pooling::mean));
  }
  for (size_t i = 0; i < ids.size(); i += 2) scheduler.cancel(ids[i]);
  for (const auto& tokens : {std::vector<TokenId>{}, std::vector<TokenId>(2049, 5),
                             std::vector<TokenId>{5, -1}, std::vector<TokenId>{1 << 30}}) {
    EXPECT_THROW(scheduler.embed({{{5}, tokens}, Pooling::mean, 0}, {}), Error);
  }
  EXPECT_THROW(scheduler.embed({}, {}), Error);
  vectors.wait();
  for (size_t i = 1; i < ids.size(); i += 2) {
    EXPECT_EQ(vectors[i].vector.size(), engine->info().n_embd) << i;
  }
  // The first may have been through already.
  int cancelled = 0;
  for (size_t i = 0; i < ids.size(); i += 2) {
    if (!vectors[i].error) continue;
    EXPECT_EQ(vectors[i].error, ErrorCode::cancelled);
    ++cancelled;
  }
  EXPECT_GE(cancelled, 8);
}

}  // namespace
}  // namespace strata
