#include <algorithm>
#include <span>

#include "base/status.h"
#include "kernels/gca/gca_ahead_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {
namespace {

template <int kDimSteps>
void GcaTilesOnHost(HostOrder order, int64_t blocks, const GcaOp& op, int64_t chunks) {
  using Tile = cuda::AttentionTile<kDimSteps>;
  const int64_t heads = op.plan.shape.heads;
  RunBlocks<Tile>(order, blocks, cuda::kGcaThreads, [&](HostBlock& block, Tile& tile, int64_t i) {
    cuda::GcaTiles(block, tile, op, i / chunks / heads, static_cast<int>(i / chunks % heads),
                   static_cast<int>(i % chunks));
  });
}

void GcaTilesAheadOnHost(HostOrder order, int64_t blocks, const GcaOp& op) {
  const int64_t heads = op.plan.shape.heads;
  RunBlocks<cuda::GcaAheadShared>(order, blocks, cuda::kGcaThreads,
                                  [&](HostBlock& block, cuda::GcaAheadShared& shared, int64_t i) {
                                    cuda::GcaTilesAhead(block, shared, op, i / heads,
                                                        static_cast<int>(i % heads));
                                  });
}

}  // namespace

absl::Status OnHost(HostOrder order, const GcaOp& op) {
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
  } else if (plan.shape.head_dim > cuda::kAheadDim) {
    GcaTilesOnHost<8>(order, blocks, op, chunks_each);
  } else if (by_chunk) {
    GcaTilesOnHost<4>(order, blocks, op, chunks_each);
  } else {
    GcaTilesAheadOnHost(order, blocks, op);
  }
  if (!by_chunk) return absl::OkStatus();
  RunBlocks<NoShared>(
      order, count, cuda::kGcaAddThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::GcaAddChunks(block, op, i); });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
