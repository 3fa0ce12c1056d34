// strata inspect: what is in a GGUF file, for people or as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "gguf/file.h"
#include "strata/output.h"
#include "strata/verb.h"
#include "tensor/types.h"

namespace strata::app {
namespace {

std::string type_name(uint32_t id) {
  const TypeInfo* type = find_type(id);
  return type != nullptr ? std::string(type->name) : fmt::format("type {}", id);
}

std::string metadata_type_name(const gguf::Value& value) {
  if (const auto* array = std::get_if<gguf::Array>(&value)) {
    return fmt::format("{}[{}]", gguf::name_of(gguf::element_type_of(*array)),
                       gguf::size_of(*array));
  }
  return gguf::name_of(gguf::type_of(value));
}

// "4,096"
std::string grouped(uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string short_count(uint64_t value) {
  const double v = static_cast<double>(value);
  if (v >= 1e12) return fmt::format("{:.2f} T", v / 1e12);
  if (v >= 1e9) return fmt::format("{:.2f} B", v / 1e9);
  if (v >= 1e6) return fmt::format("{:.2f} M", v / 1e6);
  if (v >= 1e3) return fmt::format("{:.1f} k", v / 1e3);
  return grouped(value);
}

std::string shape_text(const gguf::TensorInfo& tensor) {
  std::string out;
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    out += fmt::format("{}{}", i > 0 ? " x " : "", tensor.dims[i]);
  }
  return out.empty() ? "scalar" : out;
}

struct TypeTotal {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

struct Totals {
  std::map<uint32_t, TypeTotal> types;
  TypeTotal all;
  uint64_t missing = 0;  // tensors whose data the file does not hold
};

Totals totals_of(const gguf::File& file) {
  Totals totals;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    for (TypeTotal* total : {&totals.types[tensor.type], &totals.all}) {
      ++total->tensors;
      total->elements += tensor.elements;
      total->bytes += tensor.bytes;
    }
    if (tensor.bytes > 0 && file.data(tensor).empty()) ++totals.missing;
  }
  return totals;
}

double bits_per_weight(const TypeTotal& total) {
  return total.elements == 0
             ? 0
             : 8 * static_cast<double>(total.bytes) / static_cast<double>(total.elements);
}

bool is_header_only(const gguf::File& file) {
  return std::all_of(file.shards().begin(), file.shards().end(), [](const auto& shard) {
    return shard.header.file_bytes <= shard.header.data_offset;
  });
}

std::string kind_of_content(const gguf::File& file) {
  if (file.tensors().empty()) {
    return file.metadata().has("tokenizer.ggml.model") ? "vocabulary only, no tensors"
                                                       : "no tensors";
  }
  return is_header_only(file) ? "header only: the tensors' data is not there" : "";
}

// Left-aligned columns, the ones in `right` right-aligned; as wide as what is in them.
class Table {
 public:
  Table(std::vector<std::string> head, std::vector<bool> right) : right_(std::move(right)) {
    rows_.push_back(std::move(head));
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    std::vector<int> widths(rows_[0].size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], terminal::display_width(row[i]));
      }
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string padding(static_cast<size_t>(widths[i] - terminal::display_width(row[i])),
                                  ' ');
        line += fmt::format(" {}{} ", right_[i] ? padding : row[i], right_[i] ? row[i] : padding);
      }
      line.resize(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

void print_metadata(const gguf::Metadata& metadata) {
  size_t key_width = 0, type_width = 0;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [key, value] : metadata.entries()) {
    names.emplace_back(printable(key, 100), metadata_type_name(value));
    key_width = std::max(key_width, names.back().first.size());
    type_width = std::max(type_width, names.back().second.size());
  }
  key_width = std::min<size_t>(key_width, 44);
  const int columns = terminal::width(terminal::Stream::output, 120);
  const int room = columns - static_cast<int>(key_width + type_width) - 8;
  print(fmt::format("\nMetadata ({}):\n", grouped(names.size())));
  for (size_t i = 0; i < names.size(); ++i) {
    print(fmt::format(
        "  {:<{}}  {:<{}}  {}\n", names[i].first, key_width, names[i].second, type_width,
        gguf::to_display(metadata.entries()[i].value, static_cast<size_t>(std::max(room, 30)))));
  }
}

void print_tensors(const gguf::File& file) {
  const bool split = file.shards().size() > 1;
  std::vector<std::string> head{"name", "type", "shape", "size"};
  if (split) head.emplace_back("file");
  Table table(head, {false, false, false, true, true});
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    std::vector<std::string> row{printable(tensor.name), type_name(tensor.type), shape_text(tensor),
                                 format_bytes(tensor.bytes)};
    if (split) row.push_back(fmt::format("{}", tensor.shard + 1));
    table.add(std::move(row));
  }
  print(fmt::format("\nTensors ({}), shapes with the contiguous dimension first:\n",
                    grouped(file.tensors().size())));
  print(table.text());
}

