#include "model/shard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "tensor/types.h"

namespace strata::model {
namespace {

// Experts are cut inside when no member's part is off its share by more than this.
constexpr double k_inside_tolerance = 0.12;
// Rows of the vocabulary come in such groups, so that parts fill whole panels.
constexpr uint64_t k_vocabulary_granule = 32;
constexpr uint64_t k_column_granule = 32;

uint64_t block_of(const ModelSpec& spec, WeightId id) {
  return info(spec.weights[id].spec.type).block_elems;
}

// Cuts `count` in whole granules by the shares; where there are enough of them, nobody who has a
// share goes without.
std::vector<Interval> divide(uint64_t count, uint64_t granule, std::span<const double> shares) {
  const uint64_t n = (count + granule - 1) / granule;
  std::vector<uint64_t> ends;
  double before = 0;
  for (const double share : shares) {
    before += share;
    ends.push_back(std::min<uint64_t>(
        static_cast<uint64_t>(std::llround(before * static_cast<double>(n))), n));
  }
  ends.back() = n;
  const auto wanting = static_cast<uint64_t>(
      std::count_if(shares.begin(), shares.end(), [](double share) { return share > 0; }));
  if (wanting <= n) {
    const auto least = [&](size_t m) { return shares[m] > 0 ? uint64_t{1} : uint64_t{0}; };
    for (size_t m = 0; m < ends.size(); ++m) {
      ends[m] = std::max(ends[m], (m > 0 ? ends[m - 1] : 0) + least(m));
    }
    ends.back() = n;
    for (size_t m = ends.size() - 1; m-- > 0;) {
      ends[m] = std::min(ends[m], ends[m + 1] - least(m + 1));
    }
  }
  std::vector<Interval> parts;
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    parts.push_back({std::min(begin * granule, count), std::min(end * granule, count)});
    begin = end;
  }
  return parts;
}

// The least number of units of `width` elements whose total is a multiple of `block`.
uint64_t units_per_block(uint64_t width, uint64_t block) { return block / std::gcd(width, block); }

void cut_attention(const ModelSpec& spec, uint32_t block, std::span<const double> shares,
                   std::vector<Shard>& shards) {
  const AttentionSpec& a = spec.blocks[block].attention;
  const uint64_t group = a.n_heads / a.n_kv_heads;
  const uint64_t elems = block_of(spec, a.output);
  const uint64_t kv_granule = units_per_block(group * a.head_dim_v, elems);
  const auto wanting = static_cast<uint64_t>(
      std::count_if(shares.begin(), shares.end(), [](double share) { return share > 0; }));
  const bool by_kv = (a.n_kv_heads + kv_granule - 1) / kv_granule >= wanting;
  const uint64_t granule = by_kv ? kv_granule * group : units_per_block(a.head_dim_v, elems);
  const std::vector<Interval> parts = divide(a.n_heads, granule, shares);
  for (size_t m = 0; m < shards.size(); ++m) {
    BlockShard& shard = shards[m].blocks[block];
    shard.heads = parts[m];
    if (!parts[m].empty()) {
      shard.kv_heads = {parts[m].begin / group, (parts[m].end + group - 1) / group};
    }
  }
}

double worst_error(const std::vector<Interval>& parts, uint64_t count,
                   std::span<const double> shares) {
  double worst = 0;
  for (size_t m = 0; m < parts.size(); ++m) {
    const double got = static_cast<double>(parts[m].size()) / static_cast<double>(count);
    worst = std::max(worst, std::fabs(got - shares[m]));
  }
  return worst;
}

void cut_ffn(const ModelSpec& spec, uint32_t block, std::span<const double> shares,
             std::vector<Shard>& shards) {
  const BlockSpec& b = spec.blocks[block];
  const uint64_t n_ff = b.dense ? b.dense->n_ff : b.experts->n_ff;
  const WeightId down = b.dense ? b.dense->down : b.experts->down;
  uint64_t granule = block_of(spec, down);
  if (n_ff % k_column_granule == 0) granule = std::lcm(granule, k_column_granule);
  std::vector<Interval> ff = divide(n_ff, granule, shares);
  std::vector<Interval> experts(shares.size());
  if (b.experts) {
    const uint64_t all = b.experts->n_experts;
    for (Interval& part : experts) part = {0, all};
    if (worst_error(ff, n_ff, shares) > k_inside_tolerance && all >= shares.size()) {
      for (Interval& part : ff) part = {0, n_ff};
      experts = divide(all, 1, shares);
    }
  }
  for (size_t m = 0; m < shards.size(); ++m) {
    shards[m].blocks[block].ff = ff[m];
    shards[m].blocks[block].experts = experts[m];
  }
}

std::string range_text(const Interval& part) { return fmt::format("{}:{}", part.begin, part.end); }

}  // namespace

WeightPart whole(const ModelSpec& spec, WeightId id) {
  const device::WeightSpec& w = spec.weights[id].spec;
  return {id, {0, w.dims[0]}, {0, w.dims[1]}, {0, w.dims[2]}};
}

bool is_whole(const ModelSpec& spec, const WeightPart& part) {
  return part == whole(spec, part.id);
}

device::WeightSpec spec_of(const ModelSpec& spec, const WeightPart& part) {
  device::WeightSpec out = spec.weights[part.id].spec;
  if (is_whole(spec, part)) return out;
  std::string what;
  const auto add = [&](const char* name, const Interval& p, uint64_t& dim) {
    if (p.size() == dim) return;
    what += fmt::format("{}{} {}", what.empty() ? "" : ", ", name, range_text(p));
    dim = p.size();
  };
  add("columns", part.columns, out.dims[0]);
  add("rows", part.rows, out.dims[1]);
  add("experts", part.matrices, out.dims[2]);
  out.name += "[" + what + "]";
  return out;
}

std::vector<Shard> cut(const ModelSpec& spec, std::span<const double> shares) {
  double total = 0;
  for (const double share : shares) {
    if (!std::isfinite(share) || share < 0) {
      fail(ErrorCode::usage, "a share of {} is not a number from 0 on", share);
    }
    total += share;
  }
  if (shares.empty() || !(total > 0) || !std::isfinite(total)) {
    fail(ErrorCode::usage, "the shares of a group add up to nothing");
  }
  std::vector<double> fractions;
  for (const double share : shares) fractions.push_back(share / total);
  std::vector<Shard> shards(shares.size());
  const std::vector<Interval> vocabulary = divide(spec.n_vocab, k_vocabulary_granule, fractions);
  for (uint32_t m = 0; m < shards.size(); ++m) {
    shards[m].member = m;
    shards[m].members = static_cast<uint32_t>(shards.size());
    shards[m].blocks.resize(spec.blocks.size());
    shards[m].vocabulary = vocabulary[m];
  }
  for (uint32_t block = 0; block < spec.blocks.size(); ++block) {
    cut_attention(spec, block, fractions, shards);
    cut_ffn(spec, block, fractions, shards);
  }
  return shards;
}

}  // namespace strata::model
