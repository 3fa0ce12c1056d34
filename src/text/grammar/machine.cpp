#include "text/grammar/machine.h"

#include <algorithm>

#include "base/error.h"

namespace strata::text::grammar {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

// Finds the entry that `equals` knows, or a free one, in a table that is never full.
template <class Equals>
size_t find_entry(const std::vector<uint32_t>& entries, uint64_t hash, Equals&& equals) {
  size_t at = hash & (entries.size() - 1);
  while (entries[at] != 0 && !equals(entries[at] - 1)) at = (at + 1) & (entries.size() - 1);
  return at;
}

// Doubles a table that is half full; `hash_of` an index gives its place again.
template <class HashOf>
void grow(std::vector<uint32_t>& entries, size_t used, HashOf&& hash_of) {
  if (used * 2 < entries.size()) return;
  std::vector<uint32_t> old(std::max<size_t>(entries.size() * 2, 64));
  old.swap(entries);
  for (const uint32_t entry : old) {
    if (entry == 0) continue;
    entries[find_entry(entries, hash_of(entry - 1), [](uint32_t) { return false; })] = entry;
  }
}

}  // namespace

Machine::Machine(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> tokens,
                 size_t budget)
    : program_(std::move(program)),
      tokens_(std::move(tokens)),
      class_of_(program_->class_of),
      n_classes_(program_->n_classes),
      budget_(budget),
      limit_(budget) {
  seen_.resize(64);
  seen_stamps_.resize(64);
  path_.resize(TokenTrie::k_max_token_bytes + 1, k_dead);
  clear();
  ++stamp_;
  push(program_->start, 0);
  kept.push_back(close());
}

void Machine::clear() {
  frames_.assign(1, {0, 0, 0, 0});
  frame_table_ = {};
  stacks_.clear();
  states_.clear();
  state_table_ = {};
  transitions_.clear();
  masks_.clear();
  mask_owners_.clear();
  found_.clear();
  intern_state(false);  // k_dead
}

void Machine::begin() {
  work_ = 0;
  if (is_full()) collect({});
}

StateId Machine::read(StateId state, std::string_view text) {
  for (size_t i = 0; i < text.size() && state != k_dead; ++i) {
    state = step(state, static_cast<uint8_t>(text[i]));
    if (i % 1024 == 1023) {
      work_ = 0;
      if (is_full()) collect({&state, 1});
    }
  }
  return state;
}

size_t Machine::memory_bytes() const {
  return frames_.size() * sizeof(Frame) + states_.size() * sizeof(State) +
         stacks_.size() * sizeof(Stack) + transitions_.size() * sizeof(int32_t) +
         (frame_table_.entries.size() + state_table_.entries.size()) * sizeof(uint32_t) +
         masks_.size() * tokens_->mask_words() * sizeof(uint32_t);
}

// Forgets every state but those in `kept` and `more`, which get new names.
void Machine::collect(std::span<StateId> more) {
  const std::vector<Frame> old_frames = std::move(frames_);
  const std::vector<State> old_states = std::move(states_);
  const std::vector<Stack> old_stacks = std::move(stacks_);
  clear();
  std::vector<uint32_t> new_frame(old_frames.size(), 0);
  std::vector<StateId> new_state(old_states.size(), k_dead);
  std::vector<uint32_t> chain;
  const auto move_state = [&](StateId& id) {
    if (id == k_dead) return;
    if (new_state[id] == k_dead) {
      const State& state = old_states[id];
      found_.clear();
      for (uint32_t i = state.begin; i < state.begin + state.count; ++i) {
        uint32_t frame = old_stacks[i].frame;
        for (; frame != 0 && new_frame[frame] == 0; frame = old_frames[frame].parent) {
          chain.push_back(frame);
        }
        for (; !chain.empty(); chain.pop_back()) {
          const Frame& old = old_frames[chain.back()];
          new_frame[chain.back()] = intern_frame(old.node, new_frame[old.parent], old.count);
        }
        found_.push_back({old_stacks[i].node, new_frame[old_stacks[i].frame]});
      }
      new_state[id] = intern_state(state.accepting);
    }
    id = new_state[id];
  };
  for (StateId& id : kept) move_state(id);
  for (StateId& id : more) move_state(id);
  limit_ = std::max(budget_, memory_bytes() * 2);
}

