// Runs on the host what the *_cuda.h functions launch: the same operations, with an order of blocks
// and threads in place of the stream, in the same thread blocks, on host memory. Calls return when
// the work is done, and check what nobody could check on a device: segments, groups, ranges,
// copies.
//   OnHost(HostOrder::kPhases, RopeOp{sizes, pairs, cosines, sines, x});
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/block_topk/block_bounds_kernel.h"
#include "kernels/block_topk/block_topk_kernel.h"
#include "kernels/copy/copy_kernel.h"
#include "kernels/elementwise/elementwise_kernel.h"
#include "kernels/gated_scan/gated_scan_kernel.h"
#include "kernels/gca/gca_kernel.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"
#include "kernels/linear_attention/features_kernel.h"
#include "kernels/linear_attention/linear_attention_kernel.h"
#include "kernels/pointer_mix/pointer_mix_kernel.h"
#include "kernels/range_attention/range_attention_kernel.h"
#include "kernels/rope/rope_kernel.h"
#include "kernels/sample/sample_kernel.h"
#include "kernels/tile_attention/tile_attention_kernel.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {

// ---- Rows --------------------------------------------------------------------------------------

template <typename Function, typename Out>
absl::Status CallOnHost(HostOrder order, const cuda::RowCall<Function, Out>& call) {
  const cuda::RowArgs<Out>& args = call.args;
  absl::Status status = CheckRows(call.name, {args.rows, args.width, 1, call.stride});
  if (!status.ok() || args.rows == 0 || args.width == 0) return status;
  RunBlocks<NoShared>(
      order, cuda::BlocksOf(args), cuda::kRowThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunRows<Function>(block, args, i); });
  return absl::OkStatus();
}

template <typename Out>
absl::Status NormOnHost(HostOrder order, const cuda::NormArgs<Out>& args) {
  absl::Status status = CheckRows("RMSNorm", args.sizes);
  if (!status.ok() || args.sizes.rows == 0 || args.sizes.width == 0) return status;
  RunBlocks<cuda::NormShared>(order, cuda::NormBlocks(args.sizes), cuda::kNormThreads,
                              [&](HostBlock& block, cuda::NormShared& shared, int64_t i) {
                                cuda::RunNorm(block, shared, args, i);
                              });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const RmsNormOp& op) {
  return WithNumbers(op.y, [&](auto* y) { return NormOnHost(order, cuda::NormArgsOf(op, y)); });
}

// Runs the other row-wise operations.
template <typename Op>
absl::Status OnHost(HostOrder order, const Op& op) {
  return WithNumbers(op.y, [&](auto* y) { return CallOnHost(order, cuda::RowCallOf(op, y)); });
}

inline absl::Status OnHost(HostOrder order, const RopeOp& op) {
  const RowSizes& sizes = op.sizes;
  absl::Status status = CheckRows("RoPE", sizes, 2);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  RunBlocks<NoShared>(order, cuda::RopeBlocks(sizes), cuda::kRopeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        if (op.pairs == RopePairs::kHalves) {
                          cuda::RunRope<RopePairs::kHalves>(block, op, i);
                        } else {
                          cuda::RunRope<RopePairs::kInterleaved>(block, op, i);
                        }
                      });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const MixPointedOp& op) {
  RETURN_IF_ERROR(CheckPointerRows({op.rows, op.vocab}, op.sentinel));
  RunBlocks<cuda::PointerShared>(order, op.rows, cuda::kPointerThreads,
                                 [&](HostBlock& block, cuda::PointerShared& shared, int64_t row) {
                                   cuda::RunPointerMix(block, shared, op, row);
                                 });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const SampleOp& op) {
  RETURN_IF_ERROR(CheckRows("sample", {op.rows, op.vocab}));
  RunBlocks<cuda::SampleShared>(order, op.rows, cuda::kSampleThreads,
                                [&](HostBlock& block, cuda::SampleShared& shared, int64_t row) {
                                  cuda::RunSample<HostBlock>({block, shared, op, row});
                                });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const CopyOp& op) {
  ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopy(op.count, op.most_bytes));
  RETURN_IF_ERROR(CheckCopies(std::span(op.copies, static_cast<size_t>(op.count)), op.most_bytes));
  const cuda::CopyArgs args = {plan, op.copies};
  RunBlocks<NoShared>(
      order, cuda::CopyBlocks(plan), cuda::kCopyThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunCopy(block, args, i); });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder, const ZeroOp& op) {
  if (op.bytes > 0) std::memset(op.to, 0, static_cast<size_t>(op.bytes));
  return absl::OkStatus();
}

// ---- Gated scan --------------------------------------------------------------------------------

