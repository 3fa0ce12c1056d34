#include "plan/predict.h"

#include <algorithm>
#include <cmath>

namespace strata::plan {
namespace {

// Bytes in which an activation lies.
constexpr double k_element = 4;

class Clock {
 public:
  Clock(const device::Program& program, const device::Profile& profile, const StepWork& work)
      : program_(program), profile_(profile), work_(work) {}

  void operator()(const device::Linear& op) {
    const double n = rows(op.in);
    if (n <= 0) return;
    const device::WeightSpec& weight = program_.weights[op.weight];
    begin();
    matrix(weight, static_cast<double>(weight.bytes()), n - 1);
  }

  void operator()(const device::Experts& op) {
    const double n = rows(op.in);
    if (n <= 0) return;
    // The experts that it has, of all that may be named.
    const auto held = static_cast<double>(program_.weights[op.gate].dims[2]);
    const double share = static_cast<double>(op.n_used) / op.n_experts;
    const double reached = held * (1 - std::pow(1 - share, n));
    const double pairs = n * held * share;
    begin();
    for (const device::WeightId id : {op.gate, op.up, op.down}) {
      const device::WeightSpec& weight = program_.weights[id];
      matrix(weight, static_cast<double>(weight.bytes()) / held * reached, pairs - reached);
    }
  }

  void operator()(const device::Attention& op) {
    const double n = rows(op.q);
    if (n <= 0) return;
    const device::KvLayer& layer = program_.kv_layers[op.layer];
    double attended = work_.attended;
    double cached = work_.cached;
    if (op.window > 0) {
      // Tokens of many sequences attend each their own positions, those of one the same.
      const bool together = attended > cached;
      attended = std::min(attended, n * op.window);
      cached = std::min(cached, together ? n + op.window : n * op.window);
    }
    const double position =
        static_cast<double>(layer.k_row_bytes() + layer.v_row_bytes()) * layer.n_kv_heads;
    const double operations = 2.0 * op.n_heads * (layer.head_dim_k + layer.head_dim_v);
    begin();
    two_ends(profile_.attention, position * cached, operations * (attended - cached));
  }

  void operator()(const device::Embed& op) {
    const device::WeightSpec& table = program_.weights[op.weight];
    const double n = rows(op.out);
    elements(n, static_cast<double>(row_bytes(table.type, table.dims[0])) * n + bytes(op.out));
  }

  // All the others read and write activations, and little else.
  template <class Op>
  void operator()(const Op& op) {
    const device::OpOperands operands = device::operands_of(op);
    double total = 0;
    double n = 0;
    for (const auto& list : {operands.reads, operands.writes}) {
      for (const device::ValueId id : list) {
        total += bytes(id);
        n = std::max(n, rows(id));
      }
    }
    elements(n, total);
  }

  double seconds = 0;

 private:
  double rows(device::ValueId id) const {
    return program_.values[id].rows == device::Rows::tokens ? work_.tokens : work_.outputs;
  }
  double bytes(device::ValueId id) const {
    return k_element * program_.values[id].width * rows(id);
  }

  void begin() { seconds += profile_.seconds_per_op; }

  void elements(double n, double total) {
    if (n <= 0) return;
    begin();
    seconds += total / profile_.element_bytes_per_second;
  }

  void two_ends(const device::Rate& rate, double read, double more_operations) {
    seconds +=
        read / rate.bytes_per_second + std::max(more_operations, 0.0) / rate.operations_per_second;
  }

  // `more_rows` beyond the first that is multiplied with what is read.
  void matrix(const device::WeightSpec& weight, double read, double more_rows) {
    const auto known = profile_.linear.find(weight.type);
    const device::Rate& rate =
        known != profile_.linear.end() ? known->second : profile_.other_linear;
    two_ends(rate, read, 2.0 * static_cast<double>(weight.dims[0] * weight.dims[1]) * more_rows);
  }

  const device::Program& program_;
  const device::Profile& profile_;
  const StepWork& work_;
};

}  // namespace

double program_seconds(const device::Program& program, const device::Profile& profile,
                       const StepWork& work) {
  if (!profile.known()) return 0;
  Clock clock(program, profile, work);
  for (const device::Op& op : program.ops) std::visit(clock, op);
  return clock.seconds;
}

double copy_seconds(const device::Profile& from, double tokens, uint32_t width) {
  if (!from.known() || from.copy_bytes_per_second <= 0) return 0;
  return from.copy_seconds + tokens * width * k_element / from.copy_bytes_per_second;
}

}  // namespace strata::plan
