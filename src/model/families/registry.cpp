// The families that can be read. To add one: its file in this folder, a declaration in builder.h
// and a line here.
#include "base/error.h"
#include "base/suggest.h"
#include "model/families/builder.h"

namespace strata::model {
namespace {

constexpr Family k_families[] = {
    {"llama", read_llama},
    {"qwen2", read_qwen2},
    {"qwen3", read_qwen3},
    {"qwen3moe", read_qwen3moe},
};

}  // namespace

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Family& family : k_families) names.emplace_back(family.name);
  return names;
}

ModelSpec read_spec(const gguf::File& file) { return read_spec(file, nullptr); }

ModelSpec read_spec(const gguf::File& file, AbsentTensors* absent) {
  const std::string_view wanted = file.metadata().get_string("general.architecture");
  if (file.tensors().empty() && absent == nullptr) {
    fail(ErrorCode::bad_file,
         "'{}' holds a vocabulary only and cannot run; 'strata tokenize' and 'strata inspect' take "
         "it",
         printable(file.shards()[0].path, 400));
  }
  for (const Family& family : k_families) {
    if (family.name == wanted) {
      SpecBuilder builder(file, absent);
      return family.read(builder);
    }
  }
  fail(ErrorCode::unsupported, "{}: model family '{}' is not known; known are {}",
       printable(file.shards()[0].path, 400), printable(wanted), join_names(known_families()));
}

}  // namespace strata::model
