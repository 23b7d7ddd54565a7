// The chunk encoder on a device (chunk_encoder.cc, design 2.3), over the rows of many chunks.
#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceCopy;
using kernels::DeviceRows;

namespace {

struct EncoderTables {
  int64_t rows = 0;  // of all chunks, landmarks among them
  int64_t chunks = 0;
  float* x = nullptr;          // [rows, d]
  float* landmarks = nullptr;  // [chunks, d]
  float* carried = nullptr;    // [chunks, d]: what replaces the landmarks' rows
  float* projected = nullptr;
  QkvRows qkv;  // `projected`, or converted from it
  float* attended = nullptr;
  int64_t cosines = 0, sines = 0;
  CopyTable gather;  // the blocks' rows into x
  CopyTable lift;    // landmarks out of x
  CopyTable cls;     // the CLS row into each of `carried`
  CopyTable place;   // `carried` to the landmarks' rows of x
  CopyTable split;   // keys and values out of `projected`, dense, for range attention
  RowsAttention attention;
  DeviceTables tables;
};

absl::StatusOr<EncoderTables> BuildEncoder(DeviceContext& ctx,
                                           std::span<const DeviceBlock> blocks) {
  const int64_t d = ctx.config.d, inner = ctx.config.inner();
  const int64_t row_bytes = d * int64_t{sizeof(float)}, part_bytes = inner * int64_t{sizeof(float)};
  const bool at_end = ctx.config.landmark_at == LandmarkAt::kEnd;
  EncoderTables tables;
  tables.chunks = static_cast<int64_t>(blocks.size());
  for (const DeviceBlock& block : blocks) tables.rows += block.rows();
  const int64_t widest = std::max({3 * inner, 2 * ctx.config.ffn, ctx.config.d_r});
  ASSIGN_OR_RETURN(tables.x, ctx.Floats(kSum, tables.rows * d));
  ASSIGN_OR_RETURN(tables.landmarks, ctx.Floats(kRows, tables.chunks * d));
  ASSIGN_OR_RETURN(tables.carried, ctx.Floats(kState, tables.chunks * d));
  ASSIGN_OR_RETURN(tables.projected, ctx.Floats(kProjected, tables.rows * widest));
  tables.qkv = {reinterpret_cast<std::byte*>(tables.projected), 3 * inner};
  if (ctx.dtype == DType::kBf16) {
    ASSIGN_OR_RETURN(void* const rounded,
                     ctx.Bytes(kQkv, tables.rows * 3 * inner * int64_t{sizeof(Bf16)}));
    tables.qkv = {static_cast<std::byte*>(rounded), 3 * inner, ctx.dtype};
  }
  ASSIGN_OR_RETURN(tables.attended, ctx.Floats(kAttended, tables.rows * inner));
  // Range attention takes dense entries, tile attention those that lie side by side with queries.
  const bool dense = ctx.dtype == DType::kFloat32;
  float *keys = nullptr, *values = nullptr;
  if (dense) {
    ASSIGN_OR_RETURN(keys, ctx.Floats(kKeys, tables.rows * inner));
    ASSIGN_OR_RETURN(values, ctx.Floats(kValues, tables.rows * inner));
  }

  std::vector<DeviceCopy> gather, lift, cls, place, split;
  std::vector<int64_t> positions;
  AttendedRows attended;
  int64_t row = 0;
  for (const DeviceBlock& block : blocks) {
    const int64_t rows = block.rows();
    RECOLLECT_CHECK(rows >= 2 && rows <= ctx.config.chunk_tokens + 1);
    float* const first = tables.x + row * d;
    float* const landmark = at_end ? first + (rows - 1) * d : first;
    const auto at = static_cast<int64_t>(lift.size()) * d;
    if (block.rows_before > 0) {
      gather.push_back({block.before, first, block.rows_before * row_bytes});
    }
    if (block.rows_here > 0) {
      gather.push_back({block.here, first + block.rows_before * d, block.rows_here * row_bytes});
    }
    lift.push_back({landmark, tables.landmarks + at, row_bytes});
    cls.push_back({ctx.weights.encoder.cls, tables.carried + at, row_bytes});
    place.push_back({tables.carried + at, landmark, row_bytes});
    kernels::RangeSet all;
    all.ranges[0] = {0, rows};
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(r);
      attended.sets.push_back(all);
      if (!dense) continue;
      const int64_t entry = (row + r) * inner;
      split.push_back({tables.qkv.At(row + r, inner), keys + entry, part_bytes});
      split.push_back({tables.qkv.At(row + r, 2 * inner), values + entry, part_bytes});
    }
    CachedRows& cache = attended.cached.emplace_back(CachedRows{.rows = rows});
    cache.parts[0] = dense ? CachePart{keys + row * inner, values + row * inner}
                           : CachePart{tables.qkv.At(row, inner), tables.qkv.At(row, 2 * inner)};
    row += rows;
  }
  std::vector<float> cosines, sines;
  AppendRopeFactors(ctx, ctx.config.rope_base, /*step=*/1, positions, cosines, sines);
  tables.cosines = tables.tables.Add(cosines);
  tables.sines = tables.tables.Add(sines);
  tables.gather = CopyTable::Add(tables.tables, gather);
  tables.lift = CopyTable::Add(tables.tables, lift);
  tables.cls = CopyTable::Add(tables.tables, cls);
  tables.place = CopyTable::Add(tables.tables, place);
  tables.split = CopyTable::Add(tables.tables, split);
  tables.attention =
      BuildRows(ctx.config, attended,
                {.dtype = ctx.dtype, .heads = ctx.config.heads, .kv_heads = ctx.config.heads},
                dense ? inner : tables.qkv.stride, tables.tables);
  RETURN_IF_ERROR(ctx.Upload(tables.tables));
  return tables;
}

