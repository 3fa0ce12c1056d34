// Runs a Program: sets of stacks, turned into a table of states as they are met.
//
// Purpose: a state is everything the grammar can be in the middle of after some text; stepping by
// a byte that was seen before in that state is one look into a table. Also which tokens may
// follow a state, kept per state.
// Not for: several threads; see matcher.h.
// Errors: ErrorCode::bad_request when a grammar is so ambiguous that a step takes too much work.
// Memory: states, stacks and masks stay near `budget`; when they outgrow it, all that is not in
// use (see collect()) is forgotten and found again when it is needed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/grammar/program.h"
#include "text/grammar/token_trie.h"

namespace strata::text::grammar {

using StateId = uint32_t;

class Machine {
 public:
  static constexpr StateId k_dead = 0;  // nothing can follow
  static constexpr uint32_t k_max_depth = 20'000;
  static constexpr uint32_t k_max_stacks = 4'096;
  static constexpr uint64_t k_max_work =
      50'000'000;  // moves without reading, per call from outside
  static constexpr size_t k_default_budget = size_t{48} << 20;

  Machine(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> tokens,
          size_t budget);

  // Ids that the owner keeps: collect() renames them in place. Slot 0 is the start.
  std::vector<StateId> kept;

  // To be called first by every call from outside: starts counting work, makes room.
  void begin();
  StateId step(StateId state, uint8_t byte) { return step_class(state, class_of_[byte]); }
  // The state after the text, or k_dead.
  StateId read(StateId state, std::string_view text);
  bool is_accepting(StateId state) const { return states_[state].accepting; }
  // Bit set: the token may follow. Valid until the next call.
  std::span<const uint32_t> mask(StateId state);

  size_t memory_bytes() const;  // of states, stacks and masks

 private:
  struct Stack {
    uint32_t node;   // of kind read
    uint32_t frame;  // where to go at the end of the rule; 0: the grammar's end
    bool operator==(const Stack&) const = default;
  };
  struct Frame {
    uint32_t node;    // where to go on
    uint32_t parent;  // 0: none
    uint32_t count;   // of a repeat node: how often it has been entered
    uint32_t depth;
  };
  struct State {
    uint32_t begin;  // of its stacks
    uint32_t count;
    int32_t mask;  // index, or -1
    bool accepting;
    uint8_t plain = 0;         // so many plain characters may surely follow
    bool plain_known = false;  // and not one more
  };
  // Open addressing; an entry is an index + 1.
  struct Table {
    std::vector<uint32_t> entries;
    size_t used = 0;
  };

  StateId step_class(StateId state, uint32_t byte_class) {
    const int32_t next = transitions_[size_t{state} * n_classes_ + byte_class];
    return next >= 0 ? static_cast<StateId>(next) : find_step(state, byte_class);
  }
  StateId find_step(StateId state, uint32_t byte_class);
  void push(uint32_t node, uint32_t frame);
  void enter_repeat(uint32_t node, uint32_t parent, uint32_t count);
  StateId close();
  StateId intern_state(bool accepting);
  uint32_t intern_frame(uint32_t node, uint32_t parent, uint32_t count);
  void clear();
  void collect(std::span<StateId> more);
  bool is_full() const { return memory_bytes() > limit_; }

  uint32_t plain_run(StateId state, uint32_t wanted);
  StateId plain_step(StateId state);
  bool follow(StateId state, uint8_t first, uint8_t last, uint32_t more, StateId& target);
  StateId fill_mask(StateId state, std::vector<uint32_t>& out);

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::array<uint8_t, 256> class_of_;
  uint32_t n_classes_;
  size_t budget_;
  size_t limit_;
  uint64_t work_ = 0;

  std::vector<Frame> frames_;  // frame 0 stands for none
  Table frame_table_;
  std::vector<State> states_;
  std::vector<Stack> stacks_;
  Table state_table_;
  std::vector<int32_t> transitions_;  // per state and class; -1: not looked for yet
  std::vector<std::vector<uint32_t>> masks_;
  std::vector<StateId> mask_owners_;

  // Scratch of one step.
  std::vector<Stack> work_list_;
  std::vector<Stack> found_;
  std::vector<Stack> seen_;  // hashed by stamps, so that it need not be cleared
  std::vector<uint32_t> seen_stamps_;
  uint32_t stamp_ = 0;
  size_t n_seen_ = 0;
  std::vector<StateId> path_;
};

}  // namespace strata::text::grammar