uint32_t Machine::intern_frame(uint32_t node, uint32_t parent, uint32_t count) {
  const auto hash = [](const Frame& f) { return mix(mix(f.node, f.parent), f.count); };
  grow(frame_table_.entries, frame_table_.used, [&](uint32_t i) { return hash(frames_[i]); });
  const Frame frame{node, parent, count, frames_[parent].depth + 1};
  const size_t at = find_entry(frame_table_.entries, hash(frame), [&](uint32_t i) {
    return frames_[i].node == node && frames_[i].parent == parent && frames_[i].count == count;
  });
  if (frame_table_.entries[at] == 0) {
    frames_.push_back(frame);
    frame_table_.entries[at] = static_cast<uint32_t>(frames_.size());
    ++frame_table_.used;
  }
  return frame_table_.entries[at] - 1;
}

// The state whose stacks are found_.
StateId Machine::intern_state(bool accepting) {
  std::sort(found_.begin(), found_.end(), [](const Stack& a, const Stack& b) {
    return a.node != b.node ? a.node < b.node : a.frame < b.frame;
  });
  const auto hash = [](const Stack* begin, size_t count, bool end) {
    uint64_t h = count * 2 + (end ? 1 : 0);
    for (size_t i = 0; i < count; ++i) h = mix(h, (uint64_t{begin[i].node} << 32) | begin[i].frame);
    return mix(h, 0);
  };
  grow(state_table_.entries, state_table_.used, [&](uint32_t i) {
    return hash(stacks_.data() + states_[i].begin, states_[i].count, states_[i].accepting);
  });
  const size_t at = find_entry(
      state_table_.entries, hash(found_.data(), found_.size(), accepting), [&](uint32_t i) {
        const State& s = states_[i];
        return s.accepting == accepting && s.count == found_.size() &&
               std::equal(found_.begin(), found_.end(), stacks_.begin() + s.begin);
      });
  if (state_table_.entries[at] == 0) {
    State state{};
    state.begin = static_cast<uint32_t>(stacks_.size());
    state.count = static_cast<uint32_t>(found_.size());
    state.mask = -1;
    state.accepting = accepting;
    states_.push_back(state);
    stacks_.insert(stacks_.end(), found_.begin(), found_.end());
    transitions_.resize(transitions_.size() + n_classes_, -1);
    state_table_.entries[at] = static_cast<uint32_t>(states_.size());
    ++state_table_.used;
  }
  return state_table_.entries[at] - 1;
}

StateId Machine::find_step(StateId state, uint32_t byte_class) {
  const Program& program = *program_;
  ++stamp_;
  n_seen_ = 0;
  for (uint32_t i = 0; i < states_[state].count; ++i) {
    const Stack stack = stacks_[states_[state].begin + i];
    const Node& node = program.nodes[stack.node];
    const Edge* edges = program.edges.data() + node.b;
    // Edges are ascending and disjoint.
    const Edge* edge =
        std::upper_bound(edges, edges + node.a, byte_class,
                         [](uint32_t value, const Edge& e) { return value <= e.last; });
    if (edge != edges + node.a && edge->first <= byte_class) push(edge->next, stack.frame);
  }
  const StateId next = close();
  transitions_[size_t{state} * n_classes_ + byte_class] = static_cast<int32_t>(next);
  return next;
}