template <int kInputs>
void RunScanOnHost(HostOrder order, const GatedScanOp& op, int64_t segments) {
  const int64_t blocks = op.plan.blocks;
  if (op.plan.strategy == GatedScanPlan::Strategy::kByTile) {
    RunBlocks<cuda::ScanShared>(order, segments * blocks, cuda::kTileThreads,
                                [&](HostBlock& block, cuda::ScanShared& shared, int64_t i) {
                                  cuda::ScanByTile<kInputs>(block, shared, op, i / blocks,
                                                            i % blocks);
                                });
  } else {
    RunBlocks<NoShared>(order, segments * blocks, cuda::kChannelThreads,
                        [&](HostBlock& block, NoShared&, int64_t i) {
                          cuda::ScanByChannel<kInputs>(block, op, i / blocks, i % blocks);
                        });
  }
}

inline absl::Status OnHost(HostOrder order, const GatedScanOp& op) {
  const GatedScanPlan& plan = op.plan;
  RETURN_IF_ERROR(
      CheckGatedScan(plan, std::span(op.segments, static_cast<size_t>(op.segment_count))));
  plan.sizes.inputs == 1 ? RunScanOnHost<1>(order, op, op.segment_count)
                         : RunScanOnHost<2>(order, op, op.segment_count);
  return absl::OkStatus();
}

// ---- Attention ---------------------------------------------------------------------------------

inline absl::Status OnHost(HostOrder order, const RangeAttentionOp& op) {
  const RangeAttentionPlan& plan = op.plan;
  const RangeAttentionSizes& sizes = plan.sizes;
  if (op.lists.counts == nullptr) {
    RETURN_IF_ERROR(CheckRanges(plan, std::span(op.sets, static_cast<size_t>(sizes.rows))));
  }
  const int64_t heads = sizes.heads, pairs = sizes.rows * heads;
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const int64_t tiles = (sizes.rows + plan.block_rows - 1) / plan.block_rows;
    RunBlocks<cuda::RangeShared>(order, tiles * heads, cuda::kRangeThreads,
                                 [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                   cuda::RangeByRow(block, shared, op, i / heads,
                                                    static_cast<int>(i % heads));
                                 });
    return absl::OkStatus();
  }
  RunBlocks<cuda::RangeShared>(order, pairs * plan.splits, cuda::kRangeThreads,
                               [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                 cuda::RangeBySplit(block, shared, op, i % pairs / heads,
                                                    static_cast<int>(i % heads), i / pairs);
                               });
  RunBlocks<NoShared>(order, pairs, cuda::kRangeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        cuda::RangeMerge(block, op, i / heads, static_cast<int>(i % heads));
                      });
  return absl::OkStatus();
}

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

inline absl::Status OnHost(HostOrder order, const TileAttentionOp& op) {
  const TileAttentionPlan& plan = op.plan;
  RETURN_IF_ERROR(CheckTileAttention(plan,
                                     std::span(op.tiles, static_cast<size_t>(plan.sizes.tiles)),
                                     std::span(op.sets, static_cast<size_t>(plan.sizes.rows))));
  plan.sizes.head_dim <= 64 ? TileAttentionOnHost<4>(order, op) : TileAttentionOnHost<8>(order, op);
  return absl::OkStatus();
}

template <int kDimSteps>
void GcaTilesOnHost(HostOrder order, int64_t blocks, const GcaOp& op, int64_t chunks) {
  using Tile = cuda::AttentionTile<kDimSteps>;
  const int64_t heads = op.plan.shape.heads;
  RunBlocks<Tile>(order, blocks, cuda::kGcaThreads, [&](HostBlock& block, Tile& tile, int64_t i) {
    cuda::GcaTiles(block, tile, op, i / chunks / heads, static_cast<int>(i / chunks % heads),
                   static_cast<int>(i % chunks));
  });
}

inline absl::Status OnHost(HostOrder order, const GcaOp& op) {
  const GcaPlan& plan = op.plan;
  const std::span groups(op.groups, static_cast<size_t>(op.group_count));
  int64_t chunks = 0;
  for (const GcaGroup& group : groups) chunks = std::max(chunks, group.first_chunk + group.chunks);
  RETURN_IF_ERROR(CheckGca(plan, groups, std::span(op.chunks, static_cast<size_t>(chunks))));
  const bool by_chunk = plan.strategy == GcaPlan::Strategy::kByChunk;
  const int64_t count = op.group_count, heads = plan.shape.heads;
  const int64_t chunks_each = by_chunk ? plan.sizes.max_group_chunks : 1;
  const int64_t blocks = count * heads * chunks_each;
  if (plan.q_dtype == DType::kFloat32) {
    RunBlocks<cuda::GcaRowsShared>(order, blocks, cuda::kGcaThreads,
                                   [&](HostBlock& block, cuda::GcaRowsShared& shared, int64_t i) {
                                     cuda::GcaRows(block, shared, op, i / chunks_each / heads,
                                                   static_cast<int>(i / chunks_each % heads),
                                                   static_cast<int>(i % chunks_each));
                                   });
  } else if (plan.shape.head_dim <= 64) {
    GcaTilesOnHost<4>(order, blocks, op, chunks_each);
  } else {
    GcaTilesOnHost<8>(order, blocks, op, chunks_each);
  }
  if (!by_chunk) return absl::OkStatus();
  RunBlocks<NoShared>(
      order, count, cuda::kGcaAddThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::GcaAddChunks(block, op, i); });
  return absl::OkStatus();
}

