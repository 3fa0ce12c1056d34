// Which names begin undefined in a scope although the request may have a variable of that name.
//
// jinja2 decides while it compiles what a name in a scope means: a name that the scope assigns
// before it reads it is the scope's own from the beginning, so that a loop or macro inside that
// reads it earlier finds it undefined. Assignments in some branches of an if only do not count.
// This follows that decision.
//
// Ownership: results are written into the vectors given to open(), when finish() is called.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace strata::text::jinja {

class ScopeTracker {
 public:
  using Name = uint32_t;
  struct Frame;

  ScopeTracker();
  ~ScopeTracker();
  ScopeTracker(const ScopeTracker&) = delete;
  ScopeTracker& operator=(const ScopeTracker&) = delete;

  // A scope inside the current one. It becomes the current one only by enter().
  Frame* open(std::vector<Name>& fresh);
  // Gives the scope that was current before.
  Frame* enter(Frame* frame);

  // In the order in which jinja2 visits them.
  void load(Name name) { note(Kind::load, name); }
  void store(Name name) { note(Kind::store, name); }
  void parameter(Name name) { note(Kind::parameter, name); }

  // An if statement: its body, its elif branches together, its else branch.
  void begin_if() { note(Kind::begin_if, 0); }
  void next_branch() { note(Kind::next_branch, 0); }
  void end_if() { note(Kind::end_if, 0); }

  void finish();

 private:
  enum class Kind : uint8_t { load, store, parameter, begin_if, next_branch, end_if };
  void note(Kind kind, Name name);

  std::vector<std::unique_ptr<Frame>> frames_;  // a scope after the one around it
  Frame* current_ = nullptr;
};

}  // namespace strata::text::jinja
