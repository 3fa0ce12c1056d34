#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace strata::text {

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    Matcher matcher;
    matcher.text = std::move(stop);
    const std::string& text = matcher.text;
    matcher.fallback.resize(text.size(), 0);
    for (size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = matcher.fallback[border - 1];
      if (text[i] == text[border]) ++border;
      matcher.fallback[i] = static_cast<uint32_t>(border);
    }
    matchers_.push_back(std::move(matcher));
  }
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return "";
  for (size_t i = 0; i < text.size(); ++i) {
    const Matcher* complete = nullptr;
    for (Matcher& m : matchers_) {
      while (m.matched > 0 && m.text[m.matched] != text[i]) m.matched = m.fallback[m.matched - 1];
      if (m.text[m.matched] == text[i]) ++m.matched;
      if (m.matched < m.text.size()) continue;
      if (complete == nullptr || m.text.size() > complete->text.size()) complete = &m;
    }
    if (complete != nullptr) {
      stopped_ = true;
      matched_ = complete->text;
      std::string out = std::move(held_);
      held_.clear();
      out.append(text.substr(0, i + 1));
      // A partial match is always held back, so all of the stop string is still here.
      out.resize(out.size() - matched_.size());
      return out;
    }
  }
  size_t hold = 0;
  for (const Matcher& m : matchers_) hold = std::max(hold, m.matched);
  std::string out = std::move(held_);
  out.append(text);
  held_ = out.substr(out.size() - hold);
  out.resize(out.size() - hold);
  return out;
}

std::string StopStrings::finish() {
  if (stopped_) return "";
  for (Matcher& m : matchers_) m.matched = 0;
  return std::exchange(held_, std::string());
}

void StopStrings::reset() {
  for (Matcher& m : matchers_) m.matched = 0;
  held_.clear();
  matched_.clear();
  stopped_ = false;
}

}  // namespace strata::text
