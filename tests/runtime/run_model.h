// Loads a model on the CPU and computes logits, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "device/registry.h"
#include "runtime/model.h"
#include "support.h"

namespace strata::test {

struct RunSetup {
  std::string device = "cpu";
  uint32_t threads = 1;
  uint32_t n_ubatch = 512;
  uint64_t n_context = 1024;
  ElementType type_k = ElementType::f32;
  ElementType type_v = ElementType::f32;
  // Several devices: as many of one thread each, whatever cores the machine has.
  uint32_t n_devices = 1;
  plan::Split split = plan::Split::layer;
  std::vector<double> shares;
  std::optional<uint32_t> copies;
  std::vector<plan::Rule> rules;
  uint32_t tensor_parallel = 0;
};

inline plan::Request request_of(const RunSetup& setup) {
  plan::Request request;
  request.n_context = setup.n_context;
  request.n_ubatch = setup.n_ubatch;
  request.type_k = setup.type_k;
  request.type_v = setup.type_v;
  request.split = setup.split;
  request.shares = setup.shares;
  request.copies = setup.copies;
  request.rules = setup.rules;
  request.tensor_parallel = setup.tensor_parallel;
  return request;
}

// Opened under the same name, they are told apart by number.
inline runtime::Model::Devices open_devices(const RunSetup& setup,
                                            std::vector<device::Description>& descriptions) {
  runtime::Model::Devices devices;
  for (uint32_t i = 0; i < setup.n_devices; ++i) {
    devices.push_back(device::open_device({setup.device, setup.threads, 0}));
    descriptions.push_back(device::describe(*devices.back()));
    if (setup.n_devices > 1) descriptions.back().info.name = "d" + std::to_string(i);
  }
  return devices;
}

inline std::unique_ptr<runtime::Model> load_file(const gguf::File& file,
                                                 const RunSetup& setup = {}) {
  model::ModelSpec spec = model::read_spec(file);
  std::vector<device::Description> descriptions;
  auto devices = open_devices(setup, descriptions);
  plan::Plan plan = plan::make(spec, descriptions, request_of(setup));
  auto model = runtime::Model::load(file, std::move(spec), std::move(plan), std::move(devices));
  // Promise 1, in every test.
  for (const runtime::MemoryAudit& row : model->audit()) {
    EXPECT_TRUE(row.equal()) << row.device << " " << row.purpose << ": planned " << row.planned
                             << ", allocated " << row.allocated << ", used " << row.used;
  }
  return model;
}

inline std::unique_ptr<runtime::Model> load_model(const std::string& path,
                                                  const RunSetup& setup = {}) {
  return load_file(gguf::File::open(path), setup);
}

// Logits of all positions, [tokens][vocabulary].
inline std::vector<float> all_logits(runtime::Model& model, const std::vector<int32_t>& tokens) {
  std::vector<float> out;
  const auto sequence = model.create_sequence();
  const runtime::Chunk chunk{sequence, tokens, runtime::Outputs::all};
  model.evaluate({&chunk, 1}, [&](size_t, size_t, std::span<const float> row) {
    out.insert(out.end(), row.begin(), row.end());
  });
  model.remove_sequence(sequence);
  return out;
}

inline std::vector<int32_t> read_tokens(const std::string& path) {
  std::ifstream in(path);
  std::vector<int32_t> tokens;
  for (int32_t id; in >> id;) tokens.push_back(id);
  return tokens;
}

inline std::vector<float> read_floats(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

inline std::vector<int32_t> random_tokens(size_t count, uint32_t n_vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % n_vocab);
  return tokens;
}

// NaN-proof equality of bits.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

// sum((a - g)^2) / sum(g^2)
inline double normalised_error(const std::vector<float>& a, const std::vector<float>& golden) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    difference += (double{a[i]} - golden[i]) * (double{a[i]} - golden[i]);
    norm += double{golden[i]} * golden[i];
  }
  return difference / norm;
}

}  // namespace strata::test
