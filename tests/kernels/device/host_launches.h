// What the *_cuda.h functions launch, on the host: the same arguments with an order of blocks and
// threads for the stream, the same thread blocks, on host memory. They return when the work is
// done, and check what on a device nobody could: segments, groups, ranges, copies.
//   RopeOnHost(HostOrder::kPhases, sizes, pairs, cosines, sines, x);
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_

#include <algorithm>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

// y = Function(a, b), as cuda::GluArgs, GateArgs, FlatArgs and InPlaceArgs say; `stride` is the
// longest of the call.
template <typename Function, typename Out>
absl::Status RowsOnHost(HostOrder order, absl::string_view op, int64_t stride,
                        const cuda::RowArgs<Out>& args) {
  absl::Status status = CheckRows(op, {args.rows, args.width, 1, stride});
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

template <typename Out>
absl::Status RmsNormOnHost(HostOrder order, const RowSizes& sizes, const float* x,
                           const float* gain, float eps, Out* y) {
  return NormOnHost<Out>(order, {sizes, x, gain, 0, eps, y});
}

inline absl::Status RmsNormByHeadOnHost(HostOrder order, const RowSizes& sizes, const float* x,
                                        const float* gain, float eps, float* y) {
  return NormOnHost<float>(order, {sizes, x, gain, sizes.width, eps, y});
}

inline absl::Status RopeOnHost(HostOrder order, const RowSizes& sizes, RopePairs pairs,
                               const float* cosines, const float* sines, float* x) {
  absl::Status status = CheckRows("RoPE", sizes, 2);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const cuda::RopeArgs args = {sizes, cosines, sines, x};
  RunBlocks<NoShared>(order, cuda::RopeBlocks(sizes), cuda::kRopeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        if (pairs == RopePairs::kHalves) {
                          cuda::RunRope<RopePairs::kHalves>(block, args, i);
                        } else {
                          cuda::RunRope<RopePairs::kInterleaved>(block, args, i);
                        }
                      });
  return absl::OkStatus();
}

inline absl::Status MixPointedOnHost(HostOrder order, int64_t rows, int64_t vocab, int32_t sentinel,
                                     const PointedToken* pointed, const int64_t* ends,
                                     float* logits) {
  RETURN_IF_ERROR(CheckPointerRows({rows, vocab}, sentinel));
  const cuda::PointerArgs args = {vocab, sentinel, pointed, ends, logits};
  RunBlocks<cuda::PointerShared>(order, rows, cuda::kPointerThreads,
                                 [&](HostBlock& block, cuda::PointerShared& shared, int64_t row) {
                                   cuda::RunPointerMix(block, shared, args, row);
                                 });
  return absl::OkStatus();
}

inline absl::Status SampleOnHost(HostOrder order, const float* logits, int64_t rows, int32_t vocab,
                                 const NeverChosen& never, const SampleSettings* settings,
                                 int32_t* choices) {
  RETURN_IF_ERROR(CheckRows("sample", {rows, vocab}));
  const cuda::SampleArgs args = {vocab, never, logits, settings, choices};
  RunBlocks<cuda::SampleShared>(order, rows, cuda::kSampleThreads,
                                [&](HostBlock& block, cuda::SampleShared& shared, int64_t row) {
                                  cuda::RunSample<HostBlock>({block, shared, args, row});
                                });
  return absl::OkStatus();
}

inline absl::Status CopyOnHost(HostOrder order, const DeviceCopy* copies, int64_t count,
                               int64_t most_bytes) {
  ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopy(count, most_bytes));
  RETURN_IF_ERROR(CheckCopies(std::span(copies, static_cast<size_t>(count)), most_bytes));
  const cuda::CopyArgs args = {plan, copies};
  RunBlocks<NoShared>(
      order, cuda::CopyBlocks(plan), cuda::kCopyThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunCopy(block, args, i); });
  return absl::OkStatus();
}

// ---- Gated scan --------------------------------------------------------------------------------

