// What mixes positions in a decoder layer on a device: norm and projections, around them (gated)
// the gated recurrence and the output gate (design 2.2), attention over what each sequence keeps,
// and in RAttention a linear branch beside it (device_rattention.cc). As mixer.cc and the files it
// names, for the rows of many sequences.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model/device/device_call.h"
#include "model/device/device_model.h"

namespace recollect::model {

using kernels::DeviceRows;

namespace {

// Whether rows of both can be attended together: the same heads share a pattern, or all heads
// choose blocks in the same way.
bool AttendAlike(const DeviceLayerState& a, const DeviceLayerState& b) {
  if (a.blocks && b.blocks) {
    return a.blocks->choice() == b.blocks->choice() && a.blocks->patterns() == b.blocks->patterns();
  }
  const auto same_heads = [](const DeviceCache& x, const DeviceCache& y) {
    return x.heads() == y.heads();
  };
  return a.cached == b.cached && a.blocks.has_value() == b.blocks.has_value() &&
         std::equal(a.caches.begin(), a.caches.end(), b.caches.begin(), b.caches.end(), same_heads);
}

}  // namespace

int64_t DeviceModel::ProjectedWidth(const MixerConfig& mixer) const {
  return IsGated(mixer.kind) ? 5 * config_.inner() : config_.inner() + 2 * config_.kv_width();
}

// The copies of one layer, its recurrence, then what its rows attend to.
absl::Status DeviceModel::BuildMixer(int layer, std::span<const DeviceSegment> runs,
                                     CallTables& call) {
  const MixerConfig& config = config_.mixer(layer);
  const bool gated = IsGated(config.kind);
  const int64_t inner = config_.inner(), stride = ProjectedWidth(config);
  MixerTables& mixer = call.mixers.emplace_back();
  mixer.kv_heads = gated ? config_.heads : config_.kv_heads;
  const int64_t kv_width = int64_t{mixer.kv_heads} * config_.head_dim;
  mixer.fp32 = {reinterpret_cast<std::byte*>(call.projected + (gated ? inner : 0)), stride};
  mixer.bf16 = {call.converted, inner + 2 * kv_width, DType::kBf16};
  if (config.positions == Positions::kRope) mixer.rope = call.ropes.at(StepOf(config));
  if (gated && config_.recurrence) RETURN_IF_ERROR(BuildScan(layer, runs, call));
  int64_t row = 0;
  for (const DeviceSegment& run : runs) {
    DeviceLayerState& state = run.state->layer(layer);
    const QkvRows& qkv = mixer.In(state.cached);
    mixer.rounds = mixer.rounds || state.cached == DType::kBf16;
    RETURN_IF_ERROR(state.Reserve(device_, run.rows, call.copies));
    state.Append(qkv.At(row, inner), qkv.At(row, inner + kv_width), run.rows, qkv.stride,
                 call.copies);
    row += run.rows;
  }
  mixer.moves = CopyTable::Add(call.tables, std::exchange(call.copies.moves, {}));
  mixer.raw = CopyTable::Add(call.tables, std::exchange(call.copies.raw, {}));
  mixer.appends = CopyTable::Add(call.tables, std::exchange(call.copies.appends, {}));
  if (config.kind == MixerKind::kRattention) RETURN_IF_ERROR(BuildLinear(layer, runs, call));
  return BuildAttention(layer, runs, call);
}

// REQUIRES: the runs' rows are not appended yet.
absl::Status DeviceModel::BuildScan(int layer, std::span<const DeviceSegment> runs,
                                    CallTables& call) {
  MixerTables& mixer = call.mixers.back();
  const MixerConfig& config = config_.mixer(layer);
  const int64_t inner = config_.inner();
  std::vector<kernels::GatedScanSegment> scans;
  int64_t row = 0, most_rows = 0;
  for (const DeviceSegment& run : runs) {
    DeviceLayerState& state = run.state->layer(layer);
    float* const k = mixer.fp32.Floats(row, inner);
    float* const v = k + inner;
    scans.push_back({.z = v + inner,
                     .x = {k, v},
                     .y = {k, v},
                     .state = {state.carried_data(), state.carried_data() + inner},
                     .rows = run.rows,
                     .first = state.length()});
    row += run.rows;
    most_rows = std::max(most_rows, run.rows);
  }
  ASSIGN_OR_RETURN(mixer.scan, kernels::PlanGatedScan(
                                   {.segments = static_cast<int64_t>(scans.size()),
                                    .max_rows = most_rows,
                                    .channels = inner,
                                    .inputs = 2,
                                    .chunk = config.kind == MixerKind::kRat ? config.chunk : 0},
                                   device_.multiprocessors()));
  RETURN_IF_ERROR(kernels::CheckGatedScan(mixer.scan, scans));
  mixer.scans_at = call.tables.Add(scans);
  return absl::OkStatus();
}

// REQUIRES: the runs' rows are appended.
absl::Status DeviceModel::BuildAttention(int layer, std::span<const DeviceSegment> runs,
                                         CallTables& call) {
  MixerTables& mixer = call.mixers.back();
  // Neighbouring sequences are attended together.
  int64_t row = 0;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    const DeviceLayerState& like = runs[begin].state->layer(layer);
    int64_t rows = 0;
    for (; end < runs.size() && AttendAlike(runs[end].state->layer(layer), like); ++end) {
      rows += runs[end].rows;
    }
    const auto together = runs.subspan(begin, end - begin);
    if (like.blocks) {
      ASSIGN_OR_RETURN(mixer.choosing.emplace_back(),
                       BuildBlocks(layer, together, row, call.tables));
    }
    const auto attend = [&](const AttendedHeads& heads, const auto& cache_of) {
      AttendedRows attended;
      for (const DeviceSegment& run : together) {
        attended.Add(cache_of(run.state->layer(layer)), run.rows);
      }
      mixer.attentions.push_back(BuildHeads(attended, heads, row, call));
    };
    if (like.residual && like.residual->windowed()) {
      attend(
          {like.cached, 0, config_.heads, mixer.kv_heads},
          [](const DeviceLayerState& state) -> const auto& { return *state.residual; });
    }
    const int group = config_.heads / mixer.kv_heads;  // query heads of a key-value head
    for (size_t i = 0; i < like.caches.size(); ++i) {
      const DeviceCache& cache = like.caches[i];
      attend(
          {like.cached, group * cache.first_head(), group * cache.heads(), cache.heads()},
          [i](const DeviceLayerState& state) -> const auto& { return state.caches[i]; });
    }
    row += rows;
  }
  // All choices of a model are of the same blocks.
  if (!call.copies.blocks.empty()) {
    const auto chooses = [&](const DeviceSegment& run) {
      return run.state->layer(layer).blocks.has_value();
    };
    const auto of = std::find_if(runs.begin(), runs.end(), chooses);
    mixer.bounds = of->state->layer(layer).blocks->SizesOf(std::ssize(call.copies.blocks));
    mixer.bounds_at = call.tables.Add(std::exchange(call.copies.blocks, {}));
  }
  return absl::OkStatus();
}

