// Who answers in `strata chat`: a model opened here, or a server.
//
// Errors: as Session::generate and ChatClient::chat have them.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/engine.h"
#include "strata/options.h"

namespace strata::app {

class ChatPartner {
 public:
  virtual ~ChatPartner() = default;
  // Who it is, for the first line.
  virtual std::string greeting() const = 0;
  // The conversation begins anew.
  virtual void forget() = 0;
  struct Reply {
    std::string text;
    StopReason reason = StopReason::end_of_generation;
    std::string speed;
  };
  // Prints the answer while it is made; Ctrl-C ends it.
  virtual Reply answer(const std::vector<ChatMessage>& conversation) = 0;
};

// With --url a server, else the model of -m.
std::unique_ptr<ChatPartner> find_partner(const Options& options);

}  // namespace strata::app
