#include <algorithm>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"
#include "device/host_group.h"

namespace strata::device::cpu {
namespace {

// Elements that are summed at a time, from every member in turn.
constexpr uint64_t k_piece = 1024;

}  // namespace

void run_all_reduce(const AllReduce& op, const HostContext& context) {
  HostGroup* group = context.group;
  const float* own = op.partial == k_none ? nullptr : context.f32(op.partial);
  if (group != nullptr) {
    if (context.rank == 0) group->offer(context.member, own);
    context.barrier();
  }
  const KernelTable& table = kernels_of(context);
  const uint32_t members = group == nullptr ? 1 : group->members();
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  const Share share = share_in_units(context, count, 64);
  alignas(64) float sum[k_piece];
  for (uint64_t at = share.begin; at < share.end; at += k_piece) {
    const size_t n = std::min(k_piece, share.end - at);
    bool empty = true;
    for (uint32_t member = 0; member < members; ++member) {
      const float* partial = group == nullptr ? own : group->partial(member);
      if (partial == nullptr) continue;
      if (empty) {
        std::copy_n(partial + at, n, sum);
      } else {
        table.add(sum, partial + at, sum, n);
      }
      empty = false;
    }
    if (empty) std::fill_n(sum, n, 0.0f);
    float* out = context.f32(op.out) + at;
    if (op.residual == k_none) {
      std::copy_n(sum, n, out);
    } else {
      table.add(context.f32(op.residual) + at, sum, out, n);
    }
  }
  // Nobody may touch its partial result before all have read it.
  if (group != nullptr) {
    context.barrier();
    if (context.rank == 0) group->meet();
  }
}

}  // namespace strata::device::cpu
