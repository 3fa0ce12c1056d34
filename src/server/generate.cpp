// Chat and completions: from a request's fields to a generation and back, at once or as a stream.
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "server/api.h"
#include "server/fields.h"

namespace strata::server {
namespace {

// A comment every so often keeps proxies from closing a stream that has nothing to say yet.
constexpr double k_ping_seconds = 15;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string random_id(const char* prefix) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:08x}", prefix, random(), static_cast<uint32_t>(random()));
}

const char* finish_reason(StopReason reason) {
  switch (reason) {
    case StopReason::length:
    case StopReason::context_full:
      return "length";
    default:
      return "stop";
  }
}

const char* stop_type(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_generation:
      return "eos";
    case StopReason::stop_string:
      return "word";
    case StopReason::length:
    case StopReason::context_full:
      return "limit";
    case StopReason::cancelled:
      return "none";
  }
  return "none";
}

// "content" as a string, or as a list of parts of which the text ones count.
std::string content_of(Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) message.refuse("content", "must be a string or a list of parts");
  std::string out;
  for (const Json& one : content->as_array()) {
    Fields part(one, "messages.content");
    const std::string type = part.string("type").value_or("text");
    if (type != "text" && type != "input_text") {
      part.refuse("type", fmt::format("is '{}'; this server reads text only", printable(type)));
    }
    out += part.string("text").value_or("");
  }
  return out;
}

std::vector<ChatMessage> messages_of(Fields& fields) {
  const Json* list = fields.list("messages");
  if (list == nullptr || list->as_array().empty()) {
    fields.refuse("messages", "is missing: a list of {\"role\", \"content\"}");
  }
  std::vector<ChatMessage> out;
  for (const Json& one : list->as_array()) {
    Fields message(one, "messages");
    const auto role = message.string("role");
    if (!role) message.refuse("role", "is missing");
    out.push_back({*role, content_of(message)});
  }
  return out;
}

SamplingOptions sampling_of(Fields& fields, SamplingOptions s) {
  if (const auto v = fields.real("temperature", 0, 100)) s.temperature = *v;
  if (const auto v = fields.integer("top_k", -1, INT32_MAX)) s.top_k = *v;
  if (const auto v = fields.real("top_p", 0, 1)) s.top_p = *v;
  if (const auto v = fields.real("min_p", 0, 1)) s.min_p = *v;
  if (const auto v = fields.real("typical_p", 0, 1)) s.typical_p = *v;
  if (const auto v = fields.real("repeat_penalty", 1e-6, 100)) s.repeat_penalty = *v;
  if (const auto v = fields.real("presence_penalty", -100, 100)) s.presence_penalty = *v;
  if (const auto v = fields.real("frequency_penalty", -100, 100)) s.frequency_penalty = *v;
  if (const auto v = fields.integer("repeat_last_n", -1, INT32_MAX)) s.penalty_window = *v;
  if (const auto v = fields.boolean("ignore_eos")) s.ignore_eos = *v;
  if (const auto v = fields.integer("seed", INT64_MIN, INT64_MAX); v && *v >= 0) {
    s.seed = static_cast<uint64_t>(*v);
  }
  // An object of ids, as OpenAI has it, or a list of pairs, as llama-server does.
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return s;
  const auto add = [&](const std::string& id, const Json& value) {
    char* end = nullptr;
    const long token = std::strtol(id.c_str(), &end, 10);
    if (end == id.c_str() || *end != 0) {
      fields.refuse("logit_bias", fmt::format("names '{}', which is no token id", printable(id)));
    }
    if (value.is_bool() && !value.as_bool()) {
      s.logit_bias.emplace_back(static_cast<TokenId>(token),
                                -std::numeric_limits<double>::infinity());
      return;
    }
    if (!value.is_number()) fields.refuse("logit_bias", "must hold numbers");
    s.logit_bias.emplace_back(static_cast<TokenId>(token), value.as_real());
  };
  if (bias->is_object()) {
    for (const auto& [id, value] : bias->as_object()) add(id, value);
  } else if (bias->is_array()) {
    for (const Json& pair : bias->as_array()) {
      if (!pair.is_array() || pair.as_array().size() != 2 || !pair.as_array()[0].is_int()) {
        fields.refuse("logit_bias", "must be an object, or a list of [token, bias]");
      }
      add(std::to_string(pair.as_array()[0].as_int()), pair.as_array()[1]);
    }
  } else {
    fields.refuse("logit_bias", "must be an object, or a list of [token, bias]");
  }
  return s;
}

}  // namespace