void Machine::push(uint32_t node, uint32_t frame) {
  if (++work_ > k_max_work) {
    fail(ErrorCode::bad_request,
         "the grammar is too ambiguous: a step took more than {} moves; make its alternatives "
         "begin differently",
         k_max_work);
  }
  const auto hash = [](const Stack& s) { return mix(mix(s.node, s.frame), 0); };
  if (n_seen_ * 2 >= seen_.size()) {
    std::vector<Stack> old(seen_.size() * 2);
    std::vector<uint32_t> old_stamps(seen_.size() * 2);
    old.swap(seen_);
    old_stamps.swap(seen_stamps_);
    for (size_t i = 0; i < old.size(); ++i) {
      if (old_stamps[i] != stamp_) continue;
      size_t at = hash(old[i]) & (seen_.size() - 1);
      while (seen_stamps_[at] == stamp_) at = (at + 1) & (seen_.size() - 1);
      seen_[at] = old[i];
      seen_stamps_[at] = stamp_;
    }
  }
  const Stack stack{node, frame};
  size_t at = hash(stack) & (seen_.size() - 1);
  for (; seen_stamps_[at] == stamp_; at = (at + 1) & (seen_.size() - 1)) {
    if (seen_[at] == stack) return;
  }
  seen_[at] = stack;
  seen_stamps_[at] = stamp_;
  ++n_seen_;
  work_list_.push_back(stack);
}

void Machine::enter_repeat(uint32_t index, uint32_t parent, uint32_t count) {
  const Node& node = program_->nodes[index];
  if (count >= node.min) push(node.b, parent);
  if (count >= node.max || frames_[parent].depth >= k_max_depth) return;
  // Without an upper end, what lies above the lower one need not be told apart.
  const uint32_t next = node.max == k_unbounded ? std::min(count + 1, node.min) : count + 1;
  push(node.a, intern_frame(index, parent, next));
}

// Follows everything that reads nothing; the stacks that read, and whether the grammar may end.
StateId Machine::close() {
  const Program& program = *program_;
  found_.clear();
  bool accepting = false;
  // An error leaves a rest behind that must not be part of the next step.
  struct Emptied {
    std::vector<Stack>& list;
    ~Emptied() { list.clear(); }
  } emptied{work_list_};
  while (!work_list_.empty()) {
    const Stack stack = work_list_.back();
    work_list_.pop_back();
    const Node& node = program.nodes[stack.node];
    switch (node.kind) {
      case NodeKind::read:
        if (found_.size() >= k_max_stacks) {
          fail(ErrorCode::bad_request,
               "the grammar is too ambiguous, or has too many alternatives: more than {} are open "
               "at once; let those that begin alike share their beginning, or use fewer",
               k_max_stacks);
        }
        found_.push_back(stack);
        break;
      case NodeKind::split:
        for (uint32_t i = node.a; i-- > 0;) push(program.targets[node.b + i], stack.frame);
        break;
      case NodeKind::call:
        if (frames_[stack.frame].depth < k_max_depth) {
          push(node.a, intern_frame(node.b, stack.frame, 0));
        }
        break;
      case NodeKind::repeat:
        enter_repeat(stack.node, stack.frame, 0);
        break;
      case NodeKind::end:
        if (stack.frame == 0) {
          accepting = true;
          break;
        }
        const Frame frame = frames_[stack.frame];
        if (program.nodes[frame.node].kind == NodeKind::repeat) {
          enter_repeat(frame.node, frame.parent, frame.count);
        } else {
          push(frame.node, frame.parent);
        }
        break;
    }
  }
  return intern_state(accepting);
}

// The one state that every plain character leads to, or k_dead. Checked by first bytes and what
// may follow each (Unicode, table 3-7).
StateId Machine::plain_step(StateId state) {
  StateId to = k_dead;
  const bool same =
      follow(state, 0x20, 0x21, 0, to) && follow(state, 0x23, 0x5B, 0, to) &&
      follow(state, 0x5D, 0x7E, 0, to) && follow(state, 0xC2, 0xDF, 1, to) &&
      follow(step(state, 0xE0), 0xA0, 0xBF, 1, to) && follow(state, 0xE1, 0xEC, 2, to) &&
      follow(step(state, 0xED), 0x80, 0x9F, 1, to) && follow(state, 0xEE, 0xEF, 2, to) &&
      follow(step(state, 0xF0), 0x90, 0xBF, 2, to) && follow(state, 0xF1, 0xF3, 3, to) &&
      follow(step(state, 0xF4), 0x80, 0x8F, 2, to);
  return same ? to : k_dead;
}

