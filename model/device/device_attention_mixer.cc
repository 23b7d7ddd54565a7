// Softmax attention on a device (attention_mixer.cc), and what other mixers have in common with it:
// rows that are appended to caches and attend to them.
#include <utility>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

absl::StatusOr<MixerRows> AppendRows(DeviceContext& ctx, int layer, int64_t first, int kv_heads,
                                     DeviceCall& call) {
  const MixerConfig& mixer = ctx.config.mixer(layer);
  const int64_t inner = ctx.config.inner(), kv_width = int64_t{kv_heads} * ctx.config.head_dim;
  MixerRows rows = {.layer = layer, .kv_heads = kv_heads};
  rows.fp32 = {reinterpret_cast<std::byte*>(call.projected + first),
               ProjectedWidth(ctx.config, mixer)};
  rows.bf16 = {call.converted, inner + 2 * kv_width, DType::kBf16};
  if (mixer.positions == Positions::kRope) rows.rope = call.ropes.at(RopeStep(mixer));
  int64_t row = 0;
  for (const DeviceSegment& run : call.runs) {
    DeviceLayerState& state = run.state->layer(layer);
    const QkvRows& qkv = rows.In(state.cached);
    rows.rounds = rows.rounds || state.cached == DType::kBf16;
    RETURN_IF_ERROR(state.Reserve(ctx.device, run.rows, call.copies));
    state.Append(qkv.At(row, inner), qkv.At(row, inner + kv_width), run.rows, qkv.stride,
                 call.copies);
    row += run.rows;
  }
  rows.moves = CopyTable::Add(call.tables, std::exchange(call.copies.moves, {}));
  rows.raw = CopyTable::Add(call.tables, std::exchange(call.copies.raw, {}));
  rows.appends = CopyTable::Add(call.tables, std::exchange(call.copies.appends, {}));
  return rows;
}

absl::Status PlaceRows(DeviceContext& ctx, const MixerRows& rows, const DeviceCall& call) {
  const DeviceMixer& weights = ctx.layer(rows.layer).mixer;
  const ModelConfig& config = ctx.config;
  const int64_t stride = rows.fp32.stride;
  float *const q = rows.fp32.Floats(0, 0), *const k = rows.fp32.Floats(0, config.inner());
  const auto heads = [&](int count) {
    return kernels::RowSizes{
        .rows = call.rows, .width = config.head_dim, .heads = count, .stride = stride};
  };
  const auto norm = [&](int count, float* x, const float* gain) {
    return ctx.device.Run(kernels::RmsNormOp{
        .sizes = heads(count), .x = x, .gain = gain, .eps = config.head_norm_eps, .y = {x}});
  };
  if (rows.rope.step > 0) {  // q and k lie side by side
    RETURN_IF_ERROR(
        ctx.device.Run(kernels::RopeOp{.sizes = heads(config.heads + rows.kv_heads),
                                       .pairs = config.rope_pairs,
                                       .cosines = call.tables.At<float>(rows.rope.cosines),
                                       .sines = call.tables.At<float>(rows.rope.sines),
                                       .x = q}));
  }
  if (weights.q_norm != nullptr) {
    RETURN_IF_ERROR(norm(config.heads, q, weights.q_norm));
    RETURN_IF_ERROR(norm(rows.kv_heads, k, weights.k_norm));
  }
  if (rows.rounds) {
    RETURN_IF_ERROR(
        ctx.device.Run(kernels::ConvertToBf16Op{.x = q,
                                                .width = rows.bf16.stride,
                                                .y = reinterpret_cast<Bf16*>(rows.bf16.data),
                                                .rows = call.rows,
                                                .stride = stride}));
  }
  return rows.appends.Run(ctx.device, call.tables);
}

absl::StatusOr<RunRows> BuildAttention(DeviceContext& ctx, int layer, DeviceCall& call) {
  ASSIGN_OR_RETURN(MixerRows rows, AppendRows(ctx, layer, 0, ctx.config.kv_heads, call));
  ASSIGN_OR_RETURN(LocalAttention attention, BuildLocalAttention(ctx, rows, call));
  return RunRows([&ctx, &call, rows, attention = std::move(attention)]() -> absl::Status {
    RETURN_IF_ERROR(rows.moves.Run(ctx.device, call.tables));
    RETURN_IF_ERROR(PlaceRows(ctx, rows, call));
    return AttendLocal(ctx, attention, rows, call);
  });
}

}  // namespace recollect::model
