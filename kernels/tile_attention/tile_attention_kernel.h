// The thread blocks of attention on tensor cores. A thread block has the rows of a tile and the
// query heads of one key-value head: query i is row i / per and head i % per, with per = heads /
// kv_heads, and warp w has queries 16 w to 16 w + 15. It goes through key tiles: 64 entries of a
// part from a multiple of 64 on. In each split, 256 entries from a multiple of 256 on, beginning
// with m = -inf, l = 0, o = 0, for a query and each key tile, with c = log2(e) / sqrt(head_dim),
//   s_j = q·K_j, -inf where j is not the row's
//   m' = max(m, s_j);  f = 2^(c (m - m')), 1 where they are equal;  p_j = 2^(c s_j - c m')
//   l = f l + Σ p_j in each of four threads over those that it holds, in order
//   o = f o + Σ p_j V_j, p_j rounded to Bf16 in this product alone
// then l is added over the four threads, first between threads 2 apart, and the split (m /
// sqrt(head_dim), l, o) is joined to those before with cuda_math.h's ScalesOf and Join, beginning
// with the empty part. A key tile or split without entries of the row leaves the row's numbers
// unchanged. So both ways give a row the same bits, which depend on its entries and their indices
// modulo 256 alone.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/tile_attention/attention_tile.h"
#include "kernels/tile_attention/tile_attention_plan.h"

namespace recollect::kernels::cuda {

constexpr int kMaxTileThreads = kMaxTileQueries / kTileRows * kMatrixWarp;
constexpr int kMergeTileThreads = 128;
constexpr int64_t kSplitTiles = kSplitTileEntries / kTileKeys;

// std::array's functions are host-only.
RECOLLECT_HD RangeSet::Range RangeOf(const RangeSet& set, int part) {
  return reinterpret_cast<const RangeSet::Range*>(&set)[part];
}
RECOLLECT_HD Bf16KvSpan SpanOf(const RowTile& tile, int part) {
  return reinterpret_cast<const Bf16KvSpan*>(&tile.parts)[part];
}

RECOLLECT_HD int64_t SplitsOfPart(const RangeSet& reach, int part) {
  const RangeSet::Range range = RangeOf(reach, part);
  if (range.end <= range.begin) return 0;
  return (range.end - 1) / kSplitTileEntries - range.begin / kSplitTileEntries + 1;
}

// A position in the key tiles of a tile's reach; part == kMaxRanges: none is left.
struct KeyTile {
  int part;
  int64_t number;  // entries 64 number to 64 number + 63
};

// The first key tile of `part` or of a later part.
RECOLLECT_HD KeyTile FirstKeyTile(const RangeSet& reach, int part) {
  for (; part < kMaxRanges; ++part) {
    const RangeSet::Range range = RangeOf(reach, part);
    if (range.begin < range.end) return {part, range.begin / kTileKeys};
  }
  return {kMaxRanges, 0};
}

RECOLLECT_HD KeyTile NextKeyTile(const RangeSet& reach, KeyTile at) {
  if ((at.number + 1) * kTileKeys < RangeOf(reach, at.part).end) return {at.part, at.number + 1};
  return FirstKeyTile(reach, at.part + 1);
}

RECOLLECT_HD bool AreOfOneSplit(KeyTile a, KeyTile b) {
  return a.part == b.part && a.number / kSplitTiles == b.number / kSplitTiles;
}

// The first key tile of split `split` of the reach.
RECOLLECT_HD KeyTile FirstOfSplit(const RangeSet& reach, int64_t split) {
  for (int part = 0; part < kMaxRanges; ++part) {
    const int64_t splits = SplitsOfPart(reach, part);
    if (split >= splits) {
      split -= splits;
      continue;
    }
    const int64_t first = RangeOf(reach, part).begin / kTileKeys;
    return {part, split == 0 ? first : (first / kSplitTiles + split) * kSplitTiles};
  }
  return {kMaxRanges, 0};
}

// The entries of a key tile that belong to a range: [begin, end) of its 64.
struct KeyRange {
  int begin;
  int end;
};

RECOLLECT_HD KeyRange KeysOf(RangeSet::Range range, KeyTile at) {
  const int64_t first = at.number * kTileKeys;
  const int64_t begin = range.begin - first, end = range.end - first;
  return {static_cast<int>(begin < 0 ? 0 : begin),
          static_cast<int>(end > kTileKeys ? kTileKeys : end)};
}

RECOLLECT_HD bool HasAll(const KeyRange& keys) { return keys.begin <= 0 && keys.end >= kTileKeys; }

// A thread's part of its two queries, 0 and 1: its number i belongs to query i / 2 % 2.
template <int kCount>
struct QueryParts {
  float max[2];
  float sum[2];
  float outputs[kCount];
};

// The maximum, the sum and o[head_dim] of a split.
RECOLLECT_HD float* PartialOf(const TileAttentionOp& op, int64_t row, int head, int64_t split) {
  const TileAttentionSizes& sizes = op.plan.sizes;
  return static_cast<float*>(op.workspace) +
         ((row * sizes.heads + head) * sizes.max_splits + split) * (2 + sizes.head_dim);
}

// A thread block's share.
struct TileShare {
  const RowTile* tile;
  int kv_head;
  int per;      // query heads of the key-value head
  int queries;  // of the tile
};

RECOLLECT_HD TileShare ShareOf(const TileAttentionOp& op, int64_t tile, int kv_head) {
  const TileAttentionSizes& sizes = op.plan.sizes;
  const int per = sizes.heads / sizes.kv_heads;
  const RowTile* const of = op.tiles + tile;
  return {of, kv_head, per, static_cast<int>(of->rows) * per};
}

RECOLLECT_HD int64_t RowOf(const TileShare& share, int query) {
  return share.tile->first_row + query / share.per;
}
RECOLLECT_HD int HeadOf(const TileShare& share, int query) {
  return share.kv_head * share.per + query % share.per;
}

// The entries of key tile `at` that each of the thread's two queries attends to; all entries if
// there is no such query.
RECOLLECT_HD void LoadKeyRanges(const TileAttentionOp& op, const TileShare& share, KeyTile at,
                                int t, KeyRange ranges[2]) {
  RECOLLECT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int query = TileRow(t, 2 * half);
    ranges[half] = {0, kTileKeys};
    if (query < share.queries) {
      ranges[half] = KeysOf(RangeOf(op.sets[RowOf(share, query)], at.part), at);
    }
  }
}