// Some heads of neighbouring rows that begin at `first_row` of the call.
RowsAttention DeviceModel::BuildHeads(const AttendedRows& attended, const AttendedHeads& heads,
                                      int64_t first_row, CallTables& call) {
  RowsAttention attention =
      BuildRows(attended, heads, int64_t{heads.kv_heads} * config_.head_dim, call.tables);
  attention.first_row = first_row;
  if (heads.heads == config_.heads) return attention;
  // They come out dense, and go to their places.
  const int64_t width = int64_t{heads.heads} * config_.head_dim;
  std::vector<kernels::DeviceCopy> places;
  float* to = call.attended + first_row * config_.inner() + int64_t{heads.first} * config_.head_dim;
  for (int64_t i = 0; i < std::ssize(attended.sets); ++i, to += config_.inner()) {
    places.push_back({call.some_heads + i * width, to, width * int64_t{sizeof(float)}});
  }
  attention.places = CopyTable::Add(call.tables, places);
  return attention;
}

absl::Status DeviceModel::RunMixer(const DeviceMixer& weights, const MixerConfig& mixer,
                                   const CallTables& call, const MixerTables& tables, float* h) {
  const int64_t inner = config_.inner(), rows = call.rows;
  ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, rows * config_.d));
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = {.rows = rows, .width = config_.d},
                                                 .x = h,
                                                 .gain = weights.norm,
                                                 .eps = config_.norm_eps,
                                                 .y = normed}));
  RETURN_IF_ERROR(Product(weights.in_proj, normed, rows, call.projected));
  RETURN_IF_ERROR(tables.moves.Run(device_, call.tables));
  if (tables.scan.sizes.segments > 0) {
    RETURN_IF_ERROR(device_.Run(
        kernels::GatedScanOp{.plan = tables.scan,
                             .segments = call.tables.At<kernels::GatedScanSegment>(tables.scans_at),
                             .segment_count = tables.scan.sizes.segments,
                             .bias = weights.gate_bias,
                             .stride = tables.fp32.stride,
                             .y_stride = tables.fp32.stride}));
  }
  const bool linear = mixer.kind == MixerKind::kRattention;
  if (linear) RETURN_IF_ERROR(BeginLinear(weights, mixer, call, tables));
  RETURN_IF_ERROR(PlaceHeads(weights, call, tables));
  RETURN_IF_ERROR(tables.appends.Run(device_, call.tables));
  RETURN_IF_ERROR(AttendMixer(weights, call, tables));
  if (linear) RETURN_IF_ERROR(AddLinear(weights, mixer, call, tables.linear));
  if (!IsGated(mixer.kind)) {
    ASSIGN_OR_RETURN(const DeviceRows operand, AsOperand(kInner, call.attended, rows * inner));
    return Product(weights.out_proj, operand, rows, h, /*add=*/true);
  }
  ASSIGN_OR_RETURN(const DeviceRows gated, Operand(kInner, rows * inner));
  RETURN_IF_ERROR(device_.Run(kernels::SigmoidGateOp{call.projected, tables.fp32.stride,
                                                     call.attended, rows, inner, gated}));
  return Product(weights.out_proj, gated, rows, h, /*add=*/true);
}

