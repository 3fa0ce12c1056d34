#include "server/request.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/field_error.h"
#include "base/log.h"
#include "server/api.h"
#include "server/call.h"
#include "text/grammar/json_schema.h"

namespace strata::server {
namespace {

constexpr size_t k_max_prompts = 1024;
constexpr int64_t k_max_choices = 128;

// One prompt: a text, or ids and texts one after the other.
std::vector<TokenId> prompt_of(const Engine& engine, Fields& fields, const std::string& name,
                               const Json& prompt) {
  if (prompt.is_string()) return engine.tokenize(prompt.as_string());
  if (!prompt.is_array()) {
    fields.refuse(
        name, fmt::format("must be a string or a list of token ids, not {}", prompt.type_name()));
  }
  if (prompt.as_array().empty()) fields.refuse(name, "is an empty list: it holds nothing to go on");
  const auto n = static_cast<int64_t>(engine.info().n_vocab);
  std::vector<TokenId> out;
  for (size_t i = 0; i < prompt.as_array().size(); ++i) {
    const Json& part = prompt.as_array()[i];
    if (part.is_string()) {
      const auto tokens = engine.tokenize(part.as_string(), i == 0);
      out.insert(out.end(), tokens.begin(), tokens.end());
    } else if (part.is_int() && part.as_int() >= 0 && part.as_int() < n) {
      out.push_back(static_cast<TokenId>(part.as_int()));
    } else if (part.is_array() && name == "prompt") {
      fields.refuse("prompt", fmt::format("holds a list ([{}]) beside token ids; a list of prompts "
                                          "holds texts and lists only",
                                          i));
    } else {
      fields.refuse(fmt::format("{}[{}]", name, i),
                    fmt::format("is {}; a prompt holds texts and token ids from 0 to {}",
                                printable(part.dump(), 40), n - 1));
    }
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
  for (size_t i = 0; i < content->as_array().size(); ++i) {
    Fields part(content->as_array()[i], fmt::format("{}[{}]", message.path_of("content"), i));
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

std::optional<AnswerShape> shape_of(Fields& fields, const std::string& path) {
  const auto of_schema = [&](const Json& schema, const std::string& field) {
    return in_field(field, [&] {
      text::SchemaGrammar made = text::schema_grammar(schema);
      for (const std::string& warning : made.warnings) {
        log::warning("{}: {}", printable(path, 200), printable(warning, 200));
      }
      return AnswerShape{std::move(made.gbnf), field};
    });
  };
  const auto gbnf = fields.string("grammar");
  const Json* schema = fields.find("json_schema");
  const Json* format = fields.object("response_format");
  const bool has_gbnf = gbnf && !gbnf->empty();
  if (has_gbnf && schema != nullptr) {
    fields.refuse("grammar", "and 'json_schema' exclude each other");
  }
  std::string type = "text";
  if (format != nullptr) {
    Fields inner(*format, fields.path_of("response_format"));
    type = inner.string("type").value_or("text");
    if (type != "text" && type != "json_object" && type != "json_schema") {
      inner.refuse("type", fmt::format("is '{}'; known are text, json_object and json_schema",
                                       printable(type)));
    }
    if (type != "text" && has_gbnf) {
      fields.refuse("grammar", "and 'response_format' exclude each other");
    }
    if (type != "text" && schema != nullptr) {
      fields.refuse("json_schema", "and 'response_format' exclude each other");
    }
  }
  if (has_gbnf) {
    const std::string field = fields.path_of("grammar");
    // Its own lines and columns are named where it is wrong.
    in_field(field, [&] { text::Grammar::parse(*gbnf); });
    return AnswerShape{*gbnf, field};
  }
  if (schema != nullptr) return of_schema(*schema, fields.path_of("json_schema"));
  if (type == "text") return std::nullopt;
  Fields inner(*format, fields.path_of("response_format"));
  if (type == "json_object") {
    if (const Json* own = inner.find("schema")) return of_schema(*own, inner.path_of("schema"));
    return AnswerShape{text::json_object_grammar(), fields.path_of("response_format")};
  }
  const Json* named = inner.object("json_schema");
  if (named == nullptr) inner.refuse("json_schema", "is missing");
  Fields wrapper(*named, inner.path_of("json_schema"));
  const Json* own = wrapper.find("schema");
  if (own == nullptr) wrapper.refuse("schema", "is missing");
  return of_schema(*own, wrapper.path_of("schema"));
}

void read_grammar(Fields& fields, const std::string& path, GenerationRequest& wanted, Call& call) {
  const std::optional<AnswerShape> shape = shape_of(fields, path);
  if (!shape) return;
  call.grammar_field = shape->field;
  wanted.grammar = in_field(shape->field, [&] { return text::Grammar::parse(shape->gbnf); });
}

std::vector<std::vector<TokenId>> prompts_of(const Engine& engine, Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) fields.refuse("prompt", "is missing: a string or a list of token ids");
  std::vector<std::vector<TokenId>> out;
  // Texts and lists are many prompts; with an id among them it is one.
  if (prompt->is_array() && !prompt->as_array().empty() &&
      std::all_of(prompt->as_array().begin(), prompt->as_array().end(),
                  [](const Json& one) { return one.is_string() || one.is_array(); })) {
    if (prompt->as_array().size() > k_max_prompts) {
      fields.refuse("prompt", fmt::format("holds {} prompts, at most {} are taken",
                                          prompt->as_array().size(), k_max_prompts));
    }
    for (const Json& one : prompt->as_array()) {
      out.push_back(prompt_of(engine, fields, fmt::format("prompt[{}]", out.size()), one));
    }
    return out;
  }
  out.push_back(prompt_of(engine, fields, "prompt", *prompt));
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
  } else {
    const bool asked = fields.boolean("logprobs").value_or(false);
    const auto top = fields.integer("top_logprobs", 0, 20);
    if (top && !asked) fields.refuse("top_logprobs", "is of use only with 'logprobs': true");
    call.n_probs = static_cast<uint32_t>(top.value_or(0));
    call.logprobs = asked;
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
