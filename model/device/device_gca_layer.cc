// Grouped Cross-Attention over retrieved chunks on a device (gca_layer.cc, design 2.5).
#include <algorithm>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceRows;

absl::StatusOr<GcaTables> BuildGca(const DeviceContext& ctx,
                                   std::span<const DeviceSegment> segments, DeviceCall& call) {
  std::vector<kernels::GcaGroup> groups;
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;
  kernels::GcaSizes sizes = {.rows = call.rows};
  int64_t row = 0;
  for (const DeviceSegment& segment : segments) {
    if (segment.reads_memory()) {
      const Retrieved& retrieved = *segment.retrieved;
      groups.push_back({.first_row = row,
                        .first_chunk = static_cast<int64_t>(chunks.size()),
                        .rows = static_cast<int32_t>(segment.rows),
                        .chunks = static_cast<int32_t>(retrieved.chunks.size())});
      chunks.insert(chunks.end(), retrieved.chunks.begin(), retrieved.chunks.end());
      weights.insert(weights.end(), retrieved.weights.begin(), retrieved.weights.end());
      sizes.max_group_rows = std::max(sizes.max_group_rows, groups.back().rows);
      sizes.max_group_chunks = std::max(sizes.max_group_chunks, groups.back().chunks);
    }
    row += segment.rows;
  }
  GcaTables gca;
  gca.count = sizes.groups = std::ssize(groups);
  if (groups.empty()) return gca;
  ASSIGN_OR_RETURN(gca.plan,
                   kernels::PlanGca({.heads = ctx.config.heads,
                                     .kv_heads = ctx.config.memory_kv_heads,
                                     .head_dim = ctx.config.head_dim,
                                     .off_by_one = ctx.config.gca_softmax == GcaSoftmax::kOffByOne},
                                    sizes, ctx.dtype));
  RETURN_IF_ERROR(kernels::CheckGca(gca.plan, groups, chunks));
  gca.groups = call.tables.Add(groups);
  const int64_t layers = std::max<int64_t>(std::ssize(ctx.config.adapter.gca_layers), 1);
  for (int64_t layer = 0; layer < layers; ++layer) {
    gca.chunks.push_back(call.tables.Add(OfLayer(chunks, layer, ctx.config.memory_width())));
  }
  gca.weights = call.tables.Add(weights);
  return gca;
}

absl::Status RunGca(DeviceContext& ctx, const DeviceGca& weights, const GcaTables& gca,
                    const DeviceCall& call, const float* a, float* sum) {
  const int64_t inner = ctx.config.inner(), rows = call.rows;
  ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, rows * ctx.config.d));
  ASSIGN_OR_RETURN(float* const queries, ctx.Floats(kKeys, rows * inner));
  ASSIGN_OR_RETURN(float* const read, ctx.Floats(kValues, rows * inner));
  ASSIGN_OR_RETURN(void* const workspace, ctx.Bytes(kWorkspace, gca.plan.workspace_bytes));
  RETURN_IF_ERROR(ctx.RmsNorm(a, rows, weights.norm, weights.norm_eps, normed));
  RETURN_IF_ERROR(ctx.Product(weights.q_proj, normed, rows, queries));
  ASSIGN_OR_RETURN(const DeviceRows q, ctx.AsOperand(kRounded, queries, rows * inner));
  // Rows that read nothing keep zeros.
  RETURN_IF_ERROR(ctx.device.Run(kernels::ZeroOp{read, rows * inner * int64_t{sizeof(float)}}));
  const int64_t chunks = gca.chunks[static_cast<size_t>(weights.memory_layer)];
  RETURN_IF_ERROR(
      ctx.device.Run(kernels::GcaOp{.plan = gca.plan,
                                    .q = q.data,
                                    .groups = call.tables.At<kernels::GcaGroup>(gca.groups),
                                    .group_count = gca.count,
                                    .chunks = call.tables.At<kernels::MemoryView>(chunks),
                                    .weights = call.tables.At<float>(gca.weights),
                                    .workspace = workspace,
                                    .out = read}));
  ASSIGN_OR_RETURN(const DeviceRows operand, ctx.AsOperand(kRounded, read, rows * inner));
  return ctx.Product(weights.out_proj, operand, rows, sum, /*add=*/true);
}

}  // namespace recollect::model
