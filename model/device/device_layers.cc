// Decoder layers on a device: a mixer (device_mixer.cc), GCA over retrieved chunks (design 2.5),
// FFN.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "model/device/device_call.h"
#include "model/device/device_model.h"

namespace recollect::model {
namespace {

// A sequence's rows of a call: its segments in one.
std::vector<DeviceSegment> RunsOf(std::span<const DeviceSegment> segments) {
  std::vector<DeviceSegment> runs;
  for (const DeviceSegment& segment : segments) {
    if (runs.empty() || runs.back().state != segment.state) {
      runs.push_back({.state = segment.state});
    }
    runs.back().rows += segment.rows;
  }
  return runs;
}

}  // namespace

absl::Status DeviceModel::BuildGca(std::span<const DeviceSegment> segments, CallTables& call) {
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
  GcaTables& gca = call.gca;
  gca.count = sizes.groups = static_cast<int64_t>(groups.size());
  if (groups.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(gca.plan,
                   kernels::PlanGca({.heads = config_.heads,
                                     .kv_heads = config_.memory_kv_heads,
                                     .head_dim = config_.head_dim,
                                     .off_by_one = config_.gca_softmax == GcaSoftmax::kOffByOne},
                                    sizes, dtype_));
  RETURN_IF_ERROR(kernels::CheckGca(gca.plan, groups, chunks));
  gca.groups = call.tables.Add(groups);
  gca.chunks = call.tables.Add(chunks);
  gca.weights = call.tables.Add(weights);
  return absl::OkStatus();
}

// Memory that every layer of the call uses has the size of the one that needs most: where it lies
// is known before the first one runs.
absl::Status DeviceModel::BuildCall(int first, int count, std::span<const DeviceSegment> runs,
                                    CallTables& call) {
  const int64_t inner = config_.inner();
  std::map<int64_t, std::pair<std::vector<float>, std::vector<float>>> factors;  // by step
  int64_t widest = 2 * config_.ffn, widest_qkv = 0;
  for (int layer = first; layer < first + count; ++layer) {
    const MixerConfig& mixer = config_.mixer(layer);
    const int64_t width = ProjectedWidth(mixer);
    widest = std::max(widest, width);
    widest_qkv = std::max(widest_qkv, IsGated(mixer.kind) ? 3 * inner : width);
    if (mixer.positions == Positions::kRope) factors[StepOf(mixer)];
  }
  for (const DeviceSegment& run : runs) {
    std::vector<int64_t> positions(static_cast<size_t>(run.rows));
    std::iota(positions.begin(), positions.end(), run.state->layer(first).length());
    for (auto& [step, of_step] : factors) {
      AppendRopeFactors(ctx_, config_, run.state->rope_base(), step, positions, of_step.first,
                        of_step.second);
    }
  }
  for (const auto& [step, of_step] : factors) {
    call.ropes[step] = {step, call.tables.Add(of_step.first), call.tables.Add(of_step.second)};
  }
  ASSIGN_OR_RETURN(call.projected, Floats(kProjected, call.rows * widest));
  if (dtype_ == DType::kBf16) {
    ASSIGN_OR_RETURN(void* const memory,
                     Bytes(kQkv, call.rows * widest_qkv * int64_t{sizeof(Bf16)}));
    call.converted = static_cast<std::byte*>(memory);
  }
  ASSIGN_OR_RETURN(call.attended, Floats(kAttended, call.rows * inner));
  ASSIGN_OR_RETURN(call.some_heads, Floats(kSomeHeads, call.rows * inner));
  for (int layer = first; layer < first + count; ++layer) {
    RETURN_IF_ERROR(BuildMixer(layer, runs, call));
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::RunLayers(int first, int count, std::span<const DeviceSegment> segments,
                                    float* h) {
  const std::vector<DeviceSegment> runs = RunsOf(segments);
  CallTables call;
  for (const DeviceSegment& run : runs) {
    RETURN_IF_ERROR(run.state->Begin(device_));
    call.rows += run.rows;
  }
  if (call.rows == 0) return absl::OkStatus();
  RETURN_IF_ERROR(BuildCall(first, count, runs, call));
  RETURN_IF_ERROR(BuildGca(segments, call));
  RETURN_IF_ERROR(UploadTables(call.tables));
  return device_.Record([&]() -> absl::Status {
    for (int layer = first; layer < first + count; ++layer) {
      RETURN_IF_ERROR(RunLayer(layer, call, call.mixers[static_cast<size_t>(layer - first)], h));
    }
    return absl::OkStatus();
  });
}

absl::Status DeviceModel::RunLayer(int layer, const CallTables& call, const MixerTables& mixer,
                                   float* h) {
  const DeviceLayer& weights = weights_.layers[static_cast<size_t>(layer)];
  const int64_t numbers = call.rows * config_.d;
  RETURN_IF_ERROR(RunMixer(weights.mixer, config_.mixer(layer), call, mixer, h));
  const float* ffn_input = h;
  if (weights.gca_norm != nullptr && call.gca.count > 0) {
    float* sum = h;
    if (config_.gca_residual == GcaResidual::kBypass) {
      // The memory reaches the residual stream through the FFN only.
      ASSIGN_OR_RETURN(sum, Floats(kSum, numbers));
      RETURN_IF_ERROR(device_.Run(kernels::ZeroOp{sum, numbers * int64_t{sizeof(float)}}));
      RETURN_IF_ERROR(device_.Run(kernels::AddOp{h, numbers, sum}));
      ffn_input = sum;
    }
    RETURN_IF_ERROR(RunGca(weights, call, h, sum));
  }
  return RunFfn(weights.ffn, config_.parts(layer).ffn, config_.norm_eps, ffn_input, call.rows, h);
}

// Rows that read nothing have zeros there, which add nothing.
absl::Status DeviceModel::RunGca(const DeviceLayer& weights, const CallTables& call, const float* a,
                                 float* sum) {
  const int64_t inner = config_.inner(), rows = call.rows;
  const GcaTables& gca = call.gca;
  ASSIGN_OR_RETURN(const kernels::DeviceRows normed, Operand(kNormed, rows * config_.d));
  ASSIGN_OR_RETURN(float* const queries, Floats(kKeys, rows * inner));
  ASSIGN_OR_RETURN(float* const read, Floats(kValues, rows * inner));
  ASSIGN_OR_RETURN(void* const workspace, Bytes(kWorkspace, gca.plan.workspace_bytes));
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = {.rows = rows, .width = config_.d},
                                                 .x = a,
                                                 .gain = weights.gca_norm,
                                                 .eps = config_.norm_eps,
                                                 .y = normed}));
  RETURN_IF_ERROR(Product(weights.gca_q_proj, normed, rows, queries));
  ASSIGN_OR_RETURN(const kernels::DeviceRows q, AsOperand(kRounded, queries, rows * inner));
  RETURN_IF_ERROR(device_.Run(kernels::ZeroOp{read, rows * inner * int64_t{sizeof(float)}}));
  RETURN_IF_ERROR(
      device_.Run(kernels::GcaOp{.plan = gca.plan,
                                 .q = q.data,
                                 .groups = call.tables.At<kernels::GcaGroup>(gca.groups),
                                 .group_count = gca.count,
                                 .chunks = call.tables.At<kernels::MemoryView>(gca.chunks),
                                 .weights = call.tables.At<float>(gca.weights),
                                 .workspace = workspace,
                                 .out = read}));
  ASSIGN_OR_RETURN(const kernels::DeviceRows operand, AsOperand(kRounded, read, rows * inner));
  return Product(weights.gca_out_proj, operand, rows, sum, /*add=*/true);
}

}  // namespace recollect::model
