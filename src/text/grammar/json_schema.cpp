#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/integer_range.h"
#include "text/grammar/schema_keys.h"
#include "text/grammar/schema_merge.h"
#include "text/grammar/schema_pattern.h"

namespace strata::text {
namespace {

using grammar::gbnf_literal;
using grammar::is_annotation;

constexpr int k_max_schema_depth = 64;
constexpr size_t k_max_work = 300'000;  // values looked at or copied
constexpr size_t k_max_properties = 2'000;
constexpr size_t k_max_warnings = 100;
constexpr size_t k_max_text = grammar::k_max_grammar_bytes;

struct BuiltIn {
  const char* name;
  const char* body;
  std::array<const char*, 4> uses;
};

// Names with a capital, which generated rules do not have. Spaces are bounded, so that a model
// cannot fill its context with them.
constexpr BuiltIn k_built_in[] = {
    {"Ws", R"((" " | "\n"{1,2} [ \t]{0,20})?)", {}},
    {"Hex", "[0-9a-fA-F]", {}},
    // Surrogates come in pairs.
    {"Escape",
     R"("\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] Hex{3} | [dD] [0-7] Hex{2} )"
     R"(| [dD] [89abAB] Hex{2} "\\u" [dD] [c-fC-F] Hex{2})))",
     {"Hex"}},
    {"Char", R"([^"\\\x00-\x1F\x7F] | Escape)", {"Escape"}},
    {"String", R"("\"" Char* "\"")", {"Char"}},
    {"Positive", R"(("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?)", {}},
    {"Number", R"("-"? Positive)", {"Positive"}},
    {"Integer", R"("0" | "-"? [1-9] [0-9]{0,15})", {}},
    {"Value",
     R"(Object | Array | String | Number | "true" | "false" | "null")",
     {"Object", "Array", "String", "Number"}},
    {"Object",
     R"("{" Ws (String ":" Ws Value ("," Ws String ":" Ws Value)* Ws)? "}")",
     {"Ws", "String", "Value"}},
    {"Array", R"("[" Ws (Value ("," Ws Value)* Ws)? "]")", {"Ws", "Value"}},
    {"Year", "[1-9] [0-9]{3}", {}},
    // 29 February in years that four divides, but for those of full centuries.
    {"Date",
     R"(Year "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) )"
     R"(| ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") )"
     R"(| "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])) )"
     R"(| [1-9] [0-9] ("0" [48] | [2468] [048] | [13579] [26]) "-02-29")",
     {"Year"}},
    {"Hours", R"(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])", {}},
    {"Time", R"(Hours ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [-+] Hours))", {"Hours"}},
    {"Uuid", R"(Hex{8} "-" Hex{4} "-" Hex{4} "-" Hex{4} "-" Hex{12})", {"Hex"}},
};

constexpr std::string_view k_keywords[] = {"type",
                                           "properties",
                                           "required",
                                           "additionalProperties",
                                           "items",
                                           "prefixItems",
                                           "minItems",
                                           "maxItems",
                                           "enum",
                                           "const",
                                           "anyOf",
                                           "oneOf",
                                           "allOf",
                                           "$ref",
                                           "minLength",
                                           "maxLength",
                                           "pattern",
                                           "format",
                                           "minimum",
                                           "maximum",
                                           "exclusiveMinimum",
                                           "exclusiveMaximum"};

bool is_keyword(std::string_view key) {
  return std::find(std::begin(k_keywords), std::end(k_keywords), key) != std::end(k_keywords);
}

// Whether anything but annotations stands in the schema.
bool says_something(const Json& schema) {
  for (const auto& [key, value] : schema.as_object()) {
    if (!is_annotation(key)) return true;
  }
  return false;
}

Json without(const Json& schema, std::string_view key) {
  Json out = Json::object();
  for (const auto& [name, value] : schema.as_object()) {
    if (name != key) out.as_object().emplace_back(name, value);
  }
  return out;
}

