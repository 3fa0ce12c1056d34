#include "text/tokenizers/special_splitter.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace strata::text {

void SpecialSplitter::add(std::string_view text, uint32_t token) {
  if (text.empty()) return;
  trie_.add(text, token, true);
  starts_[static_cast<uint8_t>(text.back())] = true;
}

void SpecialSplitter::finish() {
  const uint32_t count = trie_.size();
  fallback_.assign(count, ByteTrie::k_root);
  shorter_.assign(count, ByteTrie::k_root);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return trie_[a].depth < trie_[b].depth; });
  for (const uint32_t node : order) {
    if (trie_[node].depth < 2) continue;
    uint32_t from = fallback_[trie_[node].parent];
    uint32_t next = trie_.child(from, trie_[node].byte);
    while (next == ByteTrie::k_none && from != ByteTrie::k_root) {
      from = fallback_[from];
      next = trie_.child(from, trie_[node].byte);
    }
    fallback_[node] = next == ByteTrie::k_none ? ByteTrie::k_root : next;
    shorter_[node] = longest(fallback_[node]);
  }
}

uint32_t SpecialSplitter::step(uint32_t node, uint8_t byte) const {
  for (;;) {
    if (node == ByteTrie::k_root && !starts_[byte]) return node;
    const uint32_t next = trie_.child(node, byte);
    if (next != ByteTrie::k_none) return next;
    if (node == ByteTrie::k_root) return node;
    node = fallback_[node];
  }
}

// The longest token that ends (in the text: begins) where the automaton stands.
uint32_t SpecialSplitter::longest(uint32_t node) const {
  return trie_[node].value != ByteTrie::k_none ? node : shorter_[node];
}

std::vector<SpecialSplitter::Match> SpecialSplitter::find(std::string_view text) const {
  std::vector<Match> matches;
  if (trie_.size() == 1) return matches;
  uint32_t node = ByteTrie::k_root;
  for (size_t at = text.size(); at-- > 0;) {
    node = step(node, static_cast<uint8_t>(text[at]));
    if (node == ByteTrie::k_root) continue;
    const uint32_t match = longest(node);
    if (match != ByteTrie::k_root) matches.push_back({at, match});
  }
  std::reverse(matches.begin(), matches.end());
  return matches;
}

std::vector<SpecialSplitter::Match> SpecialSplitter::choose(std::string_view text,
                                                            std::vector<Match> matches) const {
  bool overlap = false;
  for (size_t i = 0; i + 1 < matches.size() && !overlap; ++i) {
    overlap = matches[i].begin + trie_[matches[i].node].depth > matches[i + 1].begin;
  }
  if (!overlap) return matches;

  const auto later = [&](const Match& a, const Match& b) {
    const uint32_t length_a = trie_[a.node].depth;
    const uint32_t length_b = trie_[b.node].depth;
    return length_a != length_b ? length_a < length_b : a.begin > b.begin;
  };
  std::priority_queue<Match, std::vector<Match>, decltype(later)> queue(later, std::move(matches));
  std::vector<bool> taken(text.size());
  std::vector<Match> chosen;
  while (!queue.empty()) {
    Match match = queue.top();
    queue.pop();
    const size_t length = trie_[match.node].depth;
    // What was taken before is at least as long, so it cannot lie strictly inside.
    if (taken[match.begin]) continue;
    if (!taken[match.begin + length - 1]) {
      std::fill_n(taken.begin() + static_cast<ptrdiff_t>(match.begin), length, true);
      chosen.push_back(match);
      continue;
    }
    match.node = shorter_[match.node];
    if (match.node != ByteTrie::k_root) queue.push(match);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Match& a, const Match& b) { return a.begin < b.begin; });
  return chosen;
}

std::vector<SpecialSplitter::Segment> SpecialSplitter::split(std::string_view text) const {
  std::vector<Segment> segments;
  size_t done = 0;
  for (const Match& match : choose(text, find(text))) {
    if (match.begin > done) segments.push_back({done, match.begin, k_text});
    done = match.begin + trie_[match.node].depth;
    segments.push_back({match.begin, done, trie_[match.node].value});
  }
  if (done < text.size()) segments.push_back({done, text.size(), k_text});
  return segments;
}

}  // namespace strata::text
