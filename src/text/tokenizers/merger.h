// Merging of neighbours, lowest rank first, leftmost on ties: the core of BPE and SPM.
//
// Time: short pieces by a plain scan; long ones with a priority queue, n log n.
// Threads: one Merger belongs to one call; it keeps its buffers between pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "text/tokenizers/pair_table.h"

namespace strata::text {

struct Part {
  uint32_t begin = 0;   // byte offset in the piece
  uint32_t length = 0;  // bytes
  uint32_t symbol = 0;  // meaning is the caller's
};

// A Merger is filled with parts() and run; parts() then holds what is left, in order.
class Merger {
 public:
  std::vector<Part>& parts() { return parts_; }

  // `lookup(const Part& left, const Part& right)` gives the Merge of two neighbours.
  template <class Lookup>
  void run(const Lookup& lookup) {
    if (parts_.size() < 2) return;
    if (parts_.size() <= k_scan_limit) {
      scan(lookup);
    } else {
      run_queue(lookup);
    }
  }

 private:
  static constexpr size_t k_scan_limit = 48;

  template <class Lookup>
  void scan(const Lookup& lookup) {
    size_t count = parts_.size();
    Part* parts = parts_.data();
    Merge merges[k_scan_limit];  // merges[i]: of parts i and i + 1
    for (size_t i = 0; i + 1 < count; ++i) merges[i] = lookup(parts[i], parts[i + 1]);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i) {
        if (merges[i].rank < merges[best].rank) best = i;
      }
      if (merges[best].rank == Merge::k_never) break;
      parts[best].symbol = merges[best].symbol;
      parts[best].length += parts[best + 1].length;
      std::copy(parts + best + 2, parts + count, parts + best + 1);
      --count;
      if (best + 1 < count) {
        std::copy(merges + best + 2, merges + count, merges + best + 1);
        merges[best] = lookup(parts[best], parts[best + 1]);
      }
      if (best > 0) merges[best - 1] = lookup(parts[best - 1], parts[best]);
    }
    parts_.resize(count);
  }

  struct Link {
    uint32_t previous;
    uint32_t next;
  };
  struct Candidate {
    uint64_t order;  // rank, then position
    uint32_t length;
    uint32_t symbol;
  };
  static constexpr uint32_t k_end = UINT32_MAX;

  // The next candidate in order, from three places: a sorted run, a heap of candidates that came up
  // later but belong between those of the run, and the rest, which becomes the next run. (Merging
  // mostly makes candidates for later, so most of them are sorted, not sifted through a heap.)
  class Queue {
   public:
    void clear() {
      run_.clear();
      rest_.clear();
      heap_.clear();
      at_ = 0;
    }
    void push(const Candidate& candidate) {
      // The heap is empty before the run's last candidate is taken.
      if (at_ < run_.size() && candidate.order < run_.back().order) {
        heap_.push_back(candidate);
        std::push_heap(heap_.begin(), heap_.end(), later);
      } else {
        rest_.push_back(candidate);
      }
    }
    bool pop(Candidate& out) {
      if (at_ == run_.size() && heap_.empty()) {
        run_.swap(rest_);
        rest_.clear();
        at_ = 0;
        if (run_.empty()) return false;
        if (!std::is_sorted(run_.begin(), run_.end(), sooner)) {
          std::sort(run_.begin(), run_.end(), sooner);
        }
      }
      if (heap_.empty() || (at_ < run_.size() && run_[at_].order <= heap_.front().order)) {
        out = run_[at_++];
        return true;
      }
      out = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      return true;
    }

   private:
    static bool sooner(const Candidate& a, const Candidate& b) { return a.order < b.order; }
    static bool later(const Candidate& a, const Candidate& b) { return a.order > b.order; }
    std::vector<Candidate> run_;
    std::vector<Candidate> rest_;
    std::vector<Candidate> heap_;
    size_t at_ = 0;
  };

  template <class Lookup>
  void run_queue(const Lookup& lookup) {
    const uint32_t count = static_cast<uint32_t>(parts_.size());
    links_.resize(count);
    queue_.clear();
    const auto consider = [&](uint32_t left, uint32_t right) {
      const Merge merge = lookup(parts_[left], parts_[right]);
      if (merge.rank == Merge::k_never) return;
      queue_.push({uint64_t{merge.rank} << 32 | left, parts_[left].length + parts_[right].length,
                   merge.symbol});
    };
    for (uint32_t i = 0; i < count; ++i) {
      links_[i] = {i == 0 ? k_end : i - 1, i + 1 == count ? k_end : i + 1};
      if (i + 1 < count) consider(i, i + 1);
    }
    for (Candidate candidate{}; queue_.pop(candidate);) {
      const uint32_t left = static_cast<uint32_t>(candidate.order);
      // A part that was swallowed has length 0. Parts only grow, so a pair of the length that was
      // noted is the pair that was noted.
      const uint32_t right = links_[left].next;
      if (parts_[left].length == 0 || right == k_end ||
          parts_[left].length + parts_[right].length != candidate.length) {
        continue;
      }
      parts_[left].length = candidate.length;
      parts_[left].symbol = candidate.symbol;
      parts_[right].length = 0;
      const uint32_t next = links_[right].next;
      links_[left].next = next;
      if (next != k_end) links_[next].previous = left;
      const uint32_t previous = links_[left].previous;
      if (previous != k_end) consider(previous, left);
      if (next != k_end) consider(left, next);
    }
    parts_.erase(std::remove_if(parts_.begin(), parts_.end(),
                                [](const Part& part) { return part.length == 0; }),
                 parts_.end());
  }

  std::vector<Part> parts_;
  std::vector<Link> links_;
  Queue queue_;
};

}  // namespace strata::text
