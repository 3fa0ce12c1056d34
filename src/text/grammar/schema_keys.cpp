#include "text/grammar/schema_keys.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"

namespace strata::text::grammar {
namespace {

constexpr std::string_view k_short = "\"\\bfnrt";

// A key as the units it is spelled in: a character, or an escape's letter + k_escape. Absent: a
// key that cannot be spelled so.
using Units = std::vector<uint32_t>;
constexpr uint32_t k_escape = 0x200000;

std::optional<Units> units_of(std::string_view name) {
  Units out;
  for (size_t at = 0; at < name.size();) {
    const Utf8Char c = decode_utf8(name, at);
    at += c.length;
    constexpr std::string_view raw = "\"\\\b\f\n\r\t";
    const size_t escape =
        c.code_point < 0x80 ? raw.find(static_cast<char>(c.code_point)) : raw.npos;
    if (escape != raw.npos) {
      out.push_back(k_escape + static_cast<uint32_t>(k_short[escape]));
    } else if (c.code_point < 0x20 || c.code_point == 0x7F) {
      return std::nullopt;
    } else {
      out.push_back(c.code_point);
    }
  }
  return out;
}

// Escapes whose letter is none of `without`.
std::string other_escapes(std::string_view without) {
  std::string letters;
  for (const char c : k_short) {
    if (without.find(c) != without.npos) continue;
    if (c == '\\') letters += '\\';
    letters += c;
  }
  return letters.empty() ? "" : " | \"\\\\\" [" + letters + "]";
}

std::string other_characters(const Units& without) {
  std::string out = "[^\"\\\\\\x00-\\x1F\\x7F";
  std::string escapes;
  for (const uint32_t unit : without) {
    if (unit >= k_escape) {
      escapes += static_cast<char>(unit - k_escape);
    } else {
      out += fmt::format("\\U{:08X}", unit);
    }
  }
  return "(" + out + "]" + other_escapes(escapes) + ")";
}

}  // namespace

std::string gbnf_of_other_keys(const std::vector<std::string>& names,
                               const std::function<std::string(const std::string&)>& add_rule) {
  std::vector<Units> keys;
  for (const std::string& name : names) {
    if (auto units = units_of(name)) keys.push_back(std::move(*units));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const std::string rest = add_rule(other_characters({}) + "* \"\\\"\"");

  // Keys [begin, end) agree in their first `depth` units: what may follow there. Rules are made
  // from the leaves up, without recursion, since keys may be long.
  struct Place {
    size_t begin, end, depth, parent;
    Units children;
    std::vector<std::string> bodies;
  };
  std::vector<Place> places = {{0, keys.size(), 0, 0, {}, {}}};
  for (size_t p = 0; p < places.size(); ++p) {
    const size_t end = places[p].end, depth = places[p].depth;
    for (size_t i = places[p].begin; i < end;) {
      if (keys[i].size() == depth) {
        ++i;
        continue;
      }
      size_t next = i + 1;
      while (next < end && keys[next][depth] == keys[i][depth]) ++next;
      places[p].children.push_back(keys[i][depth]);
      places.push_back({i, next, depth + 1, p, {}, {}});
      i = next;
    }
    if (places.size() > 200'000)
      fail(ErrorCode::bad_request, "the schema's property names are too long");
  }
  for (size_t p = places.size(); p-- > 0;) {
    Place& place = places[p];
    std::string body = other_characters(place.children) + " " + rest;
    const bool is_key = place.begin < place.end && keys[place.begin].size() == place.depth;
    if (!is_key) body += " | \"\\\"\"";
    for (const std::string& child : place.bodies) body += " | " + child;
    if (p == 0) return "\"\\\"\" (" + body + ")";
    const uint32_t unit = keys[place.begin][place.depth - 1];
    const std::string spelled =
        unit >= k_escape ? fmt::format("\"\\\\\" [{}{}]", unit - k_escape == '\\' ? "\\" : "",
                                       static_cast<char>(unit - k_escape))
                         : fmt::format("[\\U{:08X}]", unit);
    places[place.parent].bodies.push_back(spelled + " " + add_rule(body));
  }
  return "";
}

}  // namespace strata::text::grammar