size_t count_values(const Json& value) {
  size_t n = 1;
  if (value.is_array()) {
    for (const Json& item : value.as_array()) n += count_values(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) n += count_values(item);
  }
  return n;
}

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const Json& document) : document_(document) {}

  SchemaGrammar run() {
    const std::string root = visit(document_, "#", 0);
    out_ = "root ::= " + root + "\n" + out_;
    for (const BuiltIn& rule : k_built_in) {
      if (used_.contains(rule.name)) out_ += fmt::format("{} ::= {}\n", rule.name, rule.body);
    }
    check_size();
    return {std::move(out_), std::move(warnings_)};
  }

 private:
  template <class... Args>
  [[noreturn]] static void fail_at(const std::string& path, fmt::format_string<Args...> format,
                                   Args&&... args) {
    fail(ErrorCode::bad_request, "schema at {}: {}", path,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // One step into the schema, as a pointer shows it.
  static std::string below(const std::string& path, std::string_view key) {
    if (path.size() > 300) return path;
    return path + "/" + printable(key, 60);
  }
  static std::string below(const std::string& path, size_t index) {
    return below(path, std::to_string(index));
  }

  void spend(size_t n, const std::string& path) {
    work_ += n;
    if (work_ > k_max_work) {
      fail_at(path, "the schema is too large or its references multiply too much");
    }
  }

  void check_size() const {
    if (out_.size() > k_max_text) {
      fail(ErrorCode::bad_request, "the schema is too large: its grammar has more than {} bytes",
           k_max_text);
    }
  }

  void warn(const std::string& path, const std::string& text) {
    if (warnings_.size() >= k_max_warnings) return;
    std::string warning = fmt::format("schema at {}: {}", path, text);
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) {
      warnings_.push_back(std::move(warning));
    }
  }

  const char* use(const char* name) {
    if (used_.emplace(name).second) {
      for (const BuiltIn& rule : k_built_in) {
        if (std::string_view(rule.name) != name) continue;
        for (const char* other : rule.uses) {
          if (other != nullptr) use(other);
        }
      }
    }
    return name;
  }

  std::string new_name() { return fmt::format("r{}", n_rules_++); }

  void define(const std::string& name, const std::string& body) {
    out_ += name + " ::= " + body + "\n";
    check_size();
  }

  // Equal bodies share a rule.
  std::string rule(const std::string& body) {
    const auto known = by_body_.find(body);
    if (known != by_body_.end()) return known->second;
    std::string name = new_name();
    define(name, body);
    by_body_.emplace(body, name);
    return name;
  }

  const Json& resolve(const Json& reference, const std::string& path) const {
    const std::string& text = reference.is_string()
                                  ? reference.as_string()
                                  : (fail_at(path, "$ref is not a string"), reference.as_string());
    if (text.empty() || text[0] != '#') {
      fail_at(path, "$ref '{}' leads out of the schema; only '#/...' is supported",
              printable(text, 80));
    }
    const Json* at = &document_;
    for (size_t begin = 1; begin < text.size();) {
      const size_t end = std::min(text.find('/', begin + 1), text.size());
      std::string key;
      for (size_t i = begin + 1; i < end; ++i) {
        if (text[i] == '~' && i + 1 < end && (text[i + 1] == '0' || text[i + 1] == '1')) {
          key += text[++i] == '0' ? '~' : '/';
        } else {
          key += text[i];
        }
      }
      const Json* next = text[begin] == '/' ? at->find(key) : nullptr;
      if (next == nullptr && at->is_array()) {
        size_t index = 0;
        const auto [last, error] = std::from_chars(key.data(), key.data() + key.size(), index);
        if (error == std::errc() && last == key.data() + key.size() &&
            index < at->as_array().size()) {
          next = &at->as_array()[index];
        }
      }
      if (next == nullptr) {
        fail_at(path, "$ref '{}' leads nowhere: there is no '{}'", printable(text, 80),
                printable(key, 60));
      }
      at = next;
      begin = end;
    }
    return *at;
  }

  // The schema with its $ref and allOf carried out, so that it can be merged into another.
  Json flatten(const Json& schema, const std::string& path, int depth) {
    if (depth > k_max_schema_depth) {
      fail_at(path, "$ref or allOf nest deeper than {}", k_max_schema_depth);
    }
    if (schema.is_bool()) {
      if (!schema.as_bool()) fail_at(path, "false allows nothing");
      return Json::object();
    }
    if (!schema.is_object()) fail_at(path, "a schema is an object, not {}", schema.type_name());
    spend(count_values(schema), path);
    Json out = schema;
    if (const Json* reference = schema.find("$ref")) {
      out = without(out, "$ref");
      grammar::merge_schema(out, flatten(resolve(*reference, path), path, depth + 1), path);
    }
    if (const Json* all = schema.find("allOf")) {
      if (!all->is_array()) fail_at(path, "allOf is not a list");
      out = without(out, "allOf");
      for (size_t i = 0; i < all->as_array().size(); ++i) {
        const std::string where = below(below(path, "allOf"), i);
        grammar::merge_schema(out, flatten(all->as_array()[i], where, depth + 1), where);
        spend(count_values(out), path);
      }
    }
    return out;
  }

  // An expression that can stand anywhere: the name of a rule.
  std::string visit(const Json& schema, const std::string& path, int depth) {
    spend(1, path);
    if (depth > k_max_schema_depth) fail_at(path, "nested deeper than {}", k_max_schema_depth);
    if (schema.is_bool()) {
      if (!schema.as_bool()) fail_at(path, "false allows nothing");
      return use("Value");
    }
    if (!schema.is_object()) fail_at(path, "a schema is an object, not {}", schema.type_name());
    if (const Json* reference = schema.find("$ref")) {
      if (!says_something(without(schema, "$ref"))) return visit_reference(*reference, path, depth);
    }
    if (schema.find("$ref") != nullptr || schema.find("allOf") != nullptr) {
      return visit(flatten(schema, path, 0), path, depth + 1);
    }
    for (const auto& [key, value] : schema.as_object()) {
      if (!is_keyword(key) && !is_annotation(key)) {
        warn(path, fmt::format("'{}' is not enforced", printable(key, 60)));
      }
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (const Json* choices = schema.find(key)) {
        return visit_choices(schema, *choices, key, path, depth);
      }
    }
    if (const Json* value = schema.find("const")) return rule(gbnf_literal(value->dump()));
    if (const Json* values = schema.find("enum")) return visit_enum(schema, *values, path);
    return visit_types(schema, path, depth);
  }

  std::string visit_reference(const Json& reference, const std::string& path, int depth) {
    const Json& target = resolve(reference, path);
    const std::string& text = reference.as_string();
    if (open_.contains(text)) {
      fail_at(path, "$ref '{}' leads back to itself: it says nothing but itself",
              printable(text, 80));
    }
    const auto known = references_.find(text);
    if (known != references_.end()) return known->second;
    const std::string name = new_name();
    references_.emplace(text, name);
    open_.insert(text);
    define(name, visit(target, printable(text, 80), depth + 1));
    open_.erase(text);
    return name;
  }

  std::string visit_choices(const Json& schema, const Json& choices, const char* key,
                            const std::string& path, int depth) {
    if (!choices.is_array() || choices.as_array().empty()) {
      fail_at(path, "{} is not a list with at least one schema", key);
    }
    const Json rest = without(schema, key);
    const bool merge = says_something(rest);
    std::vector<std::string> parts;
    for (size_t i = 0; i < choices.as_array().size(); ++i) {
      const Json& choice = choices.as_array()[i];
      if (choice.is_bool() && !choice.as_bool()) continue;
      const std::string where = below(below(path, key), i);
      if (merge) {
        Json both = rest;
        spend(count_values(rest), path);
        grammar::merge_schema(both, flatten(choice, where, 0), where);
        if (const Json* types = both.find("type");
            types != nullptr && types->is_array() && types->as_array().empty()) {
          continue;  // the rest rules this one out
        }
        parts.push_back(visit(both, where, depth + 1));
      } else {
        parts.push_back(visit(choice, where, depth + 1));
      }
    }
    if (parts.empty()) fail_at(path, "{} allows nothing", key);
    return rule(join(parts));
  }

  static std::string join(const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& part : parts) out += (out.empty() ? "" : " | ") + part;
    return out;
  }

  std::vector<std::string> types_of(const Json& schema, const std::string& path) const {
    const Json* type = schema.find("type");
    if (type == nullptr) return {};
    std::vector<std::string> out;
    for (const Json& one : type->is_array() ? type->as_array() : Json::Array{*type}) {
      const std::string name = one.is_string() ? one.as_string() : "";
      constexpr std::string_view all[] = {"object",  "array",   "string", "number",
                                          "integer", "boolean", "null"};
      if (std::find(std::begin(all), std::end(all), name) == std::end(all)) {
        fail_at(path,
                "the type {} is unknown; there are object, array, string, number, integer, boolean "
                "and null",
                printable(one.dump(), 40));
      }
      out.push_back(name);
    }
    if (out.empty()) fail_at(path, "no type is allowed");
    return out;
  }

  std::string visit_enum(const Json& schema, const Json& values, const std::string& path) {
    if (!values.is_array()) fail_at(path, "enum is not a list");
    const std::vector<std::string> types = types_of(schema, path);
    std::vector<std::string> texts;
    for (const Json& value : values.as_array()) {
      const bool fits = types.empty() || std::any_of(types.begin(), types.end(), [&](auto& type) {
                          return grammar::is_of_type(value, type);
                        });
      if (fits) texts.push_back(gbnf_literal(value.dump()));
      spend(1, path);
    }
    if (texts.empty()) fail_at(path, "enum has no value that the other keywords allow");
    return rule(join(texts));
  }

  std::string visit_types(const Json& schema, const std::string& path, int depth) {
    std::vector<std::string> types = types_of(schema, path);
    if (types.empty()) types = guess_types(schema);
    if (types.empty()) return use("Value");
    // Within a value a reference may lead back to what is around it.
    const std::set<std::string> around = std::exchange(open_, {});
    std::vector<std::string> parts;
    for (const std::string& type : types) {
      if (type == "object") {
        parts.push_back(visit_object(schema, path, depth));
      } else if (type == "array") {
        parts.push_back(visit_array(schema, path, depth));
      } else if (type == "string") {
        parts.push_back(visit_string(schema, path));
      } else if (type == "integer") {
        parts.push_back(visit_integer(schema, path));
      } else if (type == "number") {
        parts.push_back(visit_number(schema, path));
      } else {
        parts.push_back(type == "null" ? "\"null\"" : "(\"true\" | \"false\")");
      }
    }
    open_ = around;
    return parts.size() == 1 && parts[0][0] != '"' && parts[0][0] != '(' ? parts[0]
                                                                         : rule(join(parts));
  }

  // What a schema without a type is about; nothing: any value.
  static std::vector<std::string> guess_types(const Json& schema) {
    const auto has = [&](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(),
                         [&](const char* key) { return schema.find(key) != nullptr; });
    };
    if (has({"properties", "required", "additionalProperties"})) return {"object"};
    if (has({"items", "prefixItems", "minItems", "maxItems"})) return {"array"};
    if (has({"minLength", "maxLength", "pattern", "format"})) return {"string"};
    if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return {"number"};
    return {};
  }

  std::string visit_object(const Json& schema, const std::string& path, int depth);
  std::string visit_array(const Json& schema, const std::string& path, int depth);
  std::string visit_string(const Json& schema, const std::string& path);
  std::string visit_integer(const Json& schema, const std::string& path);
  std::string visit_number(const Json& schema, const std::string& path);
  std::optional<uint64_t> count_of(const Json& schema, const char* key, const std::string& path);
  std::optional<int64_t> limit_of(const Json& schema, bool lower, const std::string& path);

  const Json& document_;
  std::string out_;
  std::vector<std::string> warnings_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, std::string> by_body_;
  std::map<std::string, std::string> references_;
  std::set<std::string> open_;  // being carried out, with no value begun since
  size_t n_rules_ = 0;
  size_t work_ = 0;
};