// Whether each of the bytes, with `more` continuation bytes after it, leads to `target` (which is
// set when it is k_dead).
bool Machine::follow(StateId state, uint8_t first, uint8_t last, uint32_t more, StateId& target) {
  StateId before = k_dead;
  for (uint32_t byte = first; byte <= last; ++byte) {
    const StateId next = step(state, static_cast<uint8_t>(byte));
    if (next == k_dead) return false;
    if (next == before) continue;
    before = next;
    if (more > 0) {
      if (!follow(next, 0x80, 0xBF, more - 1, target)) return false;
    } else if (target == k_dead) {
      target = next;
    } else if (target != next) {
      return false;
    }
  }
  return true;
}

// How many plain characters may surely follow; what is more than `wanted` need not be found out.
uint32_t Machine::plain_run(StateId state, uint32_t wanted) {
  if (states_[state].plain_known || states_[state].plain >= wanted) return states_[state].plain;
  const StateId next = plain_step(state);
  uint32_t run = 0;
  bool known = true;
  if (next == state) {
    run = TokenTrie::k_plain_characters;
  } else if (next != k_dead) {
    const uint32_t after = wanted > 1 ? plain_run(next, wanted - 1) : 0;
    run = std::min(after + 1, TokenTrie::k_plain_characters);
    known = run < wanted;
  }
  states_[state].plain = static_cast<uint8_t>(run);
  states_[state].plain_known = known;
  return run;
}

std::span<const uint32_t> Machine::mask(StateId state) {
  if (states_[state].mask < 0) {
    const size_t bytes = tokens_->mask_words() * sizeof(uint32_t);
    if ((masks_.size() + 1) * bytes > budget_ / 2) {
      for (const StateId owner : mask_owners_) states_[owner].mask = -1;
      masks_.clear();
      mask_owners_.clear();
    }
    std::vector<uint32_t> mask;
    state = fill_mask(state, mask);
    states_[state].mask = static_cast<int32_t>(masks_.size());
    masks_.push_back(std::move(mask));
    mask_owners_.push_back(state);
  }
  return masks_[static_cast<size_t>(states_[state].mask)];
}

// Gives the state's name afterwards.
StateId Machine::fill_mask(StateId state, std::vector<uint32_t>& out) {
  const std::span<const TokenTrie::Node> nodes = tokens_->nodes();
  const std::span<const TokenId> ids = tokens_->tokens();
  const bool any_plain =
      plain_run(state, TokenTrie::k_plain_characters) >= TokenTrie::k_plain_characters;
  if (any_plain) {
    const std::span<const uint32_t> plain = tokens_->plain_mask();
    out.assign(plain.begin(), plain.end());
  } else {
    out.assign(tokens_->mask_words(), 0);
  }
  const auto set = [&out](TokenId id) {
    const auto bit = static_cast<uint32_t>(id);
    out[bit / 32] |= 1u << (bit % 32);
  };
  path_[0] = state;
  const uint32_t n = tokens_->n_nodes();
  for (uint32_t i = 1; i < n;) {
    const TokenTrie::Node& node = nodes[i];
    if (any_plain && node.all_plain) {
      i = node.end;
      continue;
    }
    const size_t at = size_t{path_[node.depth - 1u]} * n_classes_ + class_of_[node.byte];
    int32_t next = transitions_[at];
    if (next < 0) {
      next = static_cast<int32_t>(find_step(path_[node.depth - 1u], class_of_[node.byte]));
      path_[node.depth] = static_cast<StateId>(next);
      if (is_full()) {
        collect({path_.data(), node.depth + 1u});
        next = static_cast<int32_t>(path_[node.depth]);
      }
    }
    if (next == static_cast<int32_t>(k_dead)) {
      i = node.end;
      continue;
    }
    path_[node.depth] = static_cast<StateId>(next);
    ++i;
    for (uint32_t k = node.first_token; k < nodes[i].first_token; ++k) set(ids[k]);
  }
  state = path_[0];
  if (states_[state].accepting) {
    for (const TokenId id : tokens_->end_of_generation()) set(id);
  }
  return state;
}

}  // namespace strata::text::grammar
