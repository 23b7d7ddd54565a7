// Attention over ranges of caches in Bf16 on tensor cores of a device: the bounded dilated
// attention of RAT+ (range_attention.h; its initial, dilated and local parts are the ranges), in a
// prefill as in a decode step.
//   p = softmax over all entries of all ranges of q·k / sqrt(head_dim);  out = Σ p v
// Products of Bf16 with fp32 sums, the softmax in fp32; exp(s_j) is rounded to Bf16 in the product
// with v, not in the denominator. Query head h reads key-value head floor(h kv_heads / heads). No
// entries: out = 0.
//
// A row's bits do not depend on the other rows, on its tile, or on how the plan splits the work: a
// prefill and a decode step compute the same. Its bits depend on its entries, their parts, and
// their indices modulo kSplitTileEntries (256) in these: a cache may drop entries at its beginning
// by multiples of that. The bits are those of one kind of device. No atomics. Keys and values
// within a tile's reach are to be finite; nothing beyond it is read.
//   tiles = RowTilesOf(runs, sets, MostTileRows(heads, kv_heads));
//   plan = PlanTileAttention(SizesOf({.rows = …}, tiles), multiprocessors);
//   CheckTileAttention(plan, tiles, sets);                // host copies, before the upload
//   device.Run(TileAttentionOp{plan, q, q_stride, kv_stride, tiles, sets, …});
// For lists of entries, ALiBi and caches in fp32 use range_attention_plan.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels {

inline constexpr int kMaxTileHeadDim = 128;
// The most queries of one thread block: rows times query heads per key-value head.
inline constexpr int kMaxTileQueries = 64;
// The entries of a split, which has a softmax of its own: the entries of a part from one multiple
// of this number up to the next.
inline constexpr int64_t kSplitTileEntries = 256;
inline constexpr int64_t kMaxTileSplits = 65535;  // of one tile

// Entries of [kv_heads, head_dim], as far apart as the call says.
using Bf16KvParts = std::array<Bf16KvSpan, kMaxRanges>;

// Neighbouring rows of one cache. `reach` covers in each part the entries of all the rows, from the
// first to the last; entries beyond it are not read.
struct RowTile {
  int64_t first_row = 0;
  int64_t rows = 0;  // 0: nothing to do
  RangeSet reach = {};
  Bf16KvParts parts = {};
};

// Sizes for which a graph is captured; it may be replayed with other tiles and ranges within them.
struct TileAttentionSizes {
  int64_t rows = 0;
  int64_t tiles = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int64_t max_tile_rows = 0;
  int64_t max_splits = 0;  // SplitsOf a tile's reach
  friend bool operator==(const TileAttentionSizes&, const TileAttentionSizes&) = default;
};

struct TileAttentionPlan {
  // By split: a thread block for each (tile, key-value head, split), joined by a second launch; for
  // the few tiles of a decode step. By tile: a block goes through all splits; for a prefill, or
  // many sequences.
  enum class Strategy { kBySplit, kByTile };
  TileAttentionSizes sizes;
  Strategy strategy = Strategy::kByTile;
  int warps = 1;                // of a block, 16 queries each
  float scale = 0;              // 1 / sqrt(head_dim)
  float power_scale = 0;        // log2(e) / sqrt(head_dim)
  int64_t workspace_bytes = 0;  // by split: fp32 [rows, heads, max_splits, 2 + head_dim]
  friend bool operator==(const TileAttentionPlan&, const TileAttentionPlan&) = default;
};

// Chooses the strategy for a device with that many multiprocessors; both give the same bits.
// INVALID_ARGUMENT when a size is negative, heads or head_dim is 0, kv_heads does not divide heads,
// head_dim > kMaxTileHeadDim, a tile has more than kMaxTileQueries queries, or a size is beyond
// what a launch can count (65 535 heads or splits, 2 147 483 647 tiles).
absl::StatusOr<TileAttentionPlan> PlanTileAttention(const TileAttentionSizes& sizes,
                                                    int multiprocessors);

// Plans with a given strategy, for tests and benchmarks.
absl::StatusOr<TileAttentionPlan> PlanTileAttention(const TileAttentionSizes& sizes,
                                                    TileAttentionPlan::Strategy strategy);

// Neighbouring rows of a call that share a cache: those of one sequence.
struct CacheRows {
  int64_t rows = 0;
  Bf16KvParts parts = {};
};

// Returns the most rows that a tile may have.
int64_t MostTileRows(int heads, int kv_heads);

// Divides all runs, one after the other, into tiles of at most `most_rows` rows. sets: the ranges
// of all their rows.
std::vector<RowTile> RowTilesOf(std::span<const CacheRows> runs, std::span<const RangeSet> sets,
                                int64_t most_rows);

// Returns the number of splits in a tile's reach.
int64_t SplitsOf(const RangeSet& reach);

// Returns `sizes` with tiles, max_tile_rows and max_splits set from `tiles`.
TileAttentionSizes SizesOf(TileAttentionSizes sizes, std::span<const RowTile> tiles);

// Checks host copies before they are uploaded, since the device checks nothing: as many tiles and
// sets as planned, within the plan's sizes, every row in one tile, every range within its tile's
// reach and from 0 on. INVALID_ARGUMENT names the tile or row.
absl::Status CheckTileAttention(const TileAttentionPlan& plan, std::span<const RowTile> tiles,
                                std::span<const RangeSet> sets);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done, as
// is what the tiles point to. Spans at multiples of 16 bytes with kv_stride and head_dim multiples
// of 8 are read fastest. Launches depend on the plan alone, so a captured graph can be replayed
// with other tiles and ranges.
struct TileAttentionOp {
  TileAttentionPlan plan;
  const Bf16* q = nullptr;  // [rows, heads, head_dim], rows q_stride numbers apart
  int64_t q_stride = 0;
  int64_t kv_stride = 0;  // numbers from one entry to the next; at least kv_heads * head_dim
  const RowTile* tiles = nullptr;  // [sizes.tiles]
  const RangeSet* sets = nullptr;  // [rows]
  void* workspace = nullptr;       // plan.workspace_bytes, aligned to 4
  float* out = nullptr;            // [rows, heads, head_dim] dense, not overlapping any input
  friend bool operator==(const TileAttentionOp&, const TileAttentionOp&) = default;
};

}  // namespace recollect::kernels