std::string SchemaCompiler::visit_object(const Json& schema, const std::string& path, int depth) {
  struct Property {
    std::string name;
    const Json* schema;  // nullptr: as additionalProperties says
    bool required;
  };
  std::vector<Property> properties;
  std::map<std::string, size_t, std::less<>> places;
  const Json* listed = schema.find("properties");
  if (listed != nullptr) {
    if (!listed->is_object()) fail_at(path, "properties is not an object");
    for (const auto& [name, property] : listed->as_object()) {
      places.emplace(name, properties.size());
      properties.push_back({name, &property, false});
    }
  }
  const Json* additional = schema.find("additionalProperties");
  const bool open = additional != nullptr ? !(additional->is_bool() && !additional->as_bool())
                                          : listed == nullptr;
  if (const Json* required = schema.find("required")) {
    if (!required->is_array()) fail_at(path, "required is not a list");
    for (const Json& name : required->as_array()) {
      if (!name.is_string()) fail_at(path, "required lists something that is not a string");
      const auto known = places.find(name.as_string());
      if (known != places.end()) {
        properties[known->second].required = true;
        continue;
      }
      if (additional != nullptr && !open) {
        fail_at(path, "'{}' is required, but neither in properties nor allowed besides",
                printable(name.as_string(), 60));
      }
      places.emplace(name.as_string(), properties.size());
      properties.push_back({name.as_string(), nullptr, true});
    }
  }
  if (properties.empty() && open && (additional == nullptr || additional->is_bool())) {
    return use("Object");
  }
  if (properties.size() > k_max_properties) {
    fail_at(path, "{} properties; the most is {}", properties.size(), k_max_properties);
  }
  std::string extra_value;
  const auto extra = [&]() -> const std::string& {
    if (extra_value.empty()) {
      const bool any = additional == nullptr || additional->is_bool();
      extra_value =
          any ? use("Value") : visit(*additional, below(path, "additionalProperties"), depth + 1);
    }
    return extra_value;
  };
  use("Ws");

  // From the last property to the first: `pick` writes one from here on, `after` what may stand
  // behind a member when properties from here on are left.
  std::string pick;  // empty: none is left
  bool may_end = true;
  std::string after = rule("Ws \"}\"");
  if (open) {
    std::vector<std::string> names;
    for (const Property& property : properties) names.push_back(property.name);
    const std::string key = new_name();
    define(key, grammar::gbnf_of_other_keys(names, [&](const std::string& body) {
             spend(1, path);
             return rule(body);
           }));
    pick = new_name();
    after = new_name();
    define(pick, fmt::format("{} \":\" Ws {} {}", key, extra(), after));
    define(after, fmt::format("\",\" Ws {} | Ws \"}}\"", pick));
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const std::string where = below(below(path, "properties"), property.name);
    const bool never =
        property.schema != nullptr && property.schema->is_bool() && !property.schema->as_bool();
    if (never && !property.required) continue;
    const std::string value =
        property.schema == nullptr ? extra() : visit(*property.schema, where, depth + 1);
    const std::string member =
        fmt::format("{} Ws {} {}", gbnf_literal(Json(property.name).dump() + ":"), value, after);
    const bool skip = !property.required && !pick.empty();
    pick = rule(skip ? member + " | " + pick : member);
    may_end = may_end && !property.required;
    after = rule(fmt::format("\",\" Ws {}{}", pick, may_end ? " | Ws \"}\"" : ""));
  }
  if (pick.empty()) return rule("\"{\" Ws \"}\"");
  return rule(fmt::format("\"{{\" Ws ({}{})", pick, may_end ? " | \"}\"" : ""));
}