// ---- Landmarks ---------------------------------------------------------------------------------

inline absl::Status OnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  RunBlocks<cuda::LandmarkShared>(order, plan.query_tiles * plan.parts, cuda::kTopKThreads,
                                  [&](HostBlock& block, cuda::LandmarkShared& shared, int64_t i) {
                                    cuda::LandmarkPart(block, shared, op, i / plan.query_tiles,
                                                       i % plan.query_tiles);
                                  });
  RunBlocks<cuda::TopKList>(order, plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::LandmarkMerge(block, list, op, query);
                            });
  return absl::OkStatus();
}

// ---- Blocks ------------------------------------------------------------------------------------

inline absl::Status OnHost(HostOrder order, const BlockBoundsOp& op) {
  const BlockBoundsSizes& sizes = op.sizes;
  RETURN_IF_ERROR(CheckBlockBounds(sizes));
  RETURN_IF_ERROR(CheckKeyBlocks(sizes, std::span(op.blocks, static_cast<size_t>(sizes.blocks))));
  RunBlocks<NoShared>(
      order, cuda::BoundsBlocks(sizes), cuda::kBoundsThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunBounds(block, op, i); });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const BlockTopKOp& op) {
  const BlockTopKPlan& plan = op.plan;
  const BlockTopKSizes& sizes = plan.sizes;
  if (sizes.rows == 0) return absl::OkStatus();
  const int64_t patterns = op.patterns_per_head == 0 ? 1 : sizes.heads;
  RETURN_IF_ERROR(CheckBlockTopK(plan, std::span(op.rows, static_cast<size_t>(sizes.rows)),
                                 std::span(op.patterns, static_cast<size_t>(patterns))));
  const int64_t heads = sizes.heads, tiles = plan.row_tiles;
  RunBlocks<cuda::BlockPartShared>(order, plan.parts * heads * tiles, cuda::kTopKThreads,
                                   [&](HostBlock& block, cuda::BlockPartShared& shared, int64_t i) {
                                     cuda::BlockPart(block, shared, op, i % tiles,
                                                     static_cast<int>(i / tiles % heads),
                                                     i / tiles / heads);
                                   });
  RunBlocks<cuda::BlockMergeShared>(
      order, sizes.rows * heads, cuda::kTopKThreads,
      [&](HostBlock& block, cuda::BlockMergeShared& shared, int64_t i) {
        cuda::BlockMerge(block, shared, op, i / heads, static_cast<int>(i % heads));
      });
  return absl::OkStatus();
}

// ---- Linear attention --------------------------------------------------------------------------

inline absl::Status OnHost(HostOrder order, const FeaturesOp& op) {
  const RowSizes& sizes = op.sizes;
  absl::Status status = CheckFeatures(sizes);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  RunBlocks<NoShared>(order, cuda::FeatureBlocks(sizes), cuda::kFeatureThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        if (op.map == FeatureMap::kSoftmax) {
                          cuda::RunFeatures<FeatureMap::kSoftmax>(block, op, i);
                        } else {
                          cuda::RunFeatures<FeatureMap::kRelu>(block, op, i);
                        }
                      });
  return absl::OkStatus();
}

inline absl::Status OnHost(HostOrder order, const LinearAttentionOp& op) {
  const LinearAttentionPlan& plan = op.plan;
  RETURN_IF_ERROR(
      CheckLinearAttention(plan, std::span(op.segments, static_cast<size_t>(op.segment_count))));
  const int64_t tiles = plan.tiles, heads = plan.sizes.shape.kv_heads;
  RunBlocks<cuda::LinearShared>(order, tiles * heads * op.segment_count, plan.threads,
                                [&](HostBlock& block, cuda::LinearShared& shared, int64_t i) {
                                  cuda::LinearTile(block, shared, op, i / tiles / heads,
                                                   static_cast<int>(i / tiles % heads),
                                                   static_cast<int>(i % tiles));
                                });
  return absl::OkStatus();
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