// What stands for the landmark into its row: CLS, and with encoder_carry what the landmark had
// read; or what is there.
absl::Status PlaceLandmarks(DeviceContext& ctx, const EncoderTables& tables) {
  if (ctx.config.landmark_row == LandmarkRow::kStream) return absl::OkStatus();
  RETURN_IF_ERROR(tables.cls.Run(ctx.device, tables.tables));
  if (ctx.weights.encoder.carry_proj) {
    const int64_t count = tables.chunks;
    ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, count * ctx.config.d));
    RETURN_IF_ERROR(tables.lift.Run(ctx.device, tables.tables));
    RETURN_IF_ERROR(ctx.RmsNorm(tables.landmarks, count, nullptr, ctx.config.norm_eps, normed));
    RETURN_IF_ERROR(
        ctx.Product(*ctx.weights.encoder.carry_proj, normed, count, tables.carried, /*add=*/true));
  }
  return tables.place.Run(ctx.device, tables.tables);
}

// x += attention of RMS(x) over all rows of a chunk, RoPE at the row's index; x += FFN(RMS(x)).
absl::Status EncodeLayer(DeviceContext& ctx, const DeviceEncoderLayer& weights,
                         const EncoderTables& tables) {
  const int64_t inner = ctx.config.inner(), stride = 3 * inner, rows = tables.rows;
  const float eps = ctx.config.encoder_norm_eps;
  ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, rows * ctx.config.d));
  RETURN_IF_ERROR(ctx.RmsNorm(tables.x, rows, weights.attn_norm, eps, normed));
  RETURN_IF_ERROR(ctx.Product(weights.attn_in_proj, normed, rows, tables.projected));
  RETURN_IF_ERROR(ctx.device.Run(kernels::RopeOp{.sizes = {.rows = rows,
                                                           .width = ctx.config.head_dim,
                                                           .heads = 2 * ctx.config.heads,
                                                           .stride = stride},
                                                 .pairs = ctx.config.rope_pairs,
                                                 .cosines = tables.tables.At<float>(tables.cosines),
                                                 .sines = tables.tables.At<float>(tables.sines),
                                                 .x = tables.projected}));
  if (ctx.dtype == DType::kBf16) {
    RETURN_IF_ERROR(ctx.device.Run(kernels::ConvertToBf16Op{
        tables.projected, rows * stride, reinterpret_cast<Bf16*>(tables.qkv.data)}));
  }
  RETURN_IF_ERROR(tables.split.Run(ctx.device, tables.tables));
  RETURN_IF_ERROR(
      Attend(ctx, tables.attention, tables.tables, tables.qkv, nullptr, tables.attended));
  ASSIGN_OR_RETURN(const DeviceRows operand,
                   ctx.AsOperand(kRounded, tables.attended, rows * inner));
  RETURN_IF_ERROR(ctx.Product(weights.attn_out_proj, operand, rows, tables.x, /*add=*/true));
  return RunFfn(ctx, weights.ffn, ctx.config.ffn_kind, eps, tables.x, rows, tables.x);
}