template <int kInputs>
void RunScanOnHost(HostOrder order, const cuda::ScanArgs& args, int64_t segments) {
  const int64_t blocks = args.plan.blocks;
  if (args.plan.strategy == GatedScanPlan::Strategy::kByTile) {
    RunBlocks<cuda::ScanShared>(order, segments * blocks, cuda::kTileThreads,
                                [&](HostBlock& block, cuda::ScanShared& shared, int64_t i) {
                                  cuda::ScanByTile<kInputs>(block, shared, args, i / blocks,
                                                            i % blocks);
                                });
  } else {
    RunBlocks<NoShared>(order, segments * blocks, cuda::kChannelThreads,
                        [&](HostBlock& block, NoShared&, int64_t i) {
                          cuda::ScanByChannel<kInputs>(block, args, i / blocks, i % blocks);
                        });
  }
}

inline absl::Status GatedScanOnHost(HostOrder order, const GatedScanPlan& plan,
                                    const GatedScanDeviceArrays& arrays) {
  RETURN_IF_ERROR(
      CheckGatedScan(plan, std::span(arrays.segments, static_cast<size_t>(arrays.segment_count))));
  const cuda::ScanArgs args = {plan, arrays.segments, arrays.bias, arrays.stride, arrays.y_stride};
  plan.sizes.inputs == 1 ? RunScanOnHost<1>(order, args, arrays.segment_count)
                         : RunScanOnHost<2>(order, args, arrays.segment_count);
  return absl::OkStatus();
}

// ---- Attention ---------------------------------------------------------------------------------

inline absl::Status RangeAttentionOnHost(HostOrder order, const RangeAttentionPlan& plan,
                                         const RangeDeviceArrays& arrays) {
  const RangeAttentionSizes& sizes = plan.sizes;
  if (arrays.lists.counts == nullptr) {
    RETURN_IF_ERROR(CheckRanges(plan, std::span(arrays.sets, static_cast<size_t>(sizes.rows))));
  }
  const cuda::RangeArgs args = cuda::ArgsOf(plan, arrays);
  const int64_t heads = sizes.heads, pairs = sizes.rows * heads;
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const int64_t tiles = (sizes.rows + plan.block_rows - 1) / plan.block_rows;
    RunBlocks<cuda::RangeShared>(order, tiles * heads, cuda::kRangeThreads,
                                 [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                   cuda::RangeByRow(block, shared, args, i / heads,
                                                    static_cast<int>(i % heads));
                                 });
    return absl::OkStatus();
  }
  RunBlocks<cuda::RangeShared>(order, pairs * plan.splits, cuda::kRangeThreads,
                               [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                 cuda::RangeBySplit(block, shared, args, i % pairs / heads,
                                                    static_cast<int>(i % heads), i / pairs);
                               });
  RunBlocks<NoShared>(order, pairs, cuda::kRangeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        cuda::RangeMerge(block, args, i / heads, static_cast<int>(i % heads));
                      });
  return absl::OkStatus();
}

template <int kDimSteps>
void TileAttentionOnHost(HostOrder order, const cuda::TileAttentionArgs& args) {
  using Tile = cuda::AttentionTile<kDimSteps>;
  const TileAttentionSizes& sizes = args.plan.sizes;
  const int threads = args.plan.warps * HostBlock::kWarp;
  const int64_t pairs = sizes.tiles * sizes.kv_heads;
  const bool by_split = args.plan.strategy == TileAttentionPlan::Strategy::kBySplit;
  RunBlocks<Tile>(order, by_split ? pairs * sizes.max_splits : pairs, threads,
                  [&](HostBlock& block, Tile& tile, int64_t i) {
                    const int64_t index = i % pairs / sizes.kv_heads;
                    const auto kv_head = static_cast<int>(i % sizes.kv_heads);
                    if (by_split) {
                      cuda::TileBySplit(block, tile, args, index, kv_head, i / pairs);
                    } else {
                      cuda::TileByTile(block, tile, args, index, kv_head);
                    }
                  });
  if (!by_split) return;
  const int64_t heads = sizes.heads;
  RunBlocks<NoShared>(order, sizes.tiles * heads, cuda::kMergeTileThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        cuda::TileMerge(block, args, i / heads, static_cast<int>(i % heads));
                      });
}