// Queries and keys to where the softmax reads them: RoPE, then the norms by head, as the layer has
// them; then q, k and v into the caches' number format.
absl::Status DeviceModel::PlaceHeads(const DeviceMixer& weights, const CallTables& call,
                                     const MixerTables& tables) {
  const int64_t rows = call.rows, dim = config_.head_dim, stride = tables.fp32.stride;
  float *const q = tables.fp32.Floats(0, 0), *const k = tables.fp32.Floats(0, config_.inner());
  if (tables.rope.step > 0) {  // q and k lie side by side
    RETURN_IF_ERROR(
        device_.Run(kernels::RopeOp{.sizes = {.rows = rows,
                                              .width = dim,
                                              .heads = config_.heads + tables.kv_heads,
                                              .stride = stride},
                                    .pairs = config_.rope_pairs,
                                    .cosines = call.tables.At<float>(tables.rope.cosines),
                                    .sines = call.tables.At<float>(tables.rope.sines),
                                    .x = q}));
  }
  if (weights.q_norm != nullptr) {
    RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{
        .sizes = {.rows = rows, .width = dim, .heads = config_.heads, .stride = stride},
        .x = q,
        .gain = weights.q_norm,
        .eps = config_.head_norm_eps,
        .y = {q}}));
    RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{
        .sizes = {.rows = rows, .width = dim, .heads = tables.kv_heads, .stride = stride},
        .x = k,
        .gain = weights.k_norm,
        .eps = config_.head_norm_eps,
        .y = {k}}));
  }
  if (!tables.rounds) return absl::OkStatus();
  return device_.Run(kernels::ConvertToBf16Op{.x = q,
                                              .width = tables.bf16.stride,
                                              .y = reinterpret_cast<Bf16*>(tables.bf16.data),
                                              .rows = rows,
                                              .stride = stride});
}

// call.attended of what is appended.
absl::Status DeviceModel::AttendMixer(const DeviceMixer& weights, const CallTables& call,
                                      const MixerTables& tables) {
  if (tables.bounds.blocks > 0) {
    RETURN_IF_ERROR(device_.Run(kernels::BlockBoundsOp{
        tables.bounds, call.tables.At<kernels::KeyBlock>(tables.bounds_at)}));
  }
  for (const BlocksAttention& blocks : tables.choosing) {
    RETURN_IF_ERROR(AttendBlocks(blocks, call.tables, tables.fp32, call.attended));
  }
  for (const RowsAttention& attention : tables.attentions) {
    const bool all = attention.heads.heads == config_.heads;
    RETURN_IF_ERROR(
        Attend(attention, call.tables, tables.In(attention.heads.dtype), weights.alibi_slopes,
               all ? call.attended + attention.first_row * config_.inner() : call.some_heads));
    RETURN_IF_ERROR(attention.places.Run(device_, call.tables));
  }
  return absl::OkStatus();
}

}  // namespace recollect::model
