#include "device/op_case.h"

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

#include "device/cpu/pack.h"
#include "device/cpu/steps.h"
#include "device/cpu/thread_team.h"
#include "device/reference/reference.h"
#include "tensor/types.h"

namespace strata::test {

using namespace device;

float Random::normal() {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += unit();
  return static_cast<float>(sum - 6.0);
}

std::vector<float> Random::normals(size_t n, float scale) {
  std::vector<float> out(n);
  for (float& x : out) x = normal() * scale;
  return out;
}

std::vector<uint32_t> Random::permutation(uint32_t n) {
  std::vector<uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0u);
  for (uint32_t i = n; i > 1; --i) std::swap(out[i - 1], out[below(i)]);
  return out;
}

uint32_t OpCase::rows(ValueId id) const {
  return program.values[id].rows == Rows::tokens ? batch.size()
                                                 : static_cast<uint32_t>(batch.output_rows.size());
}

bool OpCase::by_outputs() const {
  return std::any_of(program.values.begin(), program.values.end(),
                     [](const Value& v) { return v.rows == Rows::outputs; });
}

float as_float(uint32_t word) { return std::bit_cast<float>(word); }
uint32_t as_word(float value) { return std::bit_cast<uint32_t>(value); }

namespace {

std::string real_text(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

constexpr size_t k_guard = 256;
constexpr std::byte k_guard_byte{0xA5};
// Set in every byte this reads as a NaN: what is used without having been written shows.
constexpr std::byte k_poison_byte{0xFF};

// A 64-byte aligned buffer between guards.
class Guarded {
 public:
  Guarded(std::string name, size_t size)
      : name_(std::move(name)),
        size_(size),
        memory_(size + 2 * k_guard + 64, k_guard_byte),
        data_(memory_.data() + k_guard) {
    data_ += (64 - reinterpret_cast<uintptr_t>(data_) % 64) % 64;
    std::fill(data_, data_ + size_, k_poison_byte);
  }
  template <class T>
  Guarded(std::string name, const std::vector<T>& content)
      : Guarded(std::move(name), content.size() * sizeof(T)) {
    if (size_ > 0) std::memcpy(data_, content.data(), size_);
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool intact() const {
    const auto untouched = [](std::byte b) { return b == k_guard_byte; };
    return std::all_of(static_cast<const std::byte*>(memory_.data()),
                       static_cast<const std::byte*>(data_), untouched) &&
           std::all_of(static_cast<const std::byte*>(data_ + size_),
                       memory_.data() + memory_.size(), untouched);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  size_t size_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

// Everything that one run works on.
class Workspace {
 public:
  // `compiled`: what the CPU device makes of the case, whose weights are then kept as it keeps
  // them; else they are as in a file. `in_arena`: values lie where the device's plan puts them.
  explicit Workspace(const OpCase& c, const cpu::Compiled* compiled = nullptr,
                     bool in_arena = false)
      : case_(c), program_(compiled != nullptr ? compiled->program : c.program) {
    const bool stored = compiled != nullptr;
    const uint64_t tokens = granules(c.batch.size());
    const uint64_t outputs = granules(c.batch.output_rows.size());
    if (in_arena) {
      values_.push_back(std::make_unique<Guarded>("arena", compiled->arena.bytes(tokens, outputs)));
    }
    for (ValueId i = 0; i < program_.values.size(); ++i) {
      const Value& value = program_.values[i];
      if (in_arena && value.place == Place::arena) {
        const ArenaPlan::Slot& slot = compiled->arena.slots[i];
        value_addresses_.push_back(values_[0]->data() + slot.per_token * tokens +
                                   slot.per_output * outputs);
        continue;
      }
      if (i < c.values.size()) {
        values_.push_back(std::make_unique<Guarded>("value " + std::to_string(i), c.values[i]));
      } else {
        const uint64_t rows = value.rows == Rows::tokens ? tokens : outputs;
        values_.push_back(std::make_unique<Guarded>(value.name, rows * value.width * 4));
      }
      value_addresses_.push_back(values_.back()->data());
    }
    for (size_t i = 0; i < c.weights.size(); ++i) {
      // The contract's readable padding behind a weight.
      const WeightSpec& spec = c.program.weights[i];
      std::vector<std::byte> padded = c.weights[i];
      if (stored) {
        padded.resize(cpu::stored_bytes(spec));
        cpu::store_all(spec, c.weights[i].data(), padded.data());
      }
      padded.resize(padded.size() + 64, k_poison_byte);
      weights_.push_back(std::make_unique<Guarded>("weight " + std::to_string(i), padded));
      weight_addresses_.push_back(weights_.back()->data());
    }
    for (size_t i = 0; i < c.kv.size(); ++i) {
      kv_.push_back(std::make_unique<Guarded>("kv layer " + std::to_string(i), c.kv[i]));
      kv_addresses_.push_back(kv_.back()->data());
      kv_blocks_.push_back(c.kv[i].size() / c.program.kv_layers[i].block_bytes());
    }
  }

  HostContext context() const {
    HostContext out;
    out.program = &program_;
    out.batch = &case_.batch;
    out.values = value_addresses_;
    out.weights = weight_addresses_;
    out.kv = kv_addresses_;
    out.kv_blocks = kv_blocks_;
    return out;
  }

  Outcome outcome() const {
    Outcome out;
    for (ValueId i = 0; i < case_.values.size(); ++i) {
      auto& words = out.values.emplace_back(case_.values[i].size());
      if (!words.empty()) std::memcpy(words.data(), value_addresses_[i], words.size() * 4);
    }
    for (const auto& kv : kv_) out.kv.emplace_back(kv->data(), kv->data() + kv->size());
    for (const auto* list : {&values_, &weights_, &kv_}) {
      for (const auto& buffer : *list) {
        if (!buffer->intact()) out.overrun = buffer->name();
      }
    }
    return out;
  }

 private:
  static uint64_t granules(uint64_t rows) {
    return (rows + k_row_granule - 1) / k_row_granule * k_row_granule;
  }

  const OpCase& case_;
  const Program& program_;
  std::vector<std::unique_ptr<Guarded>> values_, weights_, kv_;
  std::vector<std::byte*> value_addresses_, kv_addresses_;
  std::vector<const std::byte*> weight_addresses_;
  std::vector<uint64_t> kv_blocks_;
};

class StdBarrier final : public TeamBarrier {
 public:
  explicit StdBarrier(uint32_t n) : barrier_(n) {}
  void barrier(uint32_t) override { barrier_.arrive_and_wait(); }

 private:
  std::barrier<> barrier_;
};

}  // namespace

// What a case reads before it writes is given from outside.
cpu::Compiled compile_case(const OpCase& c, bool fuse) {
  Program program = c.program;
  std::vector<bool> written(program.values.size(), false);
  for (const Op& op : program.ops) {
    const OpOperands operands = operands_of(op);
    for (const ValueId id : operands.reads) {
      if (!written[id]) program.values[id].place = Place::external;
    }
    for (const ValueId id : operands.writes) written[id] = true;
  }
  return cpu::compile(program, std::max<size_t>(c.batch.size(), c.batch.output_rows.size()), fuse);
}

Outcome run_reference(const OpCase& c) {
  const Workspace workspace(c);
  for (const Op& op : c.program.ops) reference::run(op, workspace.context());
  return workspace.outcome();
}

Outcome run_cpu(const OpCase& c, cpu::Isa isa, uint32_t n_ranks, bool fused, bool in_arena) {
  const cpu::Compiled compiled = compile_case(c, fused);
  const Workspace workspace(c, &compiled, in_arena);
  const uint64_t per_rank = compiled.scratch_per_rank;
  const Guarded scratch("scratch", per_rank * n_ranks);
  StdBarrier barrier(n_ranks);
  Claims claims[2];
  const auto work = [&](uint32_t rank) {
    HostContext context = workspace.context();
    context.rank = rank;
    context.n_ranks = n_ranks;
    context.team = &barrier;
    context.scratch = {scratch.data() + rank * per_rank, per_rank};
    context.kernels = &cpu::kernels(isa);
    cpu::run_steps(compiled.steps, context, claims);
  };
  std::vector<std::thread> threads;
  for (uint32_t rank = 1; rank < n_ranks; ++rank) threads.emplace_back(work, rank);
  work(0);
  for (std::thread& thread : threads) thread.join();
  Outcome out = workspace.outcome();
  if (!scratch.intact()) out.overrun = scratch.name();
  return out;
}

struct RepeatedRun::State {
  State(OpCase given, cpu::Isa isa_, uint32_t n_ranks)
      : c(std::move(given)),
        isa(isa_),
        compiled(compile_case(c, true)),
        workspace(c, &compiled),
        scratch("scratch", compiled.scratch_per_rank * n_ranks),
        team(n_ranks, {}) {}

  OpCase c;
  cpu::Isa isa;
  cpu::Compiled compiled;
  Workspace workspace;
  Guarded scratch;
  cpu::ThreadTeam team;
  Claims claims[2];
};

RepeatedRun::RepeatedRun(OpCase c, cpu::Isa isa, uint32_t n_ranks)
    : state_(std::make_unique<State>(std::move(c), isa, n_ranks)) {}

RepeatedRun::~RepeatedRun() = default;

void RepeatedRun::run() {
  for (Claims& claims : state_->claims) claims.next = 0;
  state_->team.run(
      [](void* argument, uint32_t rank) {
        State& state = *static_cast<State*>(argument);
        HostContext context = state.workspace.context();
        context.rank = rank;
        context.n_ranks = state.team.size();
        context.team = &state.team;
        const uint64_t per_rank = state.compiled.scratch_per_rank;
        context.scratch = {state.scratch.data() + rank * per_rank, per_rank};
        context.kernels = &cpu::kernels(state.isa);
        cpu::run_steps(state.compiled.steps, context, state.claims);
      },
      state_.get(), state_->team.size());
}

std::vector<cpu::Isa> available_isas() {
  std::vector<cpu::Isa> out;
  for (const cpu::Isa isa :
       {cpu::Isa::generic, cpu::Isa::avx2, cpu::Isa::avx512vnni, cpu::Isa::amx}) {
    if (cpu::available(isa)) out.push_back(isa);
  }
  return out;
}

OpCase with_rows(const OpCase& c, const std::vector<uint32_t>& rows) {
  OpCase out = c;
  out.name += " (some rows)";
  const Rows kind = c.by_outputs() ? Rows::outputs : Rows::tokens;
  const auto pick = [&](auto& to, const auto& from, size_t width) {
    to.clear();
    for (const uint32_t row : rows) {
      const auto begin = from.begin() + static_cast<ptrdiff_t>(row * width);
      to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(width));
    }
  };
  for (ValueId id = 0; id < c.values.size(); ++id) {
    if (c.program.values[id].rows == kind) {
      pick(out.values[id], c.values[id], c.program.values[id].width);
    }
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (c.tolerance[i].empty()) continue;
    pick(out.tolerance[i], c.tolerance[i], c.program.values[c.outputs[i]].width);
  }
  if (kind == Rows::outputs) {
    pick(out.batch.output_rows, c.batch.output_rows, 1);
  } else {
    pick(out.batch.tokens, c.batch.tokens, 1);
    pick(out.batch.positions, c.batch.positions, 1);
    pick(out.batch.sequences, c.batch.sequences, 1);
  }
  return out;
}

std::string difference(const OpCase& c, const Outcome& expected, const Outcome& got) {
  if (!got.overrun.empty()) return c.name + ": written outside " + got.overrun;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const ValueId id = c.outputs[i];
    const uint32_t width = c.program.values[id].width;
    for (size_t at = 0; at < got.values[id].size(); ++at) {
      const uint32_t want_word = expected.values[id][at];
      const uint32_t got_word = got.values[id][at];
      if (want_word == got_word) continue;
      const std::string place = c.name + ": value " + std::to_string(id) + " row " +
                                std::to_string(at / width) + " column " +
                                std::to_string(at % width) + ": ";
      if (c.tolerance[i].empty()) {
        return place + std::to_string(got_word) + ", expected " + std::to_string(want_word);
      }
      const double want = static_cast<double>(as_float(want_word));
      const double have = static_cast<double>(as_float(got_word));
      if (std::isnan(want) && std::isnan(have)) continue;
      const double allowed = c.tolerance[i][at];
      if (!(std::fabs(want - have) <= allowed)) {
        return place + real_text(have) + ", expected " + real_text(want) + " (off by " +
               std::to_string(std::fabs(want - have) / allowed) + " tolerances)";
      }
    }
  }
  if (expected.kv != got.kv) return c.name + ": the cache differs";
  return {};
}

std::vector<std::byte> random_weight(Random& random, ElementType type, uint64_t elems) {
  const TypeInfo& t = info(type);
  std::vector<std::byte> out(row_bytes(type, elems));
  if (t.block_elems == 1) {
    const auto values = random.normals(elems);
    quantize(type, values.data(), out.data(), elems);
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(random.bits() >> 24);
  // Byte offsets of the block's half-precision scales (see the published block layouts).
  std::vector<size_t> scales;
  switch (type) {
    case ElementType::q4_1:
    case ElementType::q5_1:
    case ElementType::q4_k:
    case ElementType::q5_k:
      scales = {0, 2};
      break;
    case ElementType::q2_k:
      scales = {80, 82};
      break;
    case ElementType::q3_k:
      scales = {108};
      break;
    case ElementType::q6_k:
      scales = {208};
      break;
    case ElementType::mxfp4:
      break;
    default:
      scales = {0};
  }
  for (size_t block = 0; block < out.size(); block += t.block_bytes) {
    for (const size_t offset : scales) {
      const float size = static_cast<float>(0.001 + 0.02 * random.unit());
      const uint16_t half = f32_to_f16(random.below(2) == 0 ? size : -size);
      std::memcpy(out.data() + block + offset, &half, sizeof half);
    }
    if (type == ElementType::mxfp4) out[block] = static_cast<std::byte>(118 + random.below(10));
  }
  return out;
}

std::vector<float> dequantized(ElementType type, const std::vector<std::byte>& bytes,
                               uint64_t elems) {
  std::vector<float> out(elems);
  dequantize(type, bytes.data(), out.data(), elems);
  return out;
}

CaseBuilder::CaseBuilder(std::string name, uint32_t n_tokens, uint32_t n_sequences) {
  case_.name = std::move(name);
  case_.program.name = case_.name;
  // Tokens of the sequences one after another, each from position 0.
  for (uint32_t i = 0; i < n_tokens; ++i) {
    const uint32_t sequence = i * n_sequences / n_tokens;
    const bool goes_on = i > 0 && case_.batch.sequences.back() == sequence;
    case_.batch.tokens.push_back(0);
    case_.batch.positions.push_back(goes_on ? case_.batch.positions.back() + 1 : 0);
    case_.batch.sequences.push_back(sequence);
  }
  case_.batch.block_tables.resize(n_sequences);
}

ValueId CaseBuilder::input(uint32_t width, const std::vector<float>& data, Rows rows) {
  const auto id = static_cast<ValueId>(case_.values.size());
  Value value;
  value.name = "v" + std::to_string(id);
  value.width = width;
  value.rows = rows;
  case_.program.values.push_back(value);
  auto& words = case_.values.emplace_back(uint64_t{case_.rows(id)} * width);
  if (words.size() != data.size()) throw std::logic_error(case_.name + ": wrong amount of data");
  for (size_t i = 0; i < words.size(); ++i) words[i] = as_word(data[i]);
  return id;
}

ValueId CaseBuilder::input_ids(uint32_t width, const std::vector<int32_t>& data) {
  const ValueId id = output(width);
  std::copy(data.begin(), data.end(), case_.values[id].begin());
  return id;
}

ValueId CaseBuilder::output(uint32_t width, Rows rows) {
  const uint64_t count = rows == Rows::tokens ? case_.batch.size() : case_.batch.output_rows.size();
  return input(width, std::vector<float>(count * width, as_float(0xFFFFFFFF)), rows);
}

WeightId CaseBuilder::weight(ElementType type, std::array<uint64_t, 3> dims,
                             std::vector<std::byte> bytes) {
  WeightSpec spec;
  spec.name = "w" + std::to_string(case_.weights.size());
  spec.type = type;
  spec.dims = dims;
  if (spec.bytes() != bytes.size()) throw std::logic_error(case_.name + ": wrong weight size");
  case_.program.weights.push_back(spec);
  case_.weights.push_back(std::move(bytes));
  return static_cast<WeightId>(case_.weights.size() - 1);
}

WeightId CaseBuilder::weight_f32(const std::vector<float>& data) {
  std::vector<std::byte> bytes(data.size() * 4);
  if (!data.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  return weight(ElementType::f32, {data.size(), 1, 1}, std::move(bytes));
}

uint32_t CaseBuilder::kv_layer(const KvLayer& layer, uint32_t n_blocks, Random& random) {
  case_.program.kv_layers.push_back(layer);
  auto& region = case_.kv.emplace_back();
  region.resize(layer.block_bytes() * n_blocks);
  std::byte* at = region.data();
  for (uint32_t b = 0; b < n_blocks; ++b) {
    for (uint32_t row = 0; row < layer.n_kv_heads * layer.block_tokens; ++row) {
      const auto k = random.normals(layer.head_dim_k);
      quantize(layer.type_k, k.data(), at, k.size());
      at += layer.k_row_bytes();
    }
    for (uint32_t row = 0; row < layer.n_kv_heads * layer.block_tokens; ++row) {
      const auto v = random.normals(layer.head_dim_v);
      quantize(layer.type_v, v.data(), at, v.size());
      at += layer.v_row_bytes();
    }
  }
  return static_cast<uint32_t>(case_.kv.size() - 1);
}

void CaseBuilder::expect(ValueId id, std::vector<double> tolerance) {
  case_.outputs.push_back(id);
  case_.tolerance.push_back(std::move(tolerance));
}

OpCase CaseBuilder::build(Op op) {
  case_.program.ops.push_back(std::move(op));
  return std::move(case_);
}

}  // namespace strata::test