// Landmark keys κ and chunk states E, as they are stored.
absl::StatusOr<std::vector<EncodedChunk>> TakeChunks(DeviceContext& ctx,
                                                     std::span<const DeviceBlock> blocks,
                                                     const EncoderTables& tables) {
  const int64_t d = ctx.config.d, d_r = ctx.config.d_r, count = tables.chunks;
  RETURN_IF_ERROR(tables.lift.Run(ctx.device, tables.tables));
  float* keys = tables.landmarks;
  if (ctx.weights.encoder.landmark_proj) {
    keys = tables.projected;
    ASSIGN_OR_RETURN(const DeviceRows operand,
                     ctx.AsOperand(kRounded, tables.landmarks, count * d));
    RETURN_IF_ERROR(ctx.Product(*ctx.weights.encoder.landmark_proj, operand, count, keys));
    RETURN_IF_ERROR(ctx.device.Run(kernels::RmsNormOp{.sizes = {.rows = count, .width = d_r},
                                                      .x = keys,
                                                      .eps = ctx.config.norm_eps,
                                                      .y = {keys}}));
  }
  std::vector<Bf16> stored(static_cast<size_t>(tables.rows * d + count * d_r));
  const auto bytes = static_cast<int64_t>(stored.size() * sizeof(Bf16));
  ASSIGN_OR_RETURN(void* const memory, ctx.Bytes(kRounded, bytes));
  Bf16* const rounded = static_cast<Bf16*>(memory);
  RETURN_IF_ERROR(ctx.device.Run(kernels::ConvertToBf16Op{tables.x, tables.rows * d, rounded}));
  RETURN_IF_ERROR(
      ctx.device.Run(kernels::ConvertToBf16Op{keys, count * d_r, rounded + tables.rows * d}));
  RETURN_IF_ERROR(ctx.device.Download(rounded, bytes, stored.data()));

  std::vector<EncodedChunk> chunks;
  const int64_t first_token = ctx.config.landmark_at == LandmarkAt::kEnd ? 0 : 1;
  const Bf16* rows = stored.data();
  const Bf16* key = rows + tables.rows * d;
  for (const DeviceBlock& block : blocks) {
    const Bf16* const states = rows + first_token * d;
    chunks.push_back({.landmark_key = {key, key + d_r},
                      .states = {states, states + (block.rows() - 1) * d},
                      .tokens = {},
                      .rows = static_cast<int>(block.rows() - 1)});
    rows += block.rows() * d;
    key += d_r;
  }
  return chunks;
}

}  // namespace

absl::StatusOr<std::vector<EncodedChunk>> DeviceModel::EncodeChunks(
    std::span<const DeviceBlock> blocks) {
  if (blocks.empty()) return std::vector<EncodedChunk>();
  DeviceContext& ctx = *ctx_;
  ASSIGN_OR_RETURN(const EncoderTables tables, BuildEncoder(ctx, blocks));
  float* const x = tables.x;
  RETURN_IF_ERROR(tables.gather.Run(ctx.device, tables.tables));
  RETURN_IF_ERROR(PlaceLandmarks(ctx, tables));
  RETURN_IF_ERROR(
      ctx.RmsNorm(x, tables.rows, ctx.weights.encoder.in_norm, ctx.config.norm_eps, {x}));
  for (const DeviceEncoderLayer& layer : ctx.weights.encoder.layers) {
    RETURN_IF_ERROR(EncodeLayer(ctx, layer, tables));
  }
  RETURN_IF_ERROR(
      ctx.RmsNorm(x, tables.rows, ctx.weights.encoder.out_norm, ctx.config.encoder_norm_eps, {x}));
  return TakeChunks(ctx, blocks, tables);
}

}  // namespace recollect::model