std::optional<uint64_t> SchemaCompiler::count_of(const Json& schema, const char* key,
                                                 const std::string& path) {
  const Json* value = schema.find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->as_real() < 0 ||
      value->as_real() != std::floor(value->as_real())) {
    fail_at(path, "{} is {}; give a whole number from 0", key, printable(value->dump(), 40));
  }
  if (value->as_real() > grammar::k_max_repeat) {
    if (std::string_view(key).starts_with("max")) return std::nullopt;  // no text is as long
    fail_at(path, "{} is {}; the most is {}", key, printable(value->dump(), 40),
            grammar::k_max_repeat);
  }
  return static_cast<uint64_t>(value->as_real());
}

std::string times(uint64_t min, std::optional<uint64_t> max) {
  return max ? fmt::format("{{{},{}}}", min, *max) : fmt::format("{{{},}}", min);
}

std::string SchemaCompiler::visit_array(const Json& schema, const std::string& path, int depth) {
  const uint64_t min = count_of(schema, "minItems", path).value_or(0);
  const std::optional<uint64_t> max = count_of(schema, "maxItems", path);
  if (max && *max < min) fail_at(path, "minItems {} is above maxItems {}", min, *max);
  const Json* prefix = schema.find("prefixItems");
  const Json* items = schema.find("items");
  if (prefix == nullptr && items != nullptr && items->is_array()) {  // as older drafts write it
    prefix = items;
    items = nullptr;
  }
  if (prefix != nullptr && !prefix->is_array()) fail_at(path, "prefixItems is not a list");
  use("Ws");
  std::vector<std::string> first;
  if (prefix != nullptr) {
    for (size_t i = 0; i < prefix->as_array().size() && (!max || i < *max); ++i) {
      first.push_back(
          visit(prefix->as_array()[i], below(below(path, "prefixItems"), i), depth + 1));
    }
  }
  const uint64_t more_min = min > first.size() ? min - first.size() : 0;
  std::optional<uint64_t> more_max;
  if (max) more_max = *max - first.size();
  const bool closed =
      items != nullptr ? items->is_bool() && !items->as_bool() : prefix != nullptr && more_min == 0;
  if (closed) {
    if (more_min > 0) fail_at(path, "minItems {} is more than items and prefixItems allow", min);
    more_max = 0;
  }
  const bool any_more = !more_max || *more_max > 0;
  const std::string item = !any_more          ? ""
                           : items == nullptr ? use("Value")
                                              : visit(*items, below(path, "items"), depth + 1);
  std::string body = "\"[\" Ws ";
  if (!first.empty()) {
    for (size_t i = 0; i < first.size(); ++i) body += (i > 0 ? "\",\" Ws " : "") + first[i] + " ";
    if (any_more) body += fmt::format("(\",\" Ws {}){} ", item, times(more_min, more_max));
    body += "Ws \"]\"";
  } else if (!any_more) {
    body += "\"]\"";
  } else {
    std::optional<uint64_t> rest = more_max;
    if (rest) --*rest;
    const std::string list = fmt::format("{} (\",\" Ws {}){} Ws", item, item,
                                         times(more_min > 0 ? more_min - 1 : 0, rest));
    body += more_min > 0 ? list + " \"]\"" : "(" + list + ")? \"]\"";
  }
  return rule(body);
}