void print_totals(const Totals& totals) {
  Table table({"type", "tensors", "parameters", "size", "share", "bits per weight"},
              {false, true, true, true, true, true});
  for (const auto& [id, total] : totals.types) {
    const double share = totals.all.bytes == 0 ? 0
                                               : 100 * static_cast<double>(total.bytes) /
                                                     static_cast<double>(totals.all.bytes);
    table.add({type_name(id), grouped(total.tensors), grouped(total.elements),
               format_bytes(total.bytes), fmt::format("{:.1f}%", share),
               fmt::format("{:.2f}", bits_per_weight(total))});
  }
  if (totals.types.size() > 1) {
    table.add({"all", grouped(totals.all.tensors), grouped(totals.all.elements),
               format_bytes(totals.all.bytes), "100.0%",
               fmt::format("{:.2f}", bits_per_weight(totals.all))});
  }
  print("\nTotals by type:\n");
  print(table.text());
}

void print_text(const gguf::File& file, const Totals& totals) {
  const auto& first = file.shards()[0];
  print(fmt::format("{}\n", printable(first.path, 1000)));
  print(
      fmt::format("  GGUF version {}, {}", first.header.version, format_bytes(file.total_bytes())));
  if (file.shards().size() > 1) print(fmt::format(" in {} files", file.shards().size()));
  if (const auto family = file.metadata().find_string("general.architecture")) {
    print(fmt::format(", family {}", printable(*family)));
  }
  if (totals.all.elements > 0) {
    print(fmt::format(", {} parameters ({})", short_count(totals.all.elements),
                      grouped(totals.all.elements)));
  }
  print("\n");
  if (const std::string kind = kind_of_content(file); !kind.empty()) {
    print(fmt::format("  {}\n", kind));
  }
  print_metadata(file.metadata());
  if (file.tensors().empty()) return;
  print_tensors(file);
  print_totals(totals);
}

Json to_json(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, gguf::Array>) {
          return std::visit(
              [](const auto& array) {
                Json out = Json::array();
                using A = std::decay_t<decltype(array)>;
                if constexpr (std::is_same_v<A, gguf::BoolArray>) {
                  for (const uint8_t x : array.values) out.push(x != 0);
                } else {
                  for (const auto& x : array) out.push(to_json(gguf::Value(x)));
                }
                return out;
              },
              v);
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
          return Json(v);
        } else if constexpr (std::is_floating_point_v<T>) {
          return Json(static_cast<double>(v));
        } else if constexpr (std::is_same_v<T, uint64_t>) {
          return Json(v);
        } else {
          return Json(static_cast<int64_t>(v));
        }
      },
      value);
}

Json totals_json(const TypeTotal& total) {
  return Json::object({{"tensors", total.tensors},
                       {"parameters", total.elements},
                       {"bytes", total.bytes},
                       {"bits_per_weight", bits_per_weight(total)}});
}

void print_json(const gguf::File& file, const Totals& totals) {
  const auto& header = file.shards()[0].header;
  Json files = Json::array();
  for (const auto& shard : file.shards()) {
    files.push(Json::object({{"path", shard.path},
                             {"bytes", shard.header.file_bytes},
                             {"data_offset", shard.header.data_offset}}));
  }
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata().entries()) metadata.set(key, to_json(value));
  Json tensors = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    Json shape = Json::array();
    for (uint32_t i = 0; i < tensor.n_dims; ++i) shape.push(tensor.dims[i]);
    tensors.push(Json::object({{"name", tensor.name},
                               {"type", type_name(tensor.type)},
                               {"shape", shape},
                               {"parameters", tensor.elements},
                               {"bytes", tensor.bytes},
                               {"file", tensor.shard},
                               {"offset", tensor.offset}}));
  }
  Json types = Json::object();
  for (const auto& [id, total] : totals.types) types.set(type_name(id), totals_json(total));
  const Json out = Json::object({{"version", header.version},
                                 {"alignment", header.alignment},
                                 {"bytes", file.total_bytes()},
                                 {"parameters", totals.all.elements},
                                 {"tensor_bytes", totals.all.bytes},
                                 {"tensors_without_data", totals.missing},
                                 {"files", files},
                                 {"metadata", metadata},
                                 {"types", types},
                                 {"tensors", tensors}});
  print(out.dump(2) + "\n");
}

}  // namespace

int inspect_verb(const Options& options) {
  if (!options.arguments.empty() && !options.model.empty() &&
      options.arguments[0] != options.model) {
    log::debug("looking at '{}', not at the model '{}'", options.arguments[0], options.model);
  }
  const std::string path = options.arguments.empty() ? options.model : options.arguments[0];
  if (path.empty()) fail(ErrorCode::usage, "no file given; usage: strata inspect FILE");
  gguf::ParseOptions parse;
  parse.allow_missing_data = true;
  const gguf::File file = gguf::File::open(path, parse);
  const Totals totals = totals_of(file);
  if (options.output_format == "json") {
    print_json(file, totals);
  } else {
    print_text(file, totals);
  }
  if (totals.missing > 0 && !is_header_only(file)) {
    log::warning("the file is cut short: the data of {} of its {} tensors is missing",
                 totals.missing, file.tensors().size());
  }
  return 0;
}

}  // namespace strata::app