inline absl::Status TileAttentionOnHost(HostOrder order, const TileAttentionPlan& plan,
                                        const TileDeviceArrays& arrays) {
  RETURN_IF_ERROR(CheckTileAttention(plan,
                                     std::span(arrays.tiles, static_cast<size_t>(plan.sizes.tiles)),
                                     std::span(arrays.sets, static_cast<size_t>(plan.sizes.rows))));
  const cuda::TileAttentionArgs args = cuda::ArgsOf(plan, arrays);
  plan.sizes.head_dim <= 64 ? TileAttentionOnHost<4>(order, args)
                            : TileAttentionOnHost<8>(order, args);
  return absl::OkStatus();
}

template <int kDimSteps>
void GcaTilesOnHost(HostOrder order, int64_t blocks, const cuda::GcaArgs& args, int64_t chunks) {
  using Tile = cuda::AttentionTile<kDimSteps>;
  const int64_t heads = args.plan.shape.heads;
  RunBlocks<Tile>(order, blocks, cuda::kGcaThreads, [&](HostBlock& block, Tile& tile, int64_t i) {
    cuda::GcaTiles(block, tile, args, i / chunks / heads, static_cast<int>(i / chunks % heads),
                   static_cast<int>(i % chunks));
  });
}

inline absl::Status GcaOnHost(HostOrder order, const GcaPlan& plan, const GcaDeviceArrays& arrays) {
  const std::span groups(arrays.groups, static_cast<size_t>(arrays.group_count));
  int64_t chunks = 0;
  for (const GcaGroup& group : groups) chunks = std::max(chunks, group.first_chunk + group.chunks);
  RETURN_IF_ERROR(CheckGca(plan, groups, std::span(arrays.chunks, static_cast<size_t>(chunks))));
  const cuda::GcaArgs args = cuda::ArgsOf(plan, arrays);
  const bool by_chunk = plan.strategy == GcaPlan::Strategy::kByChunk;
  const int64_t count = arrays.group_count, heads = plan.shape.heads;
  const int64_t chunks_each = by_chunk ? plan.sizes.max_group_chunks : 1;
  const int64_t blocks = count * heads * chunks_each;
  if (plan.q_dtype == DType::kFloat32) {
    RunBlocks<cuda::GcaRowsShared>(order, blocks, cuda::kGcaThreads,
                                   [&](HostBlock& block, cuda::GcaRowsShared& shared, int64_t i) {
                                     cuda::GcaRows(block, shared, args, i / chunks_each / heads,
                                                   static_cast<int>(i / chunks_each % heads),
                                                   static_cast<int>(i % chunks_each));
                                   });
  } else if (plan.shape.head_dim <= 64) {
    GcaTilesOnHost<4>(order, blocks, args, chunks_each);
  } else {
    GcaTilesOnHost<8>(order, blocks, args, chunks_each);
  }
  if (!by_chunk) return absl::OkStatus();
  RunBlocks<NoShared>(
      order, count, cuda::kGcaAddThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::GcaAddChunks(block, args, i); });
  return absl::OkStatus();
}

// ---- Landmarks ---------------------------------------------------------------------------------

inline absl::Status LandmarkTopKOnHost(HostOrder order, const LandmarkTopKPlan& plan,
                                       const float* queries, const SegmentStart* segments,
                                       void* workspace, const DeviceTopK& best) {
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  const cuda::LandmarkArgs args = {
      plan, queries, segments, static_cast<uint64_t*>(workspace), best.candidates, best.scores};
  RunBlocks<cuda::LandmarkShared>(order, plan.query_tiles * plan.parts, cuda::kTopKThreads,
                                  [&](HostBlock& block, cuda::LandmarkShared& shared, int64_t i) {
                                    cuda::LandmarkPart(block, shared, args, i / plan.query_tiles,
                                                       i % plan.query_tiles);
                                  });
  RunBlocks<cuda::TopKList>(order, plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::LandmarkMerge(block, list, args, query);
                            });
  return absl::OkStatus();
}