std::string SchemaCompiler::visit_string(const Json& schema, const std::string& path) {
  const std::optional<uint64_t> min = count_of(schema, "minLength", path);
  const std::optional<uint64_t> max = count_of(schema, "maxLength", path);
  if (min && max && *max < *min) fail_at(path, "minLength {} is above maxLength {}", *min, *max);
  const auto quoted = [](const std::string& body) { return R"("\"" )" + body + R"( "\"")"; };
  std::string body;
  if (const Json* pattern = schema.find("pattern")) {
    if (!pattern->is_string()) fail_at(path, "pattern is not a string");
    body = grammar::gbnf_of_pattern(pattern->as_string(), path);
    if (schema.find("format") != nullptr) warn(path, "'format' beside 'pattern' is not enforced");
  } else if (const Json* format = schema.find("format")) {
    const std::string name = format->is_string() ? format->as_string() : "";
    if (name == "date" || name == "time" || name == "uuid") {
      body = use(name == "date" ? "Date" : name == "time" ? "Time" : "Uuid");
    } else if (name == "date-time") {
      body = fmt::format("{} \"T\" {}", use("Date"), use("Time"));
      body = "(" + body + ")";
    } else {
      warn(path, fmt::format("the format {} is not enforced", printable(format->dump(), 40)));
    }
  }
  if (!body.empty()) {
    if (min || max) warn(path, "minLength and maxLength beside pattern or format are not enforced");
    return rule(quoted(body));
  }
  if (!min && !max) return use("String");
  return rule(quoted(std::string(use("Char")) + times(min.value_or(0), max)));
}

