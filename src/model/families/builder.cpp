#include "model/families/builder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace strata::model {
namespace {

// Widths are 32-bit in programs; no real matrix comes near.
constexpr uint64_t k_max_extent = uint64_t{1} << 30;

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return out + "]";
}

std::vector<uint64_t> shape_of(const gguf::TensorInfo& tensor) {
  return {tensor.dims.begin(), tensor.dims.begin() + std::max(1u, tensor.n_dims)};
}

}  // namespace

SpecBuilder::SpecBuilder(const gguf::File& file, AbsentTensors* absent)
    : file_(file),
      absent_(absent),
      architecture_(file.metadata().get_string("general.architecture")) {
  spec_.family = architecture_;
  spec_.name = file.metadata().find_string("general.name").value_or("");
}

std::string SpecBuilder::key(std::string_view suffix) const {
  return architecture_ + "." + std::string(suffix);
}

uint32_t SpecBuilder::size(std::string_view suffix, uint64_t max) const {
  const std::string name = key(suffix);
  const uint64_t value = metadata().get_uint(name);
  if (value < 1 || value > max) {
    fail(ErrorCode::bad_file, "key '{}' is {}, but must be from 1 to {}", name, value, max);
  }
  return static_cast<uint32_t>(value);
}

uint32_t SpecBuilder::size_or(std::string_view suffix, uint32_t fallback, uint64_t max) const {
  return metadata().has(key(suffix)) ? size(suffix, max) : fallback;
}

uint32_t SpecBuilder::count_or_zero(std::string_view suffix, uint64_t max) const {
  const std::string name = key(suffix);
  const uint64_t value = metadata().find_uint(name).value_or(0);
  if (value > max) {
    fail(ErrorCode::bad_file, "key '{}' is {}, but must be at most {}", name, value, max);
  }
  return static_cast<uint32_t>(value);
}

std::vector<uint32_t> SpecBuilder::size_per_layer(std::string_view suffix, uint32_t n_layers,
                                                  std::optional<uint32_t> fallback) const {
  const std::string name = key(suffix);
  const auto values = metadata().find_uint_per_layer(name, n_layers);
  if (!values) {
    if (!fallback) metadata().get_uint(name);  // throws: names the key
    return std::vector<uint32_t>(n_layers, fallback.value_or(0));
  }
  std::vector<uint32_t> out;
  for (const uint64_t value : *values) {
    if (value < 1 || value > k_max_dimension) {
      fail(ErrorCode::bad_file, "key '{}' holds {}, but must hold values from 1 to {}", name, value,
           k_max_dimension);
    }
    out.push_back(static_cast<uint32_t>(value));
  }
  return out;
}

double SpecBuilder::positive(std::string_view suffix) const {
  const std::string name = key(suffix);
  const double value = metadata().get_real(name);
  if (!std::isfinite(value) || value <= 0) {
    fail(ErrorCode::bad_file, "key '{}' is {}, but must be a finite number above 0", name, value);
  }
  return value;
}

double SpecBuilder::positive_or(std::string_view suffix, double fallback) const {
  return metadata().has(key(suffix)) ? positive(suffix) : fallback;
}

bool SpecBuilder::has(const std::string& name) const {
  return file_.find_tensor(name) != nullptr || (absent_ != nullptr && absent_->has(name));
}

uint64_t SpecBuilder::embedding_rows(uint64_t fallback) const {
  const gguf::TensorInfo* tensor = file_.find_tensor("token_embd.weight");
  return tensor != nullptr ? tensor->dims[1] : fallback;
}

const gguf::TensorInfo& SpecBuilder::require(const std::string& name,
                                             const std::vector<uint64_t>& shape) {
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr && absent_ != nullptr) tensor = &absent_->make(name, shape);
  if (tensor == nullptr) {
    fail(ErrorCode::bad_file,
         "tensor '{}' {} is missing: the file is incomplete or not a '{}' model", name,
         shape_text(shape), architecture_);
  }
  for (const uint64_t size : shape) {
    if (size > k_max_extent) {
      fail(ErrorCode::bad_file, "tensor '{}' {} is larger than {} along one side", name,
           shape_text(shape), k_max_extent);
    }
  }
  // Trailing dimensions of 1 do not count.
  std::vector<uint64_t> found = shape_of(*tensor);
  std::vector<uint64_t> wanted = shape;
  while (found.size() > 1 && found.back() == 1) found.pop_back();
  while (wanted.size() > 1 && wanted.back() == 1) wanted.pop_back();
  if (found != wanted) {
    fail(ErrorCode::bad_file, "tensor '{}' has shape {}, but the metadata ask for {}", name,
         shape_text(shape_of(*tensor)), shape_text(shape));
  }
  return *tensor;
}

