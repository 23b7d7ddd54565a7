#include <span>

#include "base/status.h"
#include "kernels/tile_attention/tile_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {
namespace {

template <int kDimSteps>
void TileAttentionOnHost(HostOrder order, const TileAttentionOp& op) {
  using Tile = cuda::AttentionTile<kDimSteps>;
  const TileAttentionSizes& sizes = op.plan.sizes;
  const int threads = op.plan.warps * HostBlock::kWarp;
  const int64_t pairs = sizes.tiles * sizes.kv_heads;
  const bool by_split = op.plan.strategy == TileAttentionPlan::Strategy::kBySplit;
  RunBlocks<Tile>(order, by_split ? pairs * sizes.max_splits : pairs, threads,
                  [&](HostBlock& block, Tile& tile, int64_t i) {
                    const int64_t index = i % pairs / sizes.kv_heads;
                    const auto kv_head = static_cast<int>(i % sizes.kv_heads);
                    if (by_split) {
                      cuda::TileBySplit(block, tile, op, index, kv_head, i / pairs);
                    } else {
                      cuda::TileByTile(block, tile, op, index, kv_head);
                    }
                  });
  if (!by_split) return;
  const int64_t heads = sizes.heads;
  RunBlocks<NoShared>(order, sizes.tiles * heads, cuda::kMergeTileThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        cuda::TileMerge(block, op, i / heads, static_cast<int>(i % heads));
                      });
}

}  // namespace

absl::Status OnHost(HostOrder order, const TileAttentionOp& op) {
  const TileAttentionPlan& plan = op.plan;
  RETURN_IF_ERROR(CheckTileAttention(plan,
                                     std::span(op.tiles, static_cast<size_t>(plan.sizes.tiles)),
                                     std::span(op.sets, static_cast<size_t>(plan.sizes.rows))));
  plan.sizes.head_dim <= 64 ? TileAttentionOnHost<4>(order, op) : TileAttentionOnHost<8>(order, op);
  return absl::OkStatus();
}

}  // namespace recollect::kernels