// The least or greatest integer allowed, from all keywords that say something about it.
std::optional<int64_t> SchemaCompiler::limit_of(const Json& schema, bool lower,
                                                const std::string& path) {
  const char* keys[] = {lower ? "minimum" : "maximum",
                        lower ? "exclusiveMinimum" : "exclusiveMaximum"};
  std::optional<int64_t> out;
  for (const bool exclusive : {false, true}) {
    const char* key = keys[exclusive ? 1 : 0];
    const Json* value = schema.find(key);
    if (value == nullptr) continue;
    bool shut = exclusive;
    if (exclusive && value->is_bool()) {  // as draft 4 has it
      if (!value->as_bool()) continue;
      value = schema.find(keys[0]);
      if (value == nullptr) continue;
    } else if (!exclusive) {
      const Json* flag = schema.find(keys[1]);
      shut = flag != nullptr && flag->is_bool() && flag->as_bool();
    }
    if (!value->is_number()) fail_at(path, "{} is not a number", key);
    int64_t limit = 0;
    if (value->is_int()) {
      limit = value->as_int();
      constexpr int64_t most = std::numeric_limits<int64_t>::max();
      if (shut && lower && limit == most) fail_at(path, "{} allows nothing that is written", key);
      if (shut && !lower && limit == -most - 1) fail_at(path, "{} allows nothing", key);
      if (shut) limit += lower ? 1 : -1;
    } else {
      const double real = value->as_real();
      if (!(std::fabs(real) < 9e18)) {
        if ((real < 0) == lower) continue;  // no limit for what is written
        fail_at(path, "{} is {}; give a number between -9e18 and 9e18", key,
                printable(value->dump(), 40));
      }
      const double whole = lower ? std::ceil(real) : std::floor(real);
      limit = static_cast<int64_t>(whole);
      if (shut && whole == real) limit += lower ? 1 : -1;
    }
    if (!out) {
      out = limit;
    } else {
      out = lower ? std::max(*out, limit) : std::min(*out, limit);
    }
  }
  return out;
}

