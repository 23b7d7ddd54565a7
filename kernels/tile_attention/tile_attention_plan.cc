#include "kernels/tile_attention/tile_attention_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/block/launch.h"
#include "kernels/tile_attention/tile_attention_kernel.h"

namespace recollect::kernels {
namespace {

// By split while blocks by tile would not give a multiprocessor this many warps. An estimate: no
// device has measured it yet.
constexpr int64_t kMinWarps = 16;
// A prefill of few heads over a long cache would write much of this.
constexpr int64_t kMaxWorkspaceBytes = int64_t{256} << 20;

absl::Status Invalid(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("tile attention: ", parts...));
}

bool IsEmpty(const RangeSet::Range& range) { return range.end <= range.begin; }

absl::Status Check(const TileAttentionSizes& sizes) {
  if (sizes.rows < 0 || sizes.tiles < 0 || sizes.max_tile_rows < 0 || sizes.max_splits < 0 ||
      sizes.heads < 1 || sizes.heads > kMaxGridSide) {
    return Invalid(sizes.rows, " rows in ", sizes.tiles, " tiles of up to ", sizes.max_tile_rows,
                   ", ", sizes.heads, " heads, ", sizes.max_splits, " splits");
  }
  if (sizes.kv_heads < 1 || sizes.heads % sizes.kv_heads != 0) {
    return Invalid(sizes.heads, " heads over key-value heads: ", sizes.kv_heads);
  }
  if (sizes.head_dim < 1 || sizes.head_dim > kMaxTileHeadDim) {
    return Invalid("head_dim ", sizes.head_dim, ", expected 1 to ", kMaxTileHeadDim);
  }
  if (sizes.max_tile_rows > MostTileRows(sizes.heads, sizes.kv_heads)) {
    return Invalid("tiles of ", sizes.max_tile_rows, " rows, at most ",
                   MostTileRows(sizes.heads, sizes.kv_heads));
  }
  if (sizes.max_splits > kMaxTileSplits || sizes.tiles > std::numeric_limits<int32_t>::max()) {
    return Invalid(sizes.tiles, " tiles, ", sizes.max_splits, " splits, at most ", kMaxTileSplits);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t MostTileRows(int heads, int kv_heads) { return kMaxTileQueries / (heads / kv_heads); }

absl::StatusOr<TileAttentionPlan> PlanTileAttention(const TileAttentionSizes& sizes,
                                                    int multiprocessors) {
  using Strategy = TileAttentionPlan::Strategy;
  ASSIGN_OR_RETURN(const TileAttentionPlan by_split, PlanTileAttention(sizes, Strategy::kBySplit));
  const int64_t warps = sizes.tiles * sizes.kv_heads * by_split.warps;
  const bool few = warps < kMinWarps * multiprocessors && sizes.max_splits > 1;
  if (few && by_split.workspace_bytes <= kMaxWorkspaceBytes) return by_split;
  return PlanTileAttention(sizes, Strategy::kByTile);
}

absl::StatusOr<TileAttentionPlan> PlanTileAttention(const TileAttentionSizes& sizes,
                                                    TileAttentionPlan::Strategy strategy) {
  RETURN_IF_ERROR(Check(sizes));
  TileAttentionPlan plan{.sizes = sizes, .strategy = strategy};
  const int64_t queries = sizes.max_tile_rows * (sizes.heads / sizes.kv_heads);
  plan.warps = static_cast<int>(std::max<int64_t>(1, cuda::CeilDiv(queries, cuda::kTileRows)));
  const double root = std::sqrt(static_cast<double>(sizes.head_dim));
  plan.scale = static_cast<float>(1 / root);
  plan.power_scale = static_cast<float>(1.4426950408889634 / root);
  if (strategy == TileAttentionPlan::Strategy::kBySplit) {
    plan.workspace_bytes = sizes.rows * sizes.heads * sizes.max_splits * (2 + sizes.head_dim) *
                           static_cast<int64_t>(sizeof(float));
  }
  return plan;
}

std::vector<RowTile> RowTilesOf(std::span<const CacheRows> runs, std::span<const RangeSet> sets,
                                int64_t most_rows) {
  std::vector<RowTile> tiles;
  size_t row = 0;
  for (const CacheRows& run : runs) {
    for (int64_t done = 0; done < run.rows; done += most_rows) {
      RowTile& tile = tiles.emplace_back();
      tile.first_row = static_cast<int64_t>(row);
      tile.rows = std::min(most_rows, run.rows - done);
      tile.parts = run.parts;
      for (int64_t r = 0; r < tile.rows; ++r, ++row) {
        for (size_t p = 0; p < kMaxRanges; ++p) {
          const RangeSet::Range& range = sets[row].ranges[p];
          RangeSet::Range& reach = tile.reach.ranges[p];
          if (IsEmpty(range)) continue;
          reach = IsEmpty(reach) ? range
                                 : RangeSet::Range{std::min(reach.begin, range.begin),
                                                   std::max(reach.end, range.end)};
        }
      }
    }
  }
  return tiles;
}

int64_t SplitsOf(const RangeSet& reach) {
  int64_t splits = 0;
  for (int part = 0; part < kMaxRanges; ++part) splits += cuda::SplitsOfPart(reach, part);
  return splits;
}

TileAttentionSizes SizesOf(TileAttentionSizes sizes, std::span<const RowTile> tiles) {
  sizes.tiles = static_cast<int64_t>(tiles.size());
  for (const RowTile& tile : tiles) {
    sizes.max_tile_rows = std::max(sizes.max_tile_rows, tile.rows);
    sizes.max_splits = std::max(sizes.max_splits, SplitsOf(tile.reach));
  }
  return sizes;
}

absl::Status CheckTileAttention(const TileAttentionPlan& plan, std::span<const RowTile> tiles,
                                std::span<const RangeSet> sets) {
  const TileAttentionSizes& sizes = plan.sizes;
  if (static_cast<int64_t>(tiles.size()) != sizes.tiles ||
      static_cast<int64_t>(sets.size()) != sizes.rows) {
    return Invalid(sets.size(), " rows in ", tiles.size(), " tiles, planned for ", sizes.rows,
                   " in ", sizes.tiles);
  }
  int64_t row = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const RowTile& tile = tiles[i];
    if (tile.rows < 0 || tile.rows > sizes.max_tile_rows) {
      return Invalid("tile ", i, ": ", tile.rows, " rows, planned for ", sizes.max_tile_rows);
    }
    if (tile.rows > 0 && (tile.first_row != row || tile.first_row + tile.rows > sizes.rows)) {
      return Invalid("tile ", i, ": rows ", tile.first_row, " to ", tile.first_row + tile.rows,
                     ", expected from ", row, " on, of ", sizes.rows);
    }
    if (SplitsOf(tile.reach) > sizes.max_splits) {
      return Invalid("tile ", i, ": ", SplitsOf(tile.reach), " splits, planned for ",
                     sizes.max_splits);
    }
    for (; row < tile.first_row + tile.rows && tile.rows > 0; ++row) {
      for (size_t p = 0; p < kMaxRanges; ++p) {
        const RangeSet::Range& range = sets[static_cast<size_t>(row)].ranges[p];
        const RangeSet::Range& reach = tile.reach.ranges[p];
        if (IsEmpty(range)) continue;
        if (range.begin < 0 || range.begin < reach.begin || range.end > reach.end) {
          return Invalid("row ", row, ": entries ", range.begin, " to ", range.end,
                         ", its tile reaches from ", reach.begin, " to ", reach.end);
        }
      }
    }
  }
  if (row != sizes.rows) return Invalid("row ", row, " is in no tile");
  return absl::OkStatus();
}

}  // namespace recollect::kernels
