// Continuous batching: many requests share one model, each gets its tokens as they are made.
//
// Purpose: every step is a micro-batch of whoever is ready: one token of each sequence that
// generates, and as much of the prompts being read as the step's budget leaves, so that a long
// prompt never stalls the others (step_pace.h). On a pipelined plan several micro-batches are in
// flight, of different sequences. Prompts that begin like earlier ones find that part in the cache.
// When the cache runs full in mid-answer, the youngest request gives its place up and is resumed
// later. Not for: HTTP and JSON (server/). Errors: submit() refuses what can never run,
// ErrorCode::bad_request or ::does_not_fit, and more requests than may wait, ErrorCode::busy. What
// fails later ends that request only, through Listener::failed. Ownership: uses the engine's model
// alone while it lives; the Engine must outlive it. Threads: submit, cancel and state from any
// thread. Listeners are called on the scheduler's own thread and must not block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/pool.h"
#include "engine/step_pace.h"
#include "runtime/model.h"
#include "strata/engine.h"
#include "text/grammar/matcher.h"
#include "text/sampler.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace strata {

struct SchedulerOptions {
  uint32_t n_parallel = 4;     // sequences that run at once
  uint32_t max_waiting = 256;  // requests that wait for a place
  // Most tokens of prompts in a step in which others generate. Fewer are read where the step would
  // take more than `stretch` times as long as without (step_pace.h).
  uint32_t prompt_tokens = 256;
  double stretch = 1.7;
  bool prefix_cache = true;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;
  int64_t max_tokens = -1;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool show_special = false;
  // Control tokens that appear in the text all the same, in ascending order; a grammar may ask for
  // them.
  std::vector<TokenId> shown;
  // The answer stays within it; each answer has a matcher of its own.
  std::shared_ptr<const text::Grammar> grammar;
  // Answers to the same prompt. As many as may run at once begin together; of the others one after
  // the other waits for a place, as a request of its own would.
  uint32_t n = 1;
  int32_t priority = 0;  // the greater goes first; equal ones in order of arrival
  bool cache_prompt = true;
  // Only requests of one scope find each other's prompts in the cache: how soon an answer begins
  // tells nobody what others have asked.
  uint32_t cache_scope = 0;
};

struct Listener {
  // `choice` of n. Text that is certain; may be empty when only the token counts.
  std::function<void(uint32_t choice, const std::string& text, const Sample& sample)> token;
  // The end of an answer; the text that was still held back is in it.
  std::function<void(uint32_t choice, const std::string& rest, const GenerateResult& result)> done;
  // The end of all answers that are not done.
  std::function<void(const Error& error)> failed;
  // Prompt tokens read so far of all; for progress.
  std::function<void(uint32_t done, uint32_t total)> progress;
};

// Vectors of texts (strata/embedding.h). They are read beside the others' prompts, take none of the
// places of those that generate, and leave nothing in the cache. However many the texts are, the
// request is one that waits.
struct EmbeddingRequest {
  std::vector<std::vector<TokenId>> texts;
  Pooling pooling = Pooling::last;
  int32_t priority = 0;
};

struct EmbeddingListener {
  // Of each text, in any order, as Engine::embed() gives it.
  std::function<void(size_t text, std::vector<float> embedding)> done;
  // The end of all that are not done; also when they were cancelled.
  std::function<void(const Error& error)> failed;
};

using RequestId = uint64_t;

// A sequence that runs. What it reads and writes is not told.
struct SlotState {
  RequestId request = 0;
  uint32_t choice = 0;
  uint32_t prompt_tokens = 0, prompt_read = 0, cached_tokens = 0;
  uint64_t generated = 0;
  int64_t max_tokens = -1;
};

struct SchedulerState {
  uint32_t running = 0, waiting = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;  // so far
  uint64_t steps = 0, preemptions = 0, finished = 0, failed = 0;
  double prompt_seconds = 0, generate_seconds = 0;  // added over requests
  // Free are those that can be had: empty ones, and kept ones that no sequence uses.
  uint64_t kv_blocks = 0, kv_free = 0, kv_kept = 0, kv_empty = 0;
  uint32_t parallel = 0;         // sequences that may run at once
  std::vector<SlotState> slots;  // of those that run, in order of admission
  std::vector<DeviceUse> devices;
};

class Scheduler {
 public:
  Scheduler(Engine& engine, const SchedulerOptions& options);
  // Ends what is running, as cancelled.
  ~Scheduler();

