// Chunk states to memory K, V on a device (memory_projection.cc, design 2.3).
#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceRows;

namespace {

// Stored states in the number format of the products, in RAM; `wide` has what is not as it was.
std::span<const std::byte> Converted(DType dtype, std::span<const Bf16> states,
                                     std::vector<float>& wide) {
  if (dtype == DType::kBf16) return std::as_bytes(states);
  wide.resize(states.size());
  std::transform(states.begin(), states.end(), wide.begin(),
                 [](Bf16 value) { return value.ToFloat(); });
  return std::as_bytes(std::span(wide));
}

// Copies the rows of stored states one after the other to `to`, on the device.
absl::Status PlaceStates(DeviceContext& ctx, std::span<const StoredStates> chunks, std::byte* to) {
  std::vector<kernels::DeviceCopy> copies;
  for (const StoredStates& chunk : chunks) {
    RECOLLECT_CHECK(static_cast<int64_t>(chunk.states.size()) == chunk.rows * ctx.config.d);
    if (chunk.uploaded != nullptr) {
      RETURN_IF_ERROR(ctx.device.Await(*chunk.uploaded));
      copies.push_back({chunk.uploaded->data(), to, chunk.uploaded->bytes()});
      to += chunk.uploaded->bytes();
    } else {
      std::vector<float> wide;
      const std::span<const std::byte> numbers = Converted(ctx.dtype, chunk.states, wide);
      RETURN_IF_ERROR(ctx.device.Upload(numbers.data(), std::ssize(numbers), to));
      to += numbers.size();
    }
  }
  return ctx.Copy(copies);
}

// keys[rows, width] = their gated recurrence, which begins anew in every chunk.
absl::Status ScanKeys(DeviceContext& ctx, std::span<const StoredStates> chunks, int64_t rows,
                      const DeviceRows& input, float* keys) {
  const int64_t width = ctx.config.memory_width();
  const auto count = static_cast<int64_t>(chunks.size());
  ASSIGN_OR_RETURN(float* const gates, ctx.Floats(kProjected, rows * width));
  ASSIGN_OR_RETURN(float* const state, ctx.Floats(kState, count * width));
  RETURN_IF_ERROR(ctx.Product(*ctx.weights.memory.gate_proj, input, rows, gates));
  RETURN_IF_ERROR(ctx.device.Run(kernels::ZeroOp{state, count * width * int64_t{sizeof(float)}}));
  std::vector<kernels::GatedScanSegment> segments;
  int64_t row = 0;
  for (const StoredStates& chunk : chunks) {
    const auto index = static_cast<int64_t>(segments.size());
    segments.push_back({.z = gates + row * width,
                        .x = {keys + row * width},
                        .y = {keys + row * width},
                        .state = {state + index * width},
                        .rows = chunk.rows});
    row += chunk.rows;
  }
  ASSIGN_OR_RETURN(
      const kernels::GatedScanPlan plan,
      kernels::PlanGatedScan({.segments = count, .max_rows = kMaxChunkTokens, .channels = width},
                             ctx.device.multiprocessors()));
  RETURN_IF_ERROR(kernels::CheckGatedScan(plan, segments));
  DeviceTables tables;
  const int64_t at = tables.Add(segments);
  RETURN_IF_ERROR(ctx.Upload(tables));
  return ctx.device.Run(kernels::GatedScanOp{.plan = plan,
                                             .segments = tables.At<kernels::GatedScanSegment>(at),
                                             .segment_count = count,
                                             .stride = width,
                                             .y_stride = width});
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<kernels::DeviceBuffer>>> DeviceModel::BeginUpload(
    std::span<const std::span<const Bf16>> states) {
  std::vector<std::span<const std::byte>> arrays;
  std::vector<std::vector<float>> wide(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    arrays.push_back(Converted(ctx_->dtype, states[i], wide[i]));
  }
  return ctx_->device.UploadAllAsync(arrays);
}

absl::StatusOr<std::vector<DeviceMemory>> DeviceModel::ProjectMemory(
    std::span<const StoredStates> chunks) {
  DeviceContext& ctx = *ctx_;
  const int64_t width = ctx.config.memory_width();
  int64_t rows = 0;
  for (const StoredStates& chunk : chunks) rows += chunk.rows;
  if (rows == 0) return std::vector<DeviceMemory>();
  ASSIGN_OR_RETURN(const DeviceRows input, ctx.Operand(kNormed, rows * ctx.config.d));
  RETURN_IF_ERROR(PlaceStates(ctx, chunks, static_cast<std::byte*>(input.data)));
  ASSIGN_OR_RETURN(float* const keys, ctx.Floats(kKeys, rows * width));
  ASSIGN_OR_RETURN(float* const values, ctx.Floats(kValues, rows * width));
  RETURN_IF_ERROR(ctx.Product(ctx.weights.memory.k_proj, input, rows, keys));
  RETURN_IF_ERROR(ctx.Product(ctx.weights.memory.v_proj, input, rows, values));
  if (ctx.weights.memory.gate_proj) RETURN_IF_ERROR(ScanKeys(ctx, chunks, rows, input, keys));
  std::vector<DeviceMemory> memories;
  int64_t row = 0;
  for (const StoredStates& chunk : chunks) {
    const int64_t count = chunk.rows * width;
    DeviceMemory& memory = memories.emplace_back();
    ASSIGN_OR_RETURN(memory.owner, ctx.device.Allocate(2 * count * int64_t{sizeof(Bf16)}));
    Bf16* const k = static_cast<Bf16*>(memory.owner->data());
    RETURN_IF_ERROR(ctx.device.Run(kernels::ConvertToBf16Op{keys + row * width, count, k}));
    RETURN_IF_ERROR(
        ctx.device.Run(kernels::ConvertToBf16Op{values + row * width, count, k + count}));
    memory.view = {k, k + count, chunk.rows};
    row += chunk.rows;
  }
  return memories;
}

}  // namespace recollect::model
