// Values of arguments that stand between tags: strings as they are, the rest as JSON.
//
// Purpose: which of the two a text is follows from the schema of the parameter.
// Not for: validation; what does not fit the schema becomes a string.
// Threads: constant after construction.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace strata::text {

class TaggedValue {
 public:
  enum class Kind {
    text,    // any string, as it stands
    choice,  // strings that the schema restricts; may be written in quotes
    json,    // no string
    mixed    // a string or something else
  };
  // `document` is what references are relative to.
  TaggedValue(const Json& schema, const Json& document);
  TaggedValue() = default;  // anything

  Kind kind() const { return kind_; }
  // For `choice`: all strings there are, where they can be listed.
  const std::vector<std::string>& strings() const { return strings_; }
  // For `mixed`: any text is a value.
  bool any_text() const { return any_text_; }
  // For `text`: the least and greatest number of characters.
  std::optional<uint64_t> min_length() const { return min_length_; }
  std::optional<uint64_t> max_length() const { return max_length_; }
  // The JSON of what was written.
  std::string json_of(std::string_view written) const;

 private:
  Kind kind_ = Kind::mixed;
  unsigned types_ = ~0u;
  std::vector<std::string> strings_;
  bool any_text_ = true;
  std::optional<uint64_t> min_length_, max_length_;
};

// What a reference within the document leads to; the schema itself when there is none, null when it
// leads nowhere.
const Json* resolve_reference(const Json& schema, const Json& document);

}  // namespace strata::text
