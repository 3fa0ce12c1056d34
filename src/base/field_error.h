// Errors of a request that say more than a sentence: the field that is to blame, the tokens that
// are too many.
//
// Purpose: whoever reads a request says which of its fields is wrong, so that a client is told by
// name: "temperature", "tools[0].function.parameters". Inside the library the fields are those of
// the structures that ask (GenerationRequest's "grammar"); who made them of something else renames.
// Not for: what is wrong with no one field.
// Threads: pure functions.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "strata/error.h"

namespace strata {

class FieldError : public Error {
 public:
  FieldError(std::string field, const std::string& message)
      : FieldError(ErrorCode::bad_request, std::move(field), message) {}
  // With its way through objects and lists: "stream_options.include_usage", "messages[1].role".
  const std::string& field() const { return field_; }

 protected:
  FieldError(ErrorCode code, std::string field, const std::string& message)
      : Error(code, message), field_(std::move(field)) {}

 private:
  std::string field_;
};

template <class... Args>
[[noreturn]] void fail_field(const std::string& field, fmt::format_string<Args...> format,
                             Args&&... args) {
  throw FieldError(field, fmt::format(format, std::forward<Args>(args)...));
}

// What `work` gives. What it finds wrong with the request is the field's fault, unless it says
// itself whose.
template <class Work>
auto in_field(const std::string& field, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const FieldError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_request) throw;
    throw FieldError(field, error.what());
  }
}

// More tokens than the context holds.
class ContextError : public FieldError {
 public:
  ContextError(std::string field, const std::string& message, uint64_t n_prompt_tokens,
               uint64_t n_context)
      : FieldError(ErrorCode::does_not_fit, std::move(field), message),
        n_prompt_tokens_(n_prompt_tokens),
        n_context_(n_context) {}
  uint64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  uint64_t n_context() const { return n_context_; }

 private:
  uint64_t n_prompt_tokens_, n_context_;
};

}  // namespace strata
