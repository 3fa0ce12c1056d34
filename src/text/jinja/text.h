// A string that remembers, for every byte, whether the template wrote it.
//
// Purpose: control tokens may only come from the template, never from a message. Cutting, joining
// and replacing keep the origin of every byte.
// Not for: characters (see unicode.h); a Text is always valid UTF-8 because it is only ever built
// from valid pieces cut at character borders.
// Threads: as a standard container.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool from_template)
      : bytes_(std::move(bytes)), first_(from_template || bytes_.empty()) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // True for an empty text.
  bool all_from_template() const { return first_ && flips_.empty(); }

  // What it takes in memory.
  size_t cost() const { return bytes_.size() + flips_.size() * sizeof(size_t); }

  void append(std::string_view bytes, bool from_template) {
    if (bytes.empty()) return;
    if (bytes_.empty()) {
      first_ = from_template;
    } else if (last_origin() != from_template) {
      flips_.push_back(bytes_.size());
    }
    bytes_.append(bytes);
  }
  void append(const Text& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of another text.
  void append(const Text& other, size_t begin, size_t end) {
    other.each_run(begin, end, [this](std::string_view run, bool origin) { append(run, origin); });
  }
  Text slice(size_t begin, size_t end) const {
    Text out;
    out.append(*this, begin, end);
    return out;
  }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }

  // Calls f(bytes, from_template) for every stretch of one origin, in order.
  template <class F>
  void each_run(size_t begin, size_t end, F&& f) const {
    // Number of flips at or before `begin`; each of them turned the origin over.
    size_t next =
        static_cast<size_t>(std::upper_bound(flips_.begin(), flips_.end(), begin) - flips_.begin());
    while (begin < end) {
      const size_t stop = next < flips_.size() ? std::min(flips_[next], end) : end;
      f(std::string_view(bytes_).substr(begin, stop - begin), first_ == (next % 2 == 0));
      begin = stop;
      ++next;
    }
  }
  template <class F>
  void each_run(F&& f) const {
    each_run(0, size(), std::forward<F>(f));
  }

 private:
  bool last_origin() const { return first_ == (flips_.size() % 2 == 0); }

  std::string bytes_;
  bool first_ = true;          // origin of the first byte
  std::vector<size_t> flips_;  // offsets at which the origin turns over, ascending
};

}  // namespace strata::text::jinja