WeightId SpecBuilder::add(const gguf::TensorInfo& tensor, std::string name,
                          std::array<uint64_t, 3> dims, uint64_t row_begin, Role role) {
  Weight weight;
  weight.spec.name = std::move(name);
  weight.spec.type = static_cast<ElementType>(tensor.type);
  weight.spec.dims = dims;
  weight.role = role;
  weight.tensor = tensor.name;
  weight.row_begin = row_begin;
  used_.insert(tensor.name);
  spec_.weights.push_back(std::move(weight));
  return static_cast<WeightId>(spec_.weights.size() - 1);
}

WeightId SpecBuilder::matrix(const std::string& name, std::vector<uint64_t> shape, Role role) {
  const gguf::TensorInfo& tensor = require(name, shape);
  const TypeInfo* type = find_type(tensor.type);
  if (type == nullptr || !type->supported) {
    std::string known;
    for (const ElementType one : supported_types()) {
      known += (known.empty() ? "" : " ") + std::string(info(one).name);
    }
    fail(ErrorCode::unsupported,
         "tensor '{}' has element type {}, which cannot be computed; known are {}", name,
         type != nullptr ? std::string(type->name) : std::to_string(tensor.type), known);
  }
  std::array<uint64_t, 3> dims{1, 1, 1};
  std::copy(shape.begin(), shape.end(), dims.begin());
  return add(tensor, name, dims, 0, role);
}

WeightId SpecBuilder::vector(const std::string& name, uint64_t length, Role role) {
  const gguf::TensorInfo& tensor = require(name, {length});
  const auto type = static_cast<ElementType>(tensor.type);
  if (type != ElementType::f32 && type != ElementType::f16 && type != ElementType::bf16) {
    fail(ErrorCode::unsupported, "tensor '{}' is a vector and must be f32, f16 or bf16", name);
  }
  const WeightId id = add(tensor, name, {length, 1, 1}, 0, role);
  spec_.weights[id].spec.type = ElementType::f32;
  return id;
}

WeightId SpecBuilder::optional_matrix(const std::string& name, std::vector<uint64_t> shape,
                                      Role role) {
  return has(name) ? matrix(name, std::move(shape), role) : k_none;
}

WeightId SpecBuilder::optional_vector(const std::string& name, uint64_t length, Role role) {
  return has(name) ? vector(name, length, role) : k_none;
}

WeightId SpecBuilder::rows_of(const std::string& name, std::string_view part, uint64_t n_in,
                              uint64_t total, uint64_t begin, uint64_t rows, Role role) {
  const WeightId id = matrix(name, {n_in, total}, role);
  Weight& weight = spec_.weights[id];
  weight.spec.name = name + "[" + std::string(part) + "]";
  weight.spec.dims[1] = rows;
  weight.row_begin = begin;
  return id;
}

WeightId SpecBuilder::elements_of(const std::string& name, std::string_view part, uint64_t total,
                                  uint64_t begin, uint64_t length, Role role) {
  const WeightId id = vector(name, total, role);
  Weight& weight = spec_.weights[id];
  weight.spec.name = name + "[" + std::string(part) + "]";
  weight.spec.dims[0] = length;
  weight.row_begin = begin;
  return id;
}

ModelSpec SpecBuilder::finish() {
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    if (!used_.contains(tensor.name)) spec_.unused_tensors.push_back(tensor.name);
  }
  return std::move(spec_);
}

std::string block_tensor(uint32_t layer, std::string_view name) {
  return "blk." + std::to_string(layer) + "." + std::string(name);
}

}  // namespace strata::model
