#include "server/request.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "server/api.h"
#include "server/call.h"
#include "text/grammar/json_schema.h"

namespace strata::server {
namespace {

constexpr size_t k_max_prompts = 1024;
constexpr int64_t k_max_choices = 128;

TokenId token_of(const Engine& engine, Fields& fields, const Json& id) {
  const auto n = static_cast<int64_t>(engine.info().n_vocab);
  if (!id.is_int() || id.as_int() < 0 || id.as_int() >= n) {
    fields.refuse("prompt", fmt::format("must hold token ids from 0 to {}", n - 1));
  }
  return static_cast<TokenId>(id.as_int());
}

// One prompt: a text, or ids and texts one after the other.
std::vector<TokenId> prompt_of(const Engine& engine, Fields& fields, const Json& prompt) {
  if (prompt.is_string()) return engine.tokenize(prompt.as_string());
  if (!prompt.is_array()) {
    fields.refuse("prompt", fmt::format("must be a string or a list of token ids, not {}",
                                        prompt.type_name()));
  }
  std::vector<TokenId> out;
  bool first = true;
  for (const Json& part : prompt.as_array()) {
    if (part.is_string()) {
      const auto tokens = engine.tokenize(part.as_string(), first);
      out.insert(out.end(), tokens.begin(), tokens.end());
    } else {
      out.push_back(token_of(engine, fields, part));
    }
    first = false;
  }
  return out;
}

}  // namespace

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

Json sampling_json(const SamplingOptions& s, int64_t max_tokens) {
  return Json::object({{"n_predict", max_tokens},
                       {"max_tokens", max_tokens},
                       {"seed", s.seed ? Json(*s.seed) : Json(-1)},
                       {"temperature", s.temperature},
                       {"top_k", s.top_k},
                       {"top_p", s.top_p},
                       {"min_p", s.min_p},
                       {"typical_p", s.typical_p},
                       {"repeat_last_n", s.penalty_window},
                       {"repeat_penalty", s.repeat_penalty},
                       {"presence_penalty", s.presence_penalty},
                       {"frequency_penalty", s.frequency_penalty},
                       {"ignore_eos", s.ignore_eos}});
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

std::optional<std::string> gbnf_of(Fields& fields, const std::string& path) {
  const auto from_schema = [&](const Json& schema) {
    const text::SchemaGrammar made = text::schema_grammar(schema);
    for (const std::string& warning : made.warnings) {
      log::warning("{}: {}", printable(path, 200), printable(warning, 200));
    }
    return made.gbnf;
  };
  const auto gbnf = fields.string("grammar");
  const Json* schema = fields.find("json_schema");
  const Json* format = fields.object("response_format");
  const bool has_gbnf = gbnf && !gbnf->empty();
  if (has_gbnf && schema != nullptr) {
    fields.refuse("grammar", "and 'json_schema' exclude each other");
  }
  if (has_gbnf) {
    text::Grammar::parse(*gbnf);  // its own lines and columns are named where it is wrong
    return gbnf;
  }
  if (schema != nullptr) return from_schema(*schema);
  if (format == nullptr) return std::nullopt;
  Fields inner(*format, "response_format");
  const std::string type = inner.string("type").value_or("text");
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    if (const Json* own = inner.find("schema")) return from_schema(*own);
    return text::json_object_grammar();
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

std::shared_ptr<const text::Grammar> grammar_of(Fields& fields, const std::string& path) {
  const std::optional<std::string> gbnf = gbnf_of(fields, path);
  return gbnf ? text::Grammar::parse(*gbnf) : nullptr;
}

std::vector<std::vector<TokenId>> prompts_of(const Engine& engine, Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) fields.refuse("prompt", "is missing: a string or a list of token ids");
  const bool list = prompt->is_array() && !prompt->as_array().empty();
  const auto all = [&](auto is) {
    return list && std::all_of(prompt->as_array().begin(), prompt->as_array().end(), is);
  };
  std::vector<std::vector<TokenId>> out;
  if (all([](const Json& one) { return one.is_string(); }) ||
      all([](const Json& one) { return one.is_array(); })) {
    if (prompt->as_array().size() > k_max_prompts) {
      fields.refuse("prompt", fmt::format("holds {} prompts, at most {} are taken",
                                          prompt->as_array().size(), k_max_prompts));
    }
    for (const Json& one : prompt->as_array()) out.push_back(prompt_of(engine, fields, one));
  } else {
    out.push_back(prompt_of(engine, fields, *prompt));
  }
  return out;
}

void read_generation(Fields& fields, const ApiOptions& options, GenerationRequest& wanted,
                     Call& call) {
  wanted.sampling = sampling_of(fields, options.sampling);
  wanted.max_tokens = options.max_tokens;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    if (const auto v = fields.integer(name, -1, INT32_MAX)) wanted.max_tokens = *v;
  }
  wanted.stop = fields.strings("stop", 64);
  wanted.n = static_cast<uint32_t>(fields.integer("n", 1, k_max_choices).value_or(1));
  wanted.cache_prompt = fields.boolean("cache_prompt").value_or(true);
  wanted.priority = static_cast<int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  call.n = wanted.n;
  call.stream = fields.boolean("stream").value_or(false);
  if (const Json* given = fields.object("stream_options")) {
    Fields stream(*given, "stream_options");
    call.include_usage = stream.boolean("include_usage").value_or(false);
  }
  // Chat: true and how many; completions: how many.
  const Json* logprobs = fields.find("logprobs");
  if (logprobs != nullptr && logprobs->is_int()) {
    call.n_probs = static_cast<uint32_t>(fields.integer("logprobs", 0, 20).value_or(0));
    call.logprobs = true;
  } else if (fields.boolean("logprobs").value_or(false)) {
    call.n_probs = static_cast<uint32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
    call.logprobs = true;
  }
  if (const auto v = fields.integer("n_probs", 0, 100); v && *v > 0) {
    call.n_probs = static_cast<uint32_t>(*v);
    call.logprobs = true;
  }
  wanted.sampling.n_probs = call.logprobs ? std::max(call.n_probs, 1u) : 0;
}

void warn_unknown(const Fields& fields, const std::string& path) {
  for (const std::string& name : fields.unknown()) {
    log::warning("{}: the field '{}' is not known and was ignored", printable(path, 200),
                 printable(name));
  }
}

}  // namespace strata::server
