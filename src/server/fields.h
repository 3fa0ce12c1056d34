// Fields of a request's JSON object, each asked for by name and type.
//
// Errors: FieldError (ErrorCode::bad_request) naming the field, what it holds and what would be
// right. Fields that nobody asked for can be listed, to be warned about. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/json.h"

namespace strata::server {

class Fields {
 public:
  // Not an object: an error.
  explicit Fields(const Json& object, std::string where = "");

  bool has(const std::string& name);
  // A null counts as absent.
  const Json* find(const std::string& name);
  std::optional<bool> boolean(const std::string& name);
  std::optional<int64_t> integer(const std::string& name, int64_t min, int64_t max);
  std::optional<double> real(const std::string& name, double min, double max);
  std::optional<std::string> string(const std::string& name);
  // A string or a list of strings.
  std::vector<std::string> strings(const std::string& name, size_t most);
  const Json* object(const std::string& name);
  const Json* list(const std::string& name);
  // Names that were never asked for.
  std::vector<std::string> unknown() const;

  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;
  // With its way through objects and lists, as errors have it.
  std::string path_of(const std::string& name) const;

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace strata::server
