// One op with its operands, to be run by the reference and by devices: the material of op tests
// and micro-benchmarks.
//
// Ownership: a case owns its program, batch and data; runs work on guarded copies.
// Threads: run_cpu starts the ranks it needs and joins them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/isa.h"
#include "device/cpu/steps.h"
#include "device/host_context.h"

namespace strata::test {

// Numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  uint32_t below(uint32_t n) { return bits() % n; }
  double unit() { return bits() / 4294967296.0; }
  // Roughly normal: mean 0, variance 1, bounded by 6.
  float normal();
  std::vector<float> normals(size_t n, float scale = 1);
  // 0 ... n - 1 in random order.
  std::vector<uint32_t> permutation(uint32_t n);

 private:
  std::mt19937 engine_;
};

struct OpCase {
  std::string name;
  device::Program program;  // one op, but for tests of fusion
  device::Batch batch;
  std::vector<std::vector<uint32_t>> values;  // 4-byte words by ValueId, as before the run
  std::vector<std::vector<std::byte>> weights;
  std::vector<std::vector<std::byte>> kv;
  // Values to compare, and the largest allowed difference of each element (0: equal). Empty
  // tolerance: equal throughout, as for ids.
  std::vector<device::ValueId> outputs;
  std::vector<std::vector<double>> tolerance;  // by place in `outputs`

  const device::Op& op() const { return program.ops.front(); }
  uint32_t rows(device::ValueId id) const;
  // Whether the case's rows are asked-for rows rather than tokens.
  bool by_outputs() const;
};

struct Outcome {
  std::vector<std::vector<uint32_t>> values;
  std::vector<std::vector<std::byte>> kv;
  std::string overrun;  // which buffer was written outside its bounds, or empty

  bool operator==(const Outcome& other) const = default;
};

float as_float(uint32_t word);
uint32_t as_word(float value);

// What the CPU device makes of the case; `fuse`: else a step for every op.
device::cpu::Compiled compile_case(const OpCase& c, bool fuse = true);

Outcome run_reference(const OpCase& c);
// `fused`: as the device would run the program, else op by op. `in_arena`: values that the case
// makes lie where the device puts them; only what lives at the end is then in the outcome.
Outcome run_cpu(const OpCase& c, device::cpu::Isa isa, uint32_t n_ranks = 1, bool fused = true,
                bool in_arena = false);

// The same run over and over, on a thread team: for measuring.
class RepeatedRun {
 public:
  RepeatedRun(OpCase c, device::cpu::Isa isa, uint32_t n_ranks);
  ~RepeatedRun();
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Instruction sets of this machine.
std::vector<device::cpu::Isa> available_isas();

// The case restricted to some of its rows (tokens, or asked-for rows), in the order given.
OpCase with_rows(const OpCase& c, const std::vector<uint32_t>& rows);

// First difference beyond the tolerance, as text, or empty.
std::string difference(const OpCase& c, const Outcome& expected, const Outcome& got);

// Random rows of a type in file layout, with scales of a size that real weights have.
std::vector<std::byte> random_weight(Random& random, ElementType type, uint64_t elems);
std::vector<float> dequantized(ElementType type, const std::vector<std::byte>& bytes,
                               uint64_t elems);

// Puts a case together.
class CaseBuilder {
 public:
  CaseBuilder(std::string name, uint32_t n_tokens, uint32_t n_sequences = 1);

  device::Batch& batch() { return case_.batch; }
  // An operand with content; a result, filled with NaN beforehand.
  device::ValueId input(uint32_t width, const std::vector<float>& data,
                        device::Rows rows = device::Rows::tokens);
  device::ValueId input_ids(uint32_t width, const std::vector<int32_t>& data);
  device::ValueId output(uint32_t width, device::Rows rows = device::Rows::tokens);
  device::WeightId weight(ElementType type, std::array<uint64_t, 3> dims,
                          std::vector<std::byte> bytes);
  device::WeightId weight_f32(const std::vector<float>& data);
  // A layer of the cache with `n_blocks` blocks of random content.
  uint32_t kv_layer(const device::KvLayer& layer, uint32_t n_blocks, Random& random);
  // What is compared, with one tolerance per element.
  void expect(device::ValueId id, std::vector<double> tolerance = {});
  OpCase build(device::Op op);

 private:
  OpCase case_;
};

// One list of cases per op of the table.
#define STRATA_OP(name, Type, text) std::vector<OpCase> cases_##name();
#include "device/ops.def"
#undef STRATA_OP

struct OpCases {
  std::string name;
  std::string type;  // name of the op's struct
  std::vector<OpCase> (*make)();
};
const std::vector<OpCases>& all_op_cases();

}  // namespace strata::test