// Goes through key tiles from `at` on, to the end of the reach or, with `one_split`, of the split.
// A key tile's values are loaded while its scores are computed, and the next one's keys while its
// values are added. take(t, parts) receives thread t's results of each split.
template <int kDimSteps, typename Block, typename Take>
RECOLLECT_HD void GoThroughKeys(Block& block, AttentionTile<kDimSteps>& tile,
                                const TileAttentionOp& op, const TileShare& share, KeyTile at,
                                bool one_split, Take take) {
  constexpr int kOutputs = 8 * kDimSteps;
  constexpr int kQueryThreads = 4;  // that hold one query's numbers
  struct KeyRanges {
    KeyRange v[2];
  };
  const TileAttentionSizes& sizes = op.plan.sizes;
  const RangeSet& reach = share.tile->reach;
  const int dim = sizes.head_dim, threads = op.plan.warps * kMatrixWarp;
  const int warps = (share.queries + kTileRows - 1) / kTileRows;
  const float scale = op.plan.power_scale;
  const int64_t head = static_cast<int64_t>(share.kv_head) * dim;
  const auto begin = [&](KeyTile from, const Bf16* entries, uint16_t* to) {
    const KeyRange keys = KeysOf(RangeOf(reach, from.part), from);
    const auto* const rows =
        reinterpret_cast<const uint16_t*>(entries) + from.number * kTileKeys * op.kv_stride + head;
    BeginTile<kDimSteps>(block, threads, rows, op.kv_stride, keys.begin, keys.end, dim,
                         IsAligned(rows) && op.kv_stride % kDotPiece == 0, to);
  };
  TileQueries<Block, kDimSteps> queries(block);
  TileSums<Block> scores(block);
  typename Block::template PerThread<Words<kTileScores / 2>> probabilities(block);
  typename Block::template PerThread<Floats<2>> maxima(block), sums(block), greatest(block);
  typename Block::template PerThread<KeyRanges> ranges(block);
  TileOutputs<Block, kDimSteps> outputs(block);
  if (at.part < kMaxRanges) begin(at, SpanOf(*share.tile, at.part).keys, tile.keys);
  block.Run([&](int t) {
    const auto row_of = [&](int query) -> const uint16_t* {
      if (query >= share.queries) return nullptr;
      return reinterpret_cast<const uint16_t*>(op.q) + RowOf(share, query) * op.q_stride +
             HeadOf(share, query) * dim;
    };
    LoadTileQueries<kDimSteps>(t, dim, row_of, queries[t]);
    greatest[t] = {{-Infinity(), -Infinity()}};
    sums[t] = {};
    outputs[t] = {};
  });
  while (at.part < kMaxRanges) {
    const KeyTile next = NextKeyTile(reach, at);
    const bool ends = !AreOfOneSplit(at, next);
    const bool goes_on = next.part < kMaxRanges && !(one_split && ends);
    block.AwaitCopies();
    block.Barrier();
    begin(at, SpanOf(*share.tile, at.part).values, tile.values);
    block.FirstWarps(warps, [&](Block& some) {
      some.Run([&](int t) { LoadKeyRanges(op, share, at, t, ranges[t].v); });
      TileScores(some, queries, tile, scores);
      some.Run([&](int t) {
        const KeyRange first = ranges[t].v[0], second = ranges[t].v[1];
        if (!HasAll(first) || !HasAll(second)) {
          const int column = TileColumn(t, 0);
          RECOLLECT_UNROLL
          for (int i = 0; i < kTileScores; ++i) {
            const KeyRange& range = i / 2 % 2 == 0 ? first : second;
            const int key = column + TileColumn(0, i);
            if (key < range.begin || key >= range.end) scores[t].v[i] = -Infinity();
          }
        }
        maxima[t] = greatest[t];
        RECOLLECT_UNROLL
        for (int i = 0; i < kTileScores; ++i) {
          maxima[t].v[i / 2 % 2] = Max(maxima[t].v[i / 2 % 2], scores[t].v[i]);
        }
      });
      some.XorMax(maxima, kQueryThreads);
      some.Run([&](int t) {
        RECOLLECT_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float before = greatest[t].v[half], max = maxima[t].v[half];
          const float factor = before == max ? 1.0f : Exp2(Mul(scale, Add(before, -max)));
          const float shift = max == -Infinity() ? 0.0f : -Mul(scale, max);
          greatest[t].v[half] = max;
          float sum = 0;
          RECOLLECT_UNROLL
          for (int i = 0; i < kTileScores; ++i) {
            if (i / 2 % 2 != half) continue;
            float& score = scores[t].v[i];
            score = Exp2(Fma(score, scale, shift));
            sum = Add(sum, score);
          }
          sums[t].v[half] = Fma(sums[t].v[half], factor, sum);
          RECOLLECT_UNROLL
          for (int i = 0; i < kOutputs; ++i) {
            if (i / 2 % 2 == half) outputs[t].v[i] = Mul(outputs[t].v[i], factor);
          }
        }
        probabilities[t] = PackTile(scores[t]);
      });
    });
    block.AwaitCopies();
    block.Barrier();
    if (goes_on) begin(next, SpanOf(*share.tile, next.part).keys, tile.keys);
    block.FirstWarps(warps, [&](Block& some) {
      TileValues(some, probabilities, tile, outputs);
      if (!ends) return;
      some.XorSum(sums, kQueryThreads);
      some.Run([&](int t) {
        QueryParts<kOutputs> part;
        RECOLLECT_UNROLL
        for (int half = 0; half < 2; ++half) {
          part.max[half] = Mul(op.plan.scale, greatest[t].v[half]);
          part.sum[half] = sums[t].v[half];
        }
        RECOLLECT_UNROLL
        for (int i = 0; i < kOutputs; ++i) part.outputs[i] = outputs[t].v[i];
        take(t, part);
        greatest[t] = {{-Infinity(), -Infinity()}};
        sums[t] = {};
        outputs[t] = {};
      });
    });
    if (!goes_on) return;
    at = next;
  }
}