std::string SchemaCompiler::visit_integer(const Json& schema, const std::string& path) {
  const std::optional<int64_t> min = limit_of(schema, true, path);
  const std::optional<int64_t> max = limit_of(schema, false, path);
  if (!min && !max) return use("Integer");
  if (min && max && *max < *min) fail_at(path, "no integer lies from {} to {}", *min, *max);
  return rule(grammar::gbnf_of_integers(min, max));
}

std::string SchemaCompiler::visit_number(const Json& schema, const std::string& path) {
  const Json* minimum = schema.find("minimum");
  const bool from_zero = minimum != nullptr && minimum->is_number() && minimum->as_real() >= 0;
  if ((minimum != nullptr && !(from_zero && minimum->as_real() == 0)) ||
      schema.find("maximum") != nullptr || schema.find("exclusiveMinimum") != nullptr ||
      schema.find("exclusiveMaximum") != nullptr) {
    warn(path, "limits of numbers that are not integers are not enforced");
  }
  return use(from_zero ? "Positive" : "Number");
}

}  // namespace

SchemaGrammar schema_grammar(const Json& schema) { return SchemaCompiler(schema).run(); }

std::string json_object_grammar() {
  return schema_grammar(Json::object({{"type", "object"}})).gbnf;
}

}  // namespace strata::text
