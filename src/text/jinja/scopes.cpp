#include "text/jinja/scopes.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace strata::text::jinja {
namespace {

// How a name of a scope gets its first value.
enum class Source : uint8_t {
  parameter,
  outside,  // from the scopes around or the request
  nothing,
};

struct Symbol {
  Source source = Source::outside;
  bool stored = false;
};

using Name = ScopeTracker::Name;
using Change = std::pair<Name, std::optional<Symbol>>;

}  // namespace

struct ScopeTracker::Frame {
  struct Event {
    Kind kind;
    Name name;
  };
  // An if statement that is being looked at. Every branch starts from the symbols before the if;
  // what it changed is taken back when it ends and all of it comes together at the end.
  struct OpenIf {
    std::vector<Change> undo;  // of the branch at work, oldest first
    std::vector<std::vector<std::pair<Name, Symbol>>> branches;
  };

  const Frame* parent = nullptr;
  std::vector<Name>* fresh = nullptr;
  std::vector<Event> events;
  std::unordered_map<Name, Symbol> symbols;
  std::vector<OpenIf> ifs;

  bool known_outside(Name name) const {
    for (const Frame* frame = parent; frame != nullptr; frame = frame->parent) {
      if (frame->symbols.count(name) != 0) return true;
    }
    return false;
  }

  void set(Name name, Symbol symbol) {
    const auto [found, added] = symbols.try_emplace(name, symbol);
    if (!ifs.empty()) {
      ifs.back().undo.emplace_back(name, added ? std::nullopt : std::optional(found->second));
    }
    found->second = symbol;
  }

  void load(Name name) {
    if (symbols.count(name) == 0 && !known_outside(name)) set(name, {Source::outside, false});
  }

  void store(Name name) {
    const auto found = symbols.find(name);
    if (found != symbols.end()) {
      if (!found->second.stored) set(name, {found->second.source, true});
      return;
    }
    set(name, {known_outside(name) ? Source::outside : Source::nothing, true});
  }

  void end_branch() {
    OpenIf& open = ifs.back();
    std::vector<std::pair<Name, Symbol>> changed;
    for (const auto& [name, before] : open.undo) changed.emplace_back(name, symbols.at(name));
    for (auto change = open.undo.rbegin(); change != open.undo.rend(); ++change) {
      if (change->second) {
        symbols[change->first] = *change->second;
      } else {
        symbols.erase(change->first);
      }
    }
    // A name that changed twice stands twice, with its last symbol both times.
    std::sort(changed.begin(), changed.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    changed.erase(std::unique(changed.begin(), changed.end(),
                              [](const auto& a, const auto& b) { return a.first == b.first; }),
                  changed.end());
    open.undo.clear();
    open.branches.push_back(std::move(changed));
  }

  void end_if() {
    end_branch();
    const std::vector<std::vector<std::pair<Name, Symbol>>> branches =
        std::move(ifs.back().branches);
    ifs.pop_back();
    std::unordered_map<Name, size_t> stores;
    for (const auto& branch : branches) {
      for (const auto& [name, symbol] : branch) {
        const auto before = symbols.find(name);
        const bool already = before != symbols.end() && before->second.stored;
        if (symbol.stored && !already) ++stores[name];
      }
    }
    for (const auto& branch : branches) {
      for (const auto& [name, symbol] : branch) {
        const auto before = symbols.find(name);
        const bool stored = symbol.stored || (before != symbols.end() && before->second.stored);
        set(name, {symbol.source, stored});
      }
    }
    for (const auto& [name, count] : stores) {
      if (count != branches.size()) set(name, {Source::outside, true});
    }
  }

  void run() {
    for (const Event& event : events) {
      switch (event.kind) {
        case Kind::load:
          load(event.name);
          break;
        case Kind::store:
          store(event.name);
          break;
        case Kind::parameter:
          set(event.name, {Source::parameter, true});
          break;
        case Kind::begin_if:
          ifs.emplace_back();
          break;
        case Kind::next_branch:
          end_branch();
          break;
        case Kind::end_if:
          end_if();
          break;
      }
    }
    for (const auto& [name, symbol] : symbols) {
      if (symbol.source == Source::nothing) fresh->push_back(name);
    }
    std::sort(fresh->begin(), fresh->end());
  }
};

ScopeTracker::ScopeTracker() = default;
ScopeTracker::~ScopeTracker() = default;

ScopeTracker::Frame* ScopeTracker::open(std::vector<Name>& fresh) {
  auto frame = std::make_unique<Frame>();
  frame->parent = current_;
  frame->fresh = &fresh;
  frames_.push_back(std::move(frame));
  return frames_.back().get();
}

ScopeTracker::Frame* ScopeTracker::enter(Frame* frame) { return std::exchange(current_, frame); }

void ScopeTracker::note(Kind kind, Name name) { current_->events.push_back({kind, name}); }

void ScopeTracker::finish() {
  for (const auto& frame : frames_) frame->run();
}

}  // namespace strata::text::jinja
