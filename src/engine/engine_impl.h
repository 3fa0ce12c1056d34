// Inside of the public Engine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/chat.h"
#include "runtime/model.h"
#include "strata/engine.h"
#include "text/tokenizer.h"

namespace strata {

struct Engine::Impl {
  EngineOptions options;
  ModelInfo info;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<Chat> chat;
  std::optional<runtime::Trace> trace;
  std::string chat_source;  // of the chat template in use
  bool trace_written = false;
  std::unique_ptr<runtime::Model> model;
};

}  // namespace strata
