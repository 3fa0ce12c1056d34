// One generation on its way from the scheduler to a client, and what answers of all forms share.
//
// Ownership: the listener and the answer's stream hold a Call together.
// Threads: push from the scheduler's thread, pop from the client's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/scheduler.h"
#include "server/http.h"
#include "server/metrics.h"
#include "strata/engine.h"

namespace strata::server {

// What the scheduler tells, in order, until the client's thread takes it.
struct Call {
  struct Event {
    uint32_t choice = 0;
    std::string text;
    std::optional<Sample> sample;
    std::optional<GenerateResult> result;
    std::exception_ptr error;
  };
  // Conversations have messages, the others a text.
  bool chat = false;
  std::string id, model;
  int64_t created = 0;
  uint32_t n = 1;
  uint32_t n_probs = 0;
  bool logprobs = false;
  bool stream = false, include_usage = false;
  uint32_t cache_scope = 0;
  // The request's fields that became the prompt and the grammar; for errors.
  std::string prompt_field = "prompt", grammar_field = "grammar";
  std::vector<RequestId> requests;  // one per prompt
  double arrived = 0;
  double looked = 0;  // when the client was last found to be there

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Event> events;

  void push(Event event) {
    {
      const std::lock_guard lock(mutex);
      events.push_back(std::move(event));
    }
    changed.notify_all();
  }
  // nullopt when nothing came in time.
  std::optional<Event> pop(double seconds) {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return !events.empty(); })) {
      return std::nullopt;
    }
    Event event = std::move(events.front());
    events.pop_front();
    return event;
  }

  // The scheduler's errors under the names that the client knows; `of_prompt` is its prompt's.
  std::exception_ptr named(const Error& error, const std::string& of_prompt) const;
  Json logprobs_json(const Engine& engine, const std::vector<Sample>& samples) const;
  Json base(const char* object) const {
    return Json::object({{"id", id}, {"object", object}, {"created", created}, {"model", model}});
  }
};

// Hands the request to the scheduler; what it tells goes to the call, its answers numbered from
// `first_choice`, and into the metrics.
void submit(Scheduler& scheduler, const std::shared_ptr<Metrics>& metrics, GenerationRequest wanted,
            const std::shared_ptr<Call>& call, uint32_t first_choice = 0);
// The same generation from each prompt; choices are numbered prompt by prompt.
void submit_all(Scheduler& scheduler, const std::shared_ptr<Metrics>& metrics,
                const GenerationRequest& wanted, const std::vector<std::vector<TokenId>>& prompts,
                const std::shared_ptr<Call>& call);
void cancel(Scheduler& scheduler, const Call& call);

// Hands the call's events to `take` until every answer has ended. Looks after the client all the
// while: one who has gone frees its place at once; one who waits for long is sent a `ping`.
// `take` and `ping` say whether the client is still there. An answer that failed is thrown; false
// when the client has gone.
bool follow(Scheduler& scheduler, Call& call, const std::function<bool()>& connected,
            const std::function<bool()>& ping, const std::function<bool(Call::Event& event)>& take);

// follow() for an answer that is written as server-sent events: comments are its pings, and since
// the status is out already an error is an event. False when nothing more is to be written.
bool follow_stream(Scheduler& scheduler, Call& call, const HttpResponse::Write& write,
                   const std::function<bool()>& connected,
                   const std::function<bool(Call::Event& event)>& take);
// The end of OpenAI's streams: the counts where they were asked for, `n` answers to each prompt,
// and the mark of the end.
void end_stream(const Call& call, const char* object, const std::vector<GenerateResult>& results,
                uint32_t n, const HttpResponse::Write& write);

// Everything that comes of a call that is not streamed. A client that leaves is
// ErrorCode::cancelled.
struct Collected {
  std::vector<std::string> texts;  // by choice
  std::vector<std::vector<Sample>> samples;
  std::vector<GenerateResult> results;
};
Collected collect(Scheduler& scheduler, Call& call, const std::function<bool()>& connected);

double seconds_now();
std::string random_id(const char* prefix);
const char* finish_reason(StopReason reason);
const char* stop_type(StopReason reason);
Json timings_of(const GenerateResult& result);
// `n` answers to each prompt.
Json usage_of(const std::vector<GenerateResult>& results, uint32_t n);

}  // namespace strata::server
