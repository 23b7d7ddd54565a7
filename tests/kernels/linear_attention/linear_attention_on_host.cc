#include <span>

#include "base/status.h"
#include "kernels/linear_attention/features_kernel.h"
#include "kernels/linear_attention/linear_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const FeaturesOp& op) {
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

absl::Status OnHost(HostOrder order, const LinearAttentionOp& op) {
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