// What the scheduler tells, in order, until the client's thread takes it.
struct Api::Call {
  struct Event {
    uint32_t choice = 0;
    std::string text;
    std::optional<Sample> sample;
    std::optional<GenerateResult> result;
    std::optional<Error> error;
  };
  Form form = Form::chat;
  std::string id, model;
  int64_t created = 0;
  uint32_t n = 1;
  uint32_t n_probs = 0;
  bool logprobs = false;
  bool stream = false, include_usage = false, timings_per_token = false;
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

namespace {

Json timings_of(const GenerateResult& r) {
  const uint32_t read = r.prompt_tokens - r.cached_tokens;
  const auto prompt = static_cast<double>(read);
  const auto predicted = static_cast<double>(r.tokens.size());
  const auto rate = [](double n, double seconds) { return seconds > 0 ? n / seconds : 0; };
  const auto each = [](double n, double seconds) { return n > 0 ? 1e3 * seconds / n : 0; };
  return Json::object({{"cache_n", r.cached_tokens},
                       {"prompt_n", read},
                       {"prompt_ms", r.prompt_seconds * 1e3},
                       {"prompt_per_token_ms", each(prompt, r.prompt_seconds)},
                       {"prompt_per_second", rate(prompt, r.prompt_seconds)},
                       {"predicted_n", static_cast<uint64_t>(r.tokens.size())},
                       {"predicted_ms", r.generate_seconds * 1e3},
                       {"predicted_per_token_ms", each(predicted, r.generate_seconds)},
                       {"predicted_per_second", rate(predicted, r.generate_seconds)}});
}

Json usage_of(const std::vector<GenerateResult>& results) {
  uint64_t completion = 0;
  for (const GenerateResult& r : results) completion += r.tokens.size();
  const uint64_t prompt = results.empty() ? 0 : results[0].prompt_tokens;
  const uint64_t cached = results.empty() ? 0 : results[0].cached_tokens;
  return Json::object({{"prompt_tokens", prompt},
                       {"completion_tokens", completion},
                       {"total_tokens", prompt + completion},
                       {"prompt_tokens_details", Json::object({{"cached_tokens", cached}})}});
}

}  // namespace

Json Api::Call::logprobs_json(Engine& engine, const std::vector<Sample>& samples) const {
  if (!logprobs) return Json();
  Json content = Json::array();
  const auto entry = [&](TokenId token, float value) {
    const std::string text = engine.detokenize({&token, 1}, true);
    Json bytes = Json::array();
    for (const char c : text) bytes.push(static_cast<int64_t>(static_cast<unsigned char>(c)));
    return Json::object(
        {{"token", text}, {"logprob", double{value}}, {"bytes", std::move(bytes)}, {"id", token}});
  };
  for (const Sample& sample : samples) {
    Json one = entry(sample.id, sample.log_probability);
    Json top = Json::array();
    for (const TokenProbability& other : sample.top) {
      top.push(entry(other.id, other.log_probability));
    }
    one.set("top_logprobs", std::move(top));
    content.push(std::move(one));
  }
  return Json::object({{"content", std::move(content)}});
}

Json Api::Call::choice_json(Engine& engine, uint32_t index, const std::string& text,
                            const std::vector<Sample>& samples, const GenerateResult* result,
                            bool chunk) const {
  Json choice = Json::object({{"index", index}});
  if (form == Form::chat) {
    if (chunk) {
      choice.set("delta", text.empty() ? Json::object() : Json::object({{"content", text}}));
    } else {
      choice.set("message", Json::object({{"role", "assistant"}, {"content", text}}));
    }
  } else {
    choice.set("text", text);
  }
  choice.set("logprobs", logprobs_json(engine, samples));
  choice.set("finish_reason", result == nullptr ? Json() : Json(finish_reason(result->reason)));
  return choice;
}

HttpResponse Api::apply_template(const HttpRequest& request) const {
  const Json body = Json::parse(request.body, 100);
  Fields fields(body);
  const auto tokens = engine_.chat_tokens(messages_of(fields));
  HttpResponse out;
  out.body = Json::object({{"prompt", engine_.detokenize(tokens, true)}}).dump();
  return out;
}

HttpResponse Api::generate(const HttpRequest& request, Form form) {
  if (request.body.empty()) fail(ErrorCode::bad_request, "the request has no body; send JSON");
  const Json body = Json::parse(request.body, 100);
  Fields fields(body);
  const auto call = std::make_shared<Call>();
  call->form = form;
  call->arrived = now();
  call->created = static_cast<int64_t>(std::time(nullptr));
  call->id = random_id(form == Form::chat ? "chatcmpl-" : "cmpl-");
  call->model = options_.model_name;
  fields.string("model");  // there is one model, whatever it is called

  GenerationRequest wanted;
  if (form == Form::chat) {
    wanted.prompt = engine_.chat_tokens(messages_of(fields));
  } else {
    const Json* prompt = fields.find("prompt");
    if (prompt == nullptr) fields.refuse("prompt", "is missing: a string or a list of token ids");
    if (prompt->is_string()) {
      wanted.prompt = engine_.tokenize(prompt->as_string());
    } else if (prompt->is_array() && !prompt->as_array().empty() &&
               prompt->as_array()[0].is_int()) {
      for (const Json& one : prompt->as_array()) {
        if (!one.is_int() || one.as_int() < 0 || one.as_int() > INT32_MAX) {
          fields.refuse("prompt", "must hold token ids");
        }
        wanted.prompt.push_back(static_cast<TokenId>(one.as_int()));
      }
    } else if (prompt->is_array() && prompt->as_array().size() == 1 &&
               prompt->as_array()[0].is_string()) {
      wanted.prompt = engine_.tokenize(prompt->as_array()[0].as_string());
    } else {
      fields.refuse("prompt", "must be a string or a list of token ids");
    }
  }
  wanted.sampling = sampling_of(fields, options_.sampling);
  wanted.max_tokens = options_.max_tokens;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    if (const auto v = fields.integer(name, -1, INT32_MAX)) wanted.max_tokens = *v;
  }
  wanted.stop = fields.strings("stop", 64);
  wanted.n = static_cast<uint32_t>(fields.integer("n", 1, 128).value_or(1));
  wanted.cache_prompt = fields.boolean("cache_prompt").value_or(true);
  wanted.priority = static_cast<int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  call->n = wanted.n;
  call->stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.object("stream_options")) {
    Fields stream(*options, "stream_options");
    call->include_usage = stream.boolean("include_usage").value_or(false);
  }
  // Chat: true and how many; completions: how many.
  const Json* logprobs = fields.find("logprobs");
  if (logprobs != nullptr && logprobs->is_int()) {
    call->n_probs = static_cast<uint32_t>(fields.integer("logprobs", 0, 20).value_or(0));
    call->logprobs = true;
  } else if (fields.boolean("logprobs").value_or(false)) {
    call->n_probs = static_cast<uint32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
    call->logprobs = true;
  }
  if (const auto v = fields.integer("n_probs", 0, 100); v && *v > 0) {
    call->n_probs = static_cast<uint32_t>(*v);
    call->logprobs = true;
  }
  wanted.sampling.n_probs = call->logprobs ? std::max(call->n_probs, 1u) : 0;
  for (const char* later : {"tools", "response_format", "grammar", "json_schema"}) {
    if (fields.has(later)) {
      fail(ErrorCode::unsupported, "'{}' is not something this server does yet", later);
    }
  }
  for (const std::string& name : fields.unknown()) {
    log::warning("{}: the field '{}' is not known and was ignored", request.path, printable(name));
  }

  Listener listener;
  // The time of each answer's last token; the listener's thread only.
  const auto last = std::make_shared<std::vector<double>>(wanted.n, 0);
  listener.token = [this, call, last](uint32_t choice, const std::string& text,
                                      const Sample& sample) {
    const double at = now();
    if ((*last)[choice] == 0) {
      metrics_.first_token.add(at - call->arrived);
    } else {
      metrics_.between_tokens.add(at - (*last)[choice]);
    }
    (*last)[choice] = at;
    call->push({choice, text, sample, std::nullopt, std::nullopt});
  };
  listener.done = [this, call](uint32_t choice, const std::string& rest,
                               const GenerateResult& result) {
    metrics_.whole.add(now() - call->arrived);
    metrics_.queued.add(
        std::max(0.0, now() - call->arrived - result.prompt_seconds - result.generate_seconds));
    call->push({choice, rest, std::nullopt, result, std::nullopt});
  };
  listener.failed = [call](const Error& error) {
    call->push({0, "", std::nullopt, std::nullopt, error});
  };
  call->request = scheduler_.submit(std::move(wanted), std::move(listener));

  HttpResponse response;
  if (!call->stream) {
    std::vector<std::string> texts(call->n);
    std::vector<std::vector<Sample>> samples(call->n);
    std::vector<GenerateResult> results(call->n);
    for (uint32_t open = call->n; open > 0;) {
      auto event = call->pop(3600);
      if (!event) continue;
      if (event->error) throw *event->error;
      texts[event->choice] += event->text;
      if (event->sample) samples[event->choice].push_back(std::move(*event->sample));
      if (event->result) {
        results[event->choice] = std::move(*event->result);
        --open;
      }
    }
    if (form == Form::native) {
      const GenerateResult& r = results[0];
      response.body = Json::object({{"index", 0},
                                    {"content", texts[0]},
                                    {"id_slot", -1},
                                    {"stop", true},
                                    {"model", call->model},
                                    {"tokens_predicted", static_cast<uint64_t>(r.tokens.size())},
                                    {"tokens_evaluated", r.prompt_tokens},
                                    {"tokens_cached", r.cached_tokens},
                                    {"truncated", false},
                                    {"stop_type", stop_type(r.reason)},
                                    {"stopping_word", r.stop_string},
                                    {"generation_settings", Json::object({{"seed", r.seed}})},
                                    {"timings", timings_of(r)}})
                          .dump();
      return response;
    }
    Json choices = Json::array();
    for (uint32_t i = 0; i < call->n; ++i) {
      choices.push(call->choice_json(engine_, i, texts[i], samples[i], &results[i], false));
    }
    Json out = call->base(form == Form::chat ? "chat.completion" : "text_completion");
    out.set("choices", std::move(choices));
    out.set("usage", usage_of(results));
    out.set("timings", timings_of(results[0]));
    response.body = out.dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, call](const HttpResponse::Write& write,
                                 const std::function<bool()>& connected) {
    const auto send = [&](const Json& json) { return write("data: " + json.dump() + "\n\n"); };
    const char* object = call->form == Form::chat ? "chat.completion.chunk" : "text_completion";
    bool alive = true;
    if (call->form == Form::chat) {
      for (uint32_t i = 0; i < call->n && alive; ++i) {
        Json first = call->base(object);
        first.set("choices", Json(Json::Array{Json::object(
                                 {{"index", i},
                                  {"delta", Json::object({{"role", "assistant"}, {"content", ""}})},
                                  {"logprobs", Json()},
                                  {"finish_reason", Json()}})}));
        alive = send(first);
      }
    }
    std::vector<GenerateResult> results(call->n);
    double pinged = now();
    for (uint32_t open = call->n; open > 0 && alive;) {
      // Looks after the client often, so that one who has gone frees its place at once.
      auto event = call->pop(0.1);
      if (!event) {
        alive = connected();
        if (alive && now() - pinged > k_ping_seconds) {
          alive = write(": \n\n");
          pinged = now();
        }
        continue;
      }
      if (event->error) {
        // The status is out already: the error is an event.
        const HttpResponse error = error_response(*event->error);
        write("data: " + error.body + "\n\n");
        return;
      }
      std::vector<Sample> samples;
      if (event->sample) samples.push_back(std::move(*event->sample));
      const GenerateResult* result = nullptr;
      if (event->result) {
        results[event->choice] = std::move(*event->result);
        result = &results[event->choice];
        --open;
      }
      if (call->form == Form::native) {
        Json out =
            Json::object({{"index", 0}, {"content", event->text}, {"stop", result != nullptr}});
        if (result != nullptr) {
          out.set("stop_type", stop_type(result->reason));
          out.set("tokens_predicted", static_cast<uint64_t>(result->tokens.size()));
          out.set("tokens_evaluated", result->prompt_tokens);
          out.set("timings", timings_of(*result));
        }
        alive = send(out);
        continue;
      }
      if (!event->text.empty() || (call->logprobs && !samples.empty())) {
        Json chunk = call->base(object);
        chunk.set("choices", Json(Json::Array{call->choice_json(engine_, event->choice, event->text,
                                                                samples, nullptr, true)}));
        alive = send(chunk);
      }
      if (result != nullptr && alive) {
        Json chunk = call->base(object);
        chunk.set(
            "choices",
            Json(Json::Array{call->choice_json(engine_, event->choice, "", {}, result, true)}));
        if (open == 0) chunk.set("timings", timings_of(*result));
        alive = send(chunk);
      }
    }
    if (!alive) {
      scheduler_.cancel(call->request);
      return;
    }
    if (call->include_usage) {
      Json chunk = call->base(object);
      chunk.set("choices", Json::array());
      chunk.set("usage", usage_of(results));
      send(chunk);
    }
    if (call->form != Form::native) write("data: [DONE]\n\n");
  };
  return response;
}

}  // namespace strata::server