// By split: one (tile, key-value head, split). Splits that the tile does not have are not written.
template <int kDimSteps, typename Block>
RECOLLECT_HD void TileBySplit(Block& block, AttentionTile<kDimSteps>& tile,
                              const TileAttentionOp& op, int64_t index, int kv_head,
                              int64_t split) {
  const TileShare share = ShareOf(op, index, kv_head);
  if (share.queries == 0) return;
  const KeyTile at = FirstOfSplit(share.tile->reach, split);
  if (at.part == kMaxRanges) return;
  GoThroughKeys(block, tile, op, share, at, /*one_split=*/true, [&](int t, const auto& part) {
    RECOLLECT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = TileRow(t, 2 * half);
      if (query >= share.queries) continue;
      float* const to = PartialOf(op, RowOf(share, query), HeadOf(share, query), split);
      if (t % 4 == 0) {
        to[0] = part.max[half];
        to[1] = part.sum[half];
      }
      RECOLLECT_UNROLL
      for (int i = 0; i < 8 * kDimSteps; ++i) {
        const int d = TileColumn(t, i);
        if (i / 2 % 2 == half && d < op.plan.sizes.head_dim) to[2 + d] = part.outputs[i];
      }
    }
  });
}

// By split, second launch: the rows of one (tile, head).
template <typename Block>
RECOLLECT_HD void TileMerge(Block& block, const TileAttentionOp& op, int64_t index, int head) {
  const TileAttentionSizes& sizes = op.plan.sizes;
  const RowTile& tile = op.tiles[index];
  int64_t splits = 0;
  for (int part = 0; part < kMaxRanges; ++part) splits += SplitsOfPart(tile.reach, part);
  block.Run([&](int t) {
    for (int64_t i = t; i < tile.rows * sizes.head_dim; i += kMergeTileThreads) {
      const int64_t row = tile.first_row + i / sizes.head_dim, d = i % sizes.head_dim;
      SoftmaxPart joined = EmptyPart();
      float output = 0;
      for (int64_t split = 0; split < splits; ++split) {
        const float* const partial = PartialOf(op, row, head, split);
        JoinSplit(joined, output, partial[0], partial[1], partial[2 + d]);
      }
      op.out[(row * sizes.heads + head) * sizes.head_dim + d] = OutputOf(joined.sum, output);
    }
  });
}