// ---- Blocks ------------------------------------------------------------------------------------

inline absl::Status BlockBoundsOnHost(HostOrder order, const BlockBoundsSizes& sizes,
                                      const KeyBlock* blocks) {
  RETURN_IF_ERROR(CheckBlockBounds(sizes));
  RETURN_IF_ERROR(CheckKeyBlocks(sizes, std::span(blocks, static_cast<size_t>(sizes.blocks))));
  const cuda::BoundsArgs args = {sizes, blocks};
  RunBlocks<NoShared>(
      order, cuda::BoundsBlocks(sizes), cuda::kBoundsThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunBounds(block, args, i); });
  return absl::OkStatus();
}

inline absl::Status BlockTopKOnHost(HostOrder order, const BlockTopKPlan& plan,
                                    const BlockTopKDeviceArrays& arrays) {
  const BlockTopKSizes& sizes = plan.sizes;
  if (sizes.rows == 0) return absl::OkStatus();
  const int64_t patterns = arrays.patterns_per_head == 0 ? 1 : sizes.heads;
  RETURN_IF_ERROR(CheckBlockTopK(plan, std::span(arrays.rows, static_cast<size_t>(sizes.rows)),
                                 std::span(arrays.patterns, static_cast<size_t>(patterns))));
  const cuda::BlockTopKArgs args = cuda::ArgsOf(plan, arrays);
  const int64_t heads = sizes.heads, tiles = plan.row_tiles;
  RunBlocks<cuda::BlockPartShared>(order, plan.parts * heads * tiles, cuda::kTopKThreads,
                                   [&](HostBlock& block, cuda::BlockPartShared& shared, int64_t i) {
                                     cuda::BlockPart(block, shared, args, i % tiles,
                                                     static_cast<int>(i / tiles % heads),
                                                     i / tiles / heads);
                                   });
  RunBlocks<cuda::BlockMergeShared>(
      order, sizes.rows * heads, cuda::kTopKThreads,
      [&](HostBlock& block, cuda::BlockMergeShared& shared, int64_t i) {
        cuda::BlockMerge(block, shared, args, i / heads, static_cast<int>(i % heads));
      });
  return absl::OkStatus();
}

// ---- Linear attention --------------------------------------------------------------------------

inline absl::Status FeaturesOnHost(HostOrder order, FeatureMap map, const RowSizes& sizes,
                                   const float* x, const float* scale, float* features) {
  absl::Status status = CheckFeatures(sizes);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const cuda::FeatureArgs args = {sizes, x, scale, features};
  RunBlocks<NoShared>(order, cuda::FeatureBlocks(sizes), cuda::kFeatureThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        if (map == FeatureMap::kSoftmax) {
                          cuda::RunFeatures<FeatureMap::kSoftmax>(block, args, i);
                        } else {
                          cuda::RunFeatures<FeatureMap::kRelu>(block, args, i);
                        }
                      });
  return absl::OkStatus();
}

inline absl::Status LinearAttentionOnHost(HostOrder order, const LinearAttentionPlan& plan,
                                          const LinearAttentionDeviceArrays& arrays) {
  RETURN_IF_ERROR(CheckLinearAttention(
      plan, std::span(arrays.segments, static_cast<size_t>(arrays.segment_count))));
  const cuda::LinearArgs args = cuda::ArgsOf(plan, arrays);
  const int64_t tiles = plan.tiles, heads = plan.sizes.shape.kv_heads;
  RunBlocks<cuda::LinearShared>(order, tiles * heads * arrays.segment_count, plan.threads,
                                [&](HostBlock& block, cuda::LinearShared& shared, int64_t i) {
                                  cuda::LinearTile(block, shared, args, i / tiles / heads,
                                                   static_cast<int>(i / tiles % heads),
                                                   static_cast<int>(i % tiles));
                                });
  return absl::OkStatus();
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
