#include "server/call.h"

#include <cstdlib>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "text/grammar/json_schema.h"

namespace strata::server {

double seconds_now() {
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

std::shared_ptr<const text::Grammar> grammar_of(Fields& fields, const std::string& path) {
  const auto from_schema = [&](const Json& schema) {
    const text::SchemaGrammar made = text::schema_grammar(schema);
    for (const std::string& warning : made.warnings) {
      log::warning("{}: {}", printable(path, 200), printable(warning, 200));
    }
    return text::Grammar::parse(made.gbnf);
  };
  const auto gbnf = fields.string("grammar");
  const Json* schema = fields.find("json_schema");
  const Json* format = fields.object("response_format");
  const bool has_gbnf = gbnf && !gbnf->empty();
  if (has_gbnf && schema != nullptr) {
    fields.refuse("grammar", "and 'json_schema' exclude each other");
  }
  if (has_gbnf) return text::Grammar::parse(*gbnf);
  if (schema != nullptr) return from_schema(*schema);
  if (format == nullptr) return nullptr;
  Fields inner(*format, "response_format");
  const std::string type = inner.string("type").value_or("text");
  if (type == "text") return nullptr;
  if (type == "json_object") {
    if (const Json* own = inner.find("schema")) return from_schema(*own);
    return text::Grammar::parse(text::json_object_grammar());
  }
  if (type != "json_schema") {
    inner.refuse("type", fmt::format("is '{}'; known are text, json_object and json_schema",
                                     printable(type)));
  }
  const Json* named = inner.object("json_schema");
  if (named == nullptr) inner.refuse("json_schema", "is missing");
  Fields wrapper(*named, "response_format.json_schema");
  const Json* own = wrapper.find("schema");
  if (own == nullptr) wrapper.refuse("schema", "is missing");
  return from_schema(*own);
}

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

Json Call::logprobs_json(Engine& engine, const std::vector<Sample>& samples) const {
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

Json Call::choice_json(Engine& engine, uint32_t index, const std::string& text,
                       const std::vector<Sample>& samples, const GenerateResult* result,
                       bool chunk) const {
  Json choice = Json::object({{"index", index}});
  if (chat) {
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

void submit(Scheduler& scheduler, Metrics& metrics, GenerationRequest wanted,
            const std::shared_ptr<Call>& call) {
  Listener listener;
  // The time of each answer's last token; the listener's thread only.
  const auto last = std::make_shared<std::vector<double>>(wanted.n, 0);
  listener.token = [&metrics, call, last](uint32_t choice, const std::string& text,
                                          const Sample& sample) {
    const double at = seconds_now();
    if ((*last)[choice] == 0) {
      metrics.first_token.add(at - call->arrived);
    } else {
      metrics.between_tokens.add(at - (*last)[choice]);
    }
    (*last)[choice] = at;
    call->push({choice, text, sample, std::nullopt, std::nullopt});
  };
  listener.done = [&metrics, call](uint32_t choice, const std::string& rest,
                                   const GenerateResult& result) {
    metrics.whole.add(seconds_now() - call->arrived);
    metrics.queued.add(std::max(
        0.0, seconds_now() - call->arrived - result.prompt_seconds - result.generate_seconds));
    call->push({choice, rest, std::nullopt, result, std::nullopt});
  };
  listener.failed = [call](const Error& error) {
    call->push({0, "", std::nullopt, std::nullopt, error});
  };
  call->request = scheduler.submit(std::move(wanted), std::move(listener));
}

Collected collect(Call& call) {
  Collected out;
  out.texts.resize(call.n);
  out.samples.resize(call.n);
  out.results.resize(call.n);
  for (uint32_t open = call.n; open > 0;) {
    auto event = call.pop(3600);
    if (!event) continue;
    if (event->error) throw *event->error;
    out.texts[event->choice] += event->text;
    if (event->sample) out.samples[event->choice].push_back(std::move(*event->sample));
    if (event->result) {
      out.results[event->choice] = std::move(*event->result);
      --open;
    }
  }
  return out;
}

void warn_unknown(const Fields& fields, const std::string& path) {
  for (const std::string& name : fields.unknown()) {
    log::warning("{}: the field '{}' is not known and was ignored", printable(path, 200),
                 printable(name));
  }
}

}  // namespace strata::server
