// One generation on its way from the scheduler to a client, and what requests and answers of all
// forms share.
//
// Ownership: the listener and the answer's stream hold a Call together.
// Threads: push from the scheduler's thread, pop from the client's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/scheduler.h"
#include "server/fields.h"
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
    std::optional<Error> error;
  };
  // Conversations have messages, the others a text.
  bool chat = false;
  std::string id, model;
  int64_t created = 0;
  uint32_t n = 1;
  uint32_t n_probs = 0;
  bool logprobs = false;
  bool stream = false, include_usage = false;
  RequestId request = 0;
  double arrived = 0;

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

  Json logprobs_json(Engine& engine, const std::vector<Sample>& samples) const;
  Json choice_json(Engine& engine, uint32_t index, const std::string& text,
                   const std::vector<Sample>& samples, const GenerateResult* result,
                   bool chunk) const;
  Json base(const char* object) const {
    return Json::object({{"id", id}, {"object", object}, {"created", created}, {"model", model}});
  }
};

// Hands the request to the scheduler; what it tells goes to the call and into the metrics.
void submit(Scheduler& scheduler, Metrics& metrics, GenerationRequest wanted,
            const std::shared_ptr<Call>& call);

// Everything that comes of a call that is not streamed.
struct Collected {
  std::vector<std::string> texts;  // by choice
  std::vector<std::vector<Sample>> samples;
  std::vector<GenerateResult> results;
};
Collected collect(Call& call);

double seconds_now();
std::string random_id(const char* prefix);
const char* finish_reason(StopReason reason);
const char* stop_type(StopReason reason);
// "content" as a string, or as a list of parts of which the text ones count.
std::string content_of(Fields& message);
std::vector<ChatMessage> messages_of(Fields& fields);
SamplingOptions sampling_of(Fields& fields, SamplingOptions defaults);
// From "grammar" (GBNF), "json_schema" or "response_format"; null when there is none.
std::shared_ptr<const text::Grammar> grammar_of(Fields& fields, const std::string& path);
Json timings_of(const GenerateResult& result);
Json usage_of(const std::vector<GenerateResult>& results);
// Names in the log what was ignored.
void warn_unknown(const Fields& fields, const std::string& path);

}  // namespace strata::server
