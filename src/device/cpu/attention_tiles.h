// Attention over one range of the cache in 16-bit integers: the kernels and the shapes they share.
//
// Purpose: twice the products per instruction that F32 gives, and sums that are exact.
//   Scores. A query row q becomes round(q * 32700 / |q|), a key row k round(k / s) with a step s of
//   at least |k| / 65000 and max |k| / 32700. Their dot product is exact in 32 bits, whatever its
//   order: by Cauchy and Schwarz no part of it exceeds 32700 * 65000 and the roundings.
//   Values. A value row becomes round(v / s) with s at least max |v| / 5792. The step joins the
//   softmax weight, and the weights of a query's range are rounded to integers whose sum stays so
//   small that the weighted sum of values is exact in 32 bits too.
// Every rounding looks at one key, one value or one query of one range, so a query's result does
// not depend on what is computed with it.
//
// Where a layer's keys and values are F16 or BF16 and fill whole vectors, the cache itself holds
// the integers, two bytes an element, in the order that the kernels read (ops/kv_integers.h says
// where): a group of 16 positions takes the place of 16 rows. Steps are
// rounded up to BF16, and their 16 bits hide in the lowest bits of 16 integers of the row, which
// are rounded to the nearest integer that ends so. Other caches are brought into tiles range by
// range, once for all queries that read them.
//
// Error, normalised, mean square, of rows of normal numbers: 1e-7 against the same cache where
// rows are brought in; 6e-8 against keys and values in F32 where the cache holds integers, which is
// less than F16's rounding of the cache gives in exact arithmetic.
// Not for: F32 caches, and KV heads that few query heads share: they keep F32 arithmetic
// (simd/attention.h).
// Plain data only, as kernels.h. Threads: constant tables of pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::device::cpu {

// Queries that are scored and weighted at a time.
inline constexpr size_t k_tile_queries = 16;
// Positions and dimensions come in whole multiples: a group of keys, a vector of 16-bit numbers.
inline constexpr size_t k_tile_positions = 16;
inline constexpr size_t k_tile_dims = 32;
// Distance of two queries' scores (and weights) in elements: a little more than a range, so that
// they do not all fall into the same few sets of the cache.
inline constexpr size_t k_tile_stride = 256 + 32;

inline constexpr float k_unit_norm = 32700;     // of a query's row of integers
inline constexpr float k_most_product = 65000;  // norm of a key's row of integers
inline constexpr float k_most_value = 5792;     // 2^12.5
inline constexpr float k_most_weight = 32767;
// Of a query's integer weights over a range: (5792 + 1) * (370300 + 256 / 2 + rounding) < 2^31.
inline constexpr float k_most_weights = 370300;

// Keys of a group of 16 positions: [pair of dimensions][position][2]. Values: [pair of positions]
// [dimension][2]. Dimensions are padded to k_tile_dims.
struct RangeTile {
  const int16_t* const* keys;    // by group
  const float* key_scales;       // by position: real key = scale * integers
  const int16_t* const* values;  // by group
  const float* value_scales;
  size_t dim_k;  // padded
  size_t dim_v;  // padded
};

// Up to k_tile_queries queries and what a range gives for them, relative to 2^top.
struct TileQueries {
  const int16_t* rows;    // [query][dim_k]
  const float* factors;   // by query: what makes a score of an integer product, log2(e) included
                          // unless softcap > 0
  const uint32_t* begin;  // [begin, end): positions of the range that the query sees
  const uint32_t* end;
  size_t n;
  float softcap;
  float* scores;     // [query][k_tile_stride], working memory
  int16_t* weights;  // the same
};

struct TilePartial {
  float* top;   // -infinity where a query sees nothing
  float* sum;   // of the weights
  float* unit;  // what acc is to be multiplied by
  float* acc;   // [query][dim_v]
};

// Groups of the cache that will be needed next, one for each group at hand: they are asked for on
// the way, a line at a time, so that the memory has something to do while there is arithmetic.
struct GroupsAhead {
  const std::byte* const* keys;
  const std::byte* const* values;
  size_t key_lines;  // of a group; 0: nothing is asked for
  size_t value_lines;
};

struct TileKernels {
  // Rows of one type to a tile, group after group; n is a multiple of k_tile_positions.
  struct Packers {
    void (*keys)(const std::byte* const* rows, size_t n, size_t dim, int16_t* tile, float* scales);
    void (*values)(const std::byte* const* rows, size_t n, size_t dim, int16_t* tile,
                   float* scales);
  };
  Packers f16, bf16, q8_0, q4_0;
  // Groups that the cache holds; `dim` is a multiple of k_tile_dims. A row that is not finite
  // stands for NaN.
  void (*store_key)(const float* row, size_t dim, int16_t* group, size_t position);
  void (*store_value)(const float* row, size_t dim, int16_t* group, size_t position);
  void (*key_scales)(const int16_t* const* groups, size_t n_groups, float* scales);
  void (*value_scales)(const int16_t* const* groups, size_t n_groups, size_t dim, float* scales);
  // A query; returns its scale.
  float (*query)(const float* row, size_t dim, int16_t* to);
  // The queries over positions [begin, end) of the tile, multiples of k_tile_positions that hold
  // whatever a query sees.
  void (*attend)(const TileQueries& queries, const RangeTile& tile, size_t begin, size_t end,
                 const TilePartial& out, const GroupsAhead& ahead);
  // Adds a range to what the ranges before it gave: top and sum by query, one row of sums each.
  void (*merge)(const TilePartial& part, size_t part_stride, size_t n, size_t dim, float* top,
                float* sum, float* const* acc);
  // row * 2^(top - t) / (sum * 2^(top - t) + 2^(sink - t)), t the greater of the two; a sink of
  // -infinity is none.
  void (*finish)(float* row, size_t dim, float top, float sum, float sink);
};

extern const TileKernels k_avx512vnni_tiles;

}  // namespace strata::device::cpu
