// What requests of all forms share: fields into a generation.
//
// Errors: ErrorCode::bad_request naming the field.
// Threads: pure functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "server/fields.h"
#include "strata/engine.h"

namespace strata::server {

struct ApiOptions;
struct Call;

// "content" as a string, or as a list of parts of which the text ones count.
std::string content_of(Fields& message);
// "prompt": a text, token ids, a list of both mixed, or a list of such prompts.
std::vector<std::vector<TokenId>> prompts_of(const Engine& engine, Fields& fields);
SamplingOptions sampling_of(Fields& fields, SamplingOptions defaults);
// Under llama-server's names; a seed that is not given is -1.
Json sampling_json(const SamplingOptions& sampling, int64_t max_tokens);
// The form that an answer must have.
struct AnswerShape {
  std::string gbnf;
  std::string field;  // that asks for it
};
// Of "grammar", "json_schema" or "response_format"; absent when none of them asks for any.
std::optional<AnswerShape> shape_of(Fields& fields, const std::string& path);
// The same for what is no conversation; it goes to the request and the call.
void read_grammar(Fields& fields, const std::string& path, GenerationRequest& wanted, Call& call);
// All of OpenAI's and llama-server's fields that say how to generate, and how to tell of it;
// but for the grammar.
void read_generation(Fields& fields, const ApiOptions& options, GenerationRequest& wanted,
                     Call& call);
// Names in the log what was ignored.
void warn_unknown(const Fields& fields, const std::string& path);

}  // namespace strata::server
