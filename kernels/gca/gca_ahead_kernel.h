// The thread blocks of GCA by group for q Bf16 and head_dim up to 64, with the bits of GcaTiles
// (gca_kernel.h). A chunk's keys and values are loaded together, while the chunk before is
// computed, with one barrier a chunk; head_dim 64 at aligned addresses is copied without a test or
// a division for each piece.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/gca/gca_kernel.h"

namespace recollect::kernels::cuda {

constexpr int kAheadDimSteps = 4;
constexpr int kAheadDim = 16 * kAheadDimSteps;

struct GcaAheadShared {
  AttentionTile<kAheadDimSteps> tiles[2];
};

// Begins to copy `count` rows of kAheadDim numbers, each at a multiple of 16 bytes; the others of
// the tile become zeros.
template <typename Block>
RECOLLECT_HD void BeginWholeRows(Block& block, const uint16_t* rows, int64_t stride, int count,
                                 uint16_t* to) {
  constexpr int kPieces = kAheadDim / kDotPiece, kRowsAtOnce = kGcaThreads / kPieces;
  constexpr int kPlaceStride = AttentionTile<kAheadDimSteps>::kStride;
  block.Run([&](int t) {
    const uint16_t* const from = rows + t / kPieces * stride + t % kPieces * kDotPiece;
    uint16_t* const place = to + t / kPieces * kPlaceStride + t % kPieces * kDotPiece;
    RECOLLECT_UNROLL
    for (int i = 0; i < kTileKeys / kRowsAtOnce; ++i) {
      uint16_t* const row_place = place + i * kRowsAtOnce * kPlaceStride;
      if (t / kPieces + i * kRowsAtOnce < count) {
        block.CopyBeside(from + i * kRowsAtOnce * stride, row_place);
      } else {
        *reinterpret_cast<Four<uint32_t>*>(row_place) = {};
      }
    }
  });
}

// Begins to copy one head of a chunk's keys and values.
template <typename Block>
RECOLLECT_HD void GcaStageAhead(Block& block, const GcaShape& shape, int kv_head,
                                const MemoryView& chunk, AttentionTile<kAheadDimSteps>& tile) {
  const int64_t stride = static_cast<int64_t>(shape.kv_heads) * kAheadDim;
  if (shape.head_dim == kAheadDim && IsAligned(chunk.keys) && IsAligned(chunk.values)) {
    BeginWholeRows(block, MemoryRow(chunk.keys, shape, kv_head, 0), stride, chunk.rows, tile.keys);
    BeginWholeRows(block, MemoryRow(chunk.values, shape, kv_head, 0), stride, chunk.rows,
                   tile.values);
    return;
  }
  GcaStage<kAheadDimSteps>(block, shape, kv_head, chunk.keys, chunk.rows, tile.keys);
  GcaStage<kAheadDimSteps>(block, shape, kv_head, chunk.values, chunk.rows, tile.values);
}

template <typename Block>
RECOLLECT_HD void GcaTilesAhead(Block& block, GcaAheadShared& shared, const GcaOp& op, int64_t g,
                                int head) {
  const GcaShape& shape = op.plan.shape;
  const GcaShare share = ShareOf(op, g, head, 0);
  const int warps = (share.rows + kTileRows - 1) / kTileRows;
  const auto tile_of = [&](int64_t e) -> AttentionTile<kAheadDimSteps>& {
    return shared.tiles[(e - share.begin) % 2];
  };
  const auto stage = [&](int64_t e) {
    if (e < share.end) GcaStageAhead(block, shape, share.kv_head, op.chunks[e], tile_of(e));
  };
  TileQueries<Block, kAheadDimSteps> queries(block);
  typename Block::template PerThread<Words<kTileScores / 2>> probabilities(block);
  typename Block::template PerThread<Floats<2>> factors(block);
  TileOutputs<Block, kAheadDimSteps> totals(block);
  stage(share.begin);
  GcaBegin<kAheadDimSteps>(block, op, share, queries, totals);
  for (int64_t e = share.begin; e < share.end; ++e) {
    block.AwaitCopies();
    block.Barrier();  // all see this chunk, and are done with the tile of the one before
    stage(e + 1);
    block.FirstWarps(warps, [&](Block& some) {
      GcaProbabilities(some, op.plan, tile_of(e), op.chunks[e].rows, op.weights[e], queries,
                       probabilities, factors);
      GcaAddValues<kAheadDimSteps>(some, tile_of(e), probabilities, factors, totals);
    });
  }
  GcaEnd<kAheadDimSteps>(block, shape.head_dim, share, totals);
}

// ---- Launches ----------------------------------------------------------------------------------

// x the group, so that what runs together reads the same chunks' heads; y the head; z the chunk, by
// chunk. With 4 as the least blocks of a multiprocessor the compiler spills no registers.
struct GcaRowsBlocks : Blocks<kGcaThreads, GcaRowsShared, 4> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const GcaOp& op, BlockIndex at) {
    GcaRows(block, shared, op, at.x, at.y, at.z);
  }
};
template <int kDimSteps>
struct GcaTileBlocks : Blocks<kGcaThreads, AttentionTile<kDimSteps>> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, AttentionTile<kDimSteps>& tile, const GcaOp& op,
                               BlockIndex at) {
    GcaTiles(block, tile, op, at.x, at.y, at.z);
  }
};
// By group, so z is 0. Four blocks a multiprocessor: 16 warps, and half of what it can load is on
// its way.
struct GcaAheadBlocks : Blocks<kGcaThreads, GcaAheadShared, 4> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const GcaOp& op, BlockIndex at) {
    GcaTilesAhead(block, shared, op, at.x, at.y);
  }
};
struct GcaAddBlocks : Blocks<kGcaAddThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const GcaOp& op, BlockIndex at) {
    GcaAddChunks(block, op, at.x);
  }
};

inline absl::Status CheckGcaArrays(const GcaOp& op) {
  const std::span<const GcaGroup> groups = ArrayOf(op.groups, op.group_count);
  int64_t chunks = 0;
  for (const GcaGroup& group : groups) chunks = std::max(chunks, group.first_chunk + group.chunks);
  return CheckGca(op.plan, groups, ArrayOf(op.chunks, chunks));
}

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const GcaOp& op) {
  const GcaPlan& plan = op.plan;
  RETURN_IF_ERROR(CheckPlanned("GCA", op.group_count, "groups", plan.sizes.groups));
  RETURN_IF_ERROR(launch.CheckArrays([&] { return CheckGcaArrays(op); }));
  const bool by_chunk = plan.strategy == GcaPlan::Strategy::kByChunk;
  const BlockGrid grid = {op.group_count, plan.shape.heads,
                          by_chunk ? plan.sizes.max_group_chunks : 1};
  if (plan.q_dtype == DType::kFloat32) {
    RETURN_IF_ERROR(launch(GcaRowsBlocks{}, "GCA", grid, op));
  } else if (plan.shape.head_dim > kAheadDim) {
    RETURN_IF_ERROR(launch(GcaTileBlocks<8>{}, "GCA", grid, op));
  } else if (by_chunk) {
    RETURN_IF_ERROR(launch(GcaTileBlocks<kAheadDimSteps>{}, "GCA", grid, op));
  } else {
    RETURN_IF_ERROR(launch(GcaAheadBlocks{}, "GCA", grid, op));
  }
  if (!by_chunk) return absl::OkStatus();
  return launch(GcaAddBlocks{}, "GCA, sum over chunks", {.x = op.group_count}, op);
}

}  // namespace recollect::kernels::cuda