  RequestId submit(GenerationRequest request, Listener listener);
  RequestId embed(EmbeddingRequest request, EmbeddingListener listener);
  // For n requests that belong together: refuses as submit() would, before the first is taken; more
  // than there is ever room for are a FieldError, "prompt".
  void check_room(size_t n) const;
  // Ends the request at the next step; unknown ids are ignored.
  void cancel(RequestId id);
  // Ends every request.
  void cancel_all();
  // Takes no more requests and returns when all that are there are done, or after the time.
  bool drain(double seconds);
  SchedulerState state() const;

 private:
  struct Request;
  // One answer on its way.
  struct Sequence {
    std::shared_ptr<Request> request;
    uint32_t choice = 0;
    std::optional<runtime::SequenceId> id;  // none while it waits
    std::vector<TokenId> tokens;            // prompt and answer
    size_t started = 0;                     // of these handed to the model
    size_t in_flight = 0;                   // micro-batches
    bool generating = false;                // the prompt is through
    bool over = false;
    std::unique_ptr<text::Sampler> sampler;
    std::unique_ptr<text::GrammarMatcher> matcher;  // where there is a grammar
    std::unique_ptr<text::StopStrings> stops;
    std::unique_ptr<text::Detokenizer> detokenizer;
    std::optional<Pool> pool;  // of an embedding, which has nothing of the above
    GenerateResult result;
    double begun = 0, first_token_at = 0;
  };
  using SequencePtr = std::shared_ptr<Sequence>;
  struct Request {
    RequestId id = 0;
    GenerationRequest wanted;
    Listener listener;
    // Before the first token, where there is a grammar; made by the caller, who is told when that
    // cannot be.
    std::unique_ptr<text::GrammarMatcher> matcher;
    double arrived = 0, begun = 0;  // of an embedding
    uint32_t open = 0;              // answers that are not done
    bool cancelled = false;
    std::optional<EmbeddingRequest> embedding;  // then `choice` is the number of a text
    uint32_t next_text = 1;                     // the first that has no sequence yet
    uint32_t next_choice = 0;                   // the same of answers, after the first token
    std::function<void(size_t, std::vector<float>)> embedded;
  };
  struct Flying {
    runtime::Model::JobId job = 0;
    std::vector<SequencePtr> sequences;  // by chunk
    std::vector<size_t> ends;            // tokens of each that are then through
    double begun = 0;
    uint32_t generating = 0, prompt = 0;  // tokens
  };

  void check_tokens(std::span<const TokenId> tokens) const;
  void check_room_locked(size_t n) const;
  RequestId enqueue(std::shared_ptr<Request> request);
  void work();
  void tell_state();
  void take_new();
  void wait(const SequencePtr& sequence);
  void admit();
  bool make_room(uint32_t blocks, const Sequence* for_whom);
  void preempt(const SequencePtr& victim);
  bool start_step();
  void finish_step();
  void accept(const SequencePtr& sequence, std::span<const float> logits);
  void branch(const SequencePtr& first, std::span<const float> logits);
  void queue_next_choice(const std::shared_ptr<Request>& request);
  void generated(const SequencePtr& sequence, const Sample& sample);
  Sample draw(Sequence& sequence, std::span<const float> logits);
  void end(const SequencePtr& sequence, StopReason reason);
  void finish_embedding(const SequencePtr& sequence);
  void fail_request(const std::shared_ptr<Request>& request, const Error& error);
  void let_go(Sequence& sequence);
  std::shared_ptr<const text::TokenTrie> trie_with(const std::vector<TokenId>& shown);
  SequencePtr make_sequence(const std::shared_ptr<Request>& request, uint32_t choice) const;
  std::vector<SequencePtr> by_urgency(bool generating) const;

  Engine::Impl& impl_;
  runtime::Model& model_;
  SchedulerOptions options_;

  // By the control tokens that are in it; made when the first grammar comes.
  std::mutex tries_mutex_;
  std::map<std::vector<TokenId>, std::shared_ptr<const text::TokenTrie>> tries_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Request>> arrivals_;
  std::vector<RequestId> cancels_;
  SchedulerState state_;
  RequestId next_ = 1;
  uint32_t held_ = 0;  // requests that are not over
  bool stop_ = false;
  bool closed_ = false;
  bool cancel_all_ = false;

  // The scheduler's thread only.
  StepPace pace_;
  std::vector<uint32_t> mask_;
  std::list<SequencePtr> waiting_;  // in order of urgency
  std::list<SequencePtr> running_;  // in order of admission
  std::deque<Flying> flying_;
  std::thread thread_;  // starts when everything else is there
};

}  // namespace strata