// By tile: one (tile, key-value head).
template <int kDimSteps, typename Block>
RECOLLECT_HD void TileByTile(Block& block, AttentionTile<kDimSteps>& tile,
                             const TileAttentionOp& op, int64_t index, int kv_head) {
  constexpr int kOutputs = 8 * kDimSteps;
  const TileAttentionSizes& sizes = op.plan.sizes;
  const TileShare share = ShareOf(op, index, kv_head);
  if (share.queries == 0) return;
  typename Block::template PerThread<QueryParts<kOutputs>> joined(block);
  block.Run([&](int t) {
    joined[t] = {};
    joined[t].max[0] = joined[t].max[1] = -Infinity();
  });
  GoThroughKeys(block, tile, op, share, FirstKeyTile(share.tile->reach, 0), /*one_split=*/false,
                [&](int t, const auto& part) {
                  QueryParts<kOutputs>& to = joined[t];
                  RECOLLECT_UNROLL
                  for (int half = 0; half < 2; ++half) {
                    const MergeScales scales = ScalesOf(to.max[half], part.max[half]);
                    to.max[half] = scales.max;
                    to.sum[half] = Join(scales, to.sum[half], part.sum[half]);
                    RECOLLECT_UNROLL
                    for (int i = 0; i < kOutputs; ++i) {
                      if (i / 2 % 2 != half) continue;
                      to.outputs[i] = Join(scales, to.outputs[i], part.outputs[i]);
                    }
                  }
                });
  block.Run([&](int t) {
    RECOLLECT_UNROLL
    for (int i = 0; i < kOutputs; ++i) {
      const int query = TileRow(t, i), d = TileColumn(t, i);
      if (query >= share.queries || d >= sizes.head_dim) continue;
      op.out[(RowOf(share, query) * sizes.heads + HeadOf(share, query)) * sizes.head_dim + d] =
          OutputOf(joined[t].sum[i / 2 % 2], joined[t].outputs[i]);
    }
  });
}

struct TileMergeBlocks : Blocks<kMergeTileThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const TileAttentionOp& op, BlockIndex at) {
    TileMerge(block, op, at.x, at.y);
  }
};
// By tile the last ones go first: those of a prefill have the most entries.
template <int kDimSteps, bool kBySplit>
struct TileBlocks : Blocks<kMaxTileThreads, AttentionTile<kDimSteps>> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, AttentionTile<kDimSteps>& tile,
                               const TileAttentionOp& op, BlockIndex at) {
    if constexpr (kBySplit) {
      TileBySplit(block, tile, op, at.x, at.y, at.z);
    } else {
      TileByTile(block, tile, op, op.plan.sizes.tiles - 1 - at.x, at.y);
    }
  }
};

template <int kDimSteps, typename Launcher>
absl::Status LaunchTiles(const Launcher& launch, const TileAttentionOp& op) {
  const TileAttentionSizes& sizes = op.plan.sizes;
  BlockGrid grid = {.x = sizes.tiles, .y = sizes.kv_heads, .threads = op.plan.warps * kMatrixWarp};
  if (op.plan.strategy == TileAttentionPlan::Strategy::kByTile) {
    return launch(TileBlocks<kDimSteps, false>{}, "tile attention, tiles", grid, op);
  }
  grid.z = sizes.max_splits;
  RETURN_IF_ERROR(launch(TileBlocks<kDimSteps, true>{}, "tile attention, splits", grid, op));
  return launch(TileMergeBlocks{}, "tile attention, merge", {sizes.tiles, sizes.heads}, op);
}

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const TileAttentionOp& op) {
  const TileAttentionSizes& sizes = op.plan.sizes;
  RETURN_IF_ERROR(launch.CheckArrays([&] {
    return CheckTileAttention(op.plan, ArrayOf(op.tiles, sizes.tiles),
                              ArrayOf(op.sets, sizes.rows));
  }));
  return sizes.head_dim <= 64 ? LaunchTiles<4>(launch, op) : LaunchTiles<8>(launch, op);
}

}  // namespace recollect::kernels::cuda
