// A client of a chat server: what `strata chat --url` speaks.
//
// Purpose: one conversation after another over OpenAI's protocol, answers as they are made. The
// server may be this one, or any that speaks the protocol.
// Not for: other requests of the protocol; programs have libraries for those.
// Errors: ErrorCode::usage for an address that is none; ErrorCode::io when the server cannot be
// reached or ends the connection; what it refuses is ErrorCode::bad_request, ::does_not_fit or
// ::busy with its own words.
// Threads: one at a time; `cancelled` is asked on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "strata/engine.h"

namespace strata::server {

struct ClientOptions {
  std::string url;        // http:// or https://, host, port; a path before /v1 is kept
  std::string api_key;    // empty: none
  uint32_t seconds = 30;  // to connect
};

// Reads the lines of an event stream in pieces of any size.
class EventReader {
 public:
  // The data of each event that is complete, in order.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string line_;
  std::string data_;
};

class ChatClient {
 public:
  explicit ChatClient(const ClientOptions& options);
  ~ChatClient();

  // The server's first model, which also shows that it is there.
  std::string model();

  struct Sinks {
    std::function<void(std::string_view text)> content;
    std::function<void(std::string_view text)> reasoning;
    std::function<bool()> cancelled;
  };
  // `fields`: what goes beside the messages (sampling, stop, ...). The result has text, reason and,
  // where the server tells them, counts and times; its tokens are not known.
  struct Answer {
    GenerateResult result;
    uint64_t tokens = 0;
  };
  Answer chat(const std::vector<ChatMessage>& messages, const Json& fields, const Sinks& sinks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::server
