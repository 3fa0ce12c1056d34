#include "text/grammar/matcher.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/machine.h"
#include "text/grammar/program.h"

namespace strata::text {

using grammar::Machine;
using grammar::StateId;

std::shared_ptr<const Grammar> Grammar::parse(std::string_view gbnf) {
  grammar::Ast ast = grammar::parse_gbnf(gbnf);
  grammar::share_beginnings(ast);
  grammar::refuse_left_recursion(ast);
  auto program = std::make_shared<const grammar::Program>(grammar::compile(ast));
  return std::shared_ptr<const Grammar>(new Grammar(std::move(program)));
}

Grammar::Grammar(std::shared_ptr<const grammar::Program> program) : program_(std::move(program)) {}

// The machine of all copies of a matcher. Each copy has a slot in machine.kept for its state.
struct GrammarMatcher::Shared {
  Shared(const std::shared_ptr<const Grammar>& grammar, std::shared_ptr<const TokenTrie> trie,
         size_t budget)
      : tokens(std::move(trie)), machine(grammar->program(), tokens, budget) {}

  size_t take_slot(StateId state) {
    if (free.empty()) {
      machine.kept.push_back(state);
      free.reserve(machine.kept.size());  // so that giving back never fails
      return machine.kept.size() - 1;
    }
    const size_t slot = free.back();
    free.pop_back();
    machine.kept[slot] = state;
    return slot;
  }
  void give_back(size_t slot) {
    machine.kept[slot] = Machine::k_dead;
    free.push_back(slot);
  }
  StateId start() const { return machine.kept[0]; }

  const std::shared_ptr<const TokenTrie> tokens;
  std::mutex mutex;
  Machine machine;
  std::vector<size_t> free;
};

GrammarMatcher::GrammarMatcher(const std::shared_ptr<const Grammar>& grammar,
                               std::shared_ptr<const TokenTrie> tokens, size_t budget)
    : shared_(std::make_shared<Shared>(grammar, std::move(tokens), budget)),
      slot_(shared_->take_slot(shared_->start())) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : shared_(other.shared_), finished_(other.finished_) {
  const std::lock_guard lock(shared_->mutex);
  slot_ = shared_->take_slot(shared_->machine.kept[other.slot_]);
}

GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  if (this == &other) return *this;
  GrammarMatcher copy(other);
  std::swap(shared_, copy.shared_);
  std::swap(slot_, copy.slot_);
  std::swap(finished_, copy.finished_);
  return *this;
}

GrammarMatcher::~GrammarMatcher() {
  const std::lock_guard lock(shared_->mutex);
  shared_->give_back(slot_);
}

bool GrammarMatcher::accept_text(std::string_view text) {
  if (finished_) return text.empty();
  const std::lock_guard lock(shared_->mutex);
  shared_->machine.begin();
  const StateId next = shared_->machine.read(shared_->machine.kept[slot_], text);
  if (next == Machine::k_dead) return false;
  shared_->machine.kept[slot_] = next;
  return true;
}

bool GrammarMatcher::accept(TokenId id) {
  const TokenTrie& tokens = *shared_->tokens;
  if (id < 0 || static_cast<size_t>(id) >= tokens.size()) return false;
  if (tokens.is_end_of_generation(id)) {
    if (!is_complete()) return false;
    finished_ = true;
    return true;
  }
  const std::string_view text = tokens.bytes(id);
  return !text.empty() && !finished_ && accept_text(text);
}

bool GrammarMatcher::allows(TokenId id) {
  const TokenTrie& tokens = *shared_->tokens;
  if (id < 0 || static_cast<size_t>(id) >= tokens.size()) return false;
  if (tokens.is_end_of_generation(id)) return is_complete();
  const std::string_view text = tokens.bytes(id);
  if (text.empty() || finished_) return false;
  const std::lock_guard lock(shared_->mutex);
  shared_->machine.begin();
  return shared_->machine.read(shared_->machine.kept[slot_], text) != Machine::k_dead;
}

void GrammarMatcher::mask(std::span<uint32_t> out) {
  if (out.size() != mask_words()) {
    fail(ErrorCode::internal, "a mask of {} words for a vocabulary that needs {}", out.size(),
         mask_words());
  }
  if (finished_) {
    std::fill(out.begin(), out.end(), 0u);
    for (const TokenId id : shared_->tokens->end_of_generation()) {
      const auto bit = static_cast<uint32_t>(id);
      out[bit / 32] |= 1u << (bit % 32);
    }
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->machine.begin();
  const std::span<const uint32_t> mask = shared_->machine.mask(shared_->machine.kept[slot_]);
  std::copy(mask.begin(), mask.end(), out.begin());
}

bool GrammarMatcher::is_complete() {
  if (finished_) return true;
  const std::lock_guard lock(shared_->mutex);
  return shared_->machine.is_accepting(shared_->machine.kept[slot_]);
}

void GrammarMatcher::reset() {
  const std::lock_guard lock(shared_->mutex);
  shared_->machine.kept[slot_] = shared_->start();
  finished_ = false;
}

size_t GrammarMatcher::mask_words() const { return shared_->tokens->mask_words(); }

size_t GrammarMatcher::memory_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->machine.memory_bytes();
}

}  // namespace strata::text
