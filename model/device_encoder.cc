// The chunk encoder on a device (chunk_encoder.cc, design 2.3), over the rows of many chunks.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model/device_call.h"
#include "model/device_model.h"

namespace recollect::model {

using kernels::DeviceCopy;
using kernels::DeviceRows;

absl::StatusOr<std::vector<EncodedChunk>> DeviceModel::EncodeChunks(
    std::span<const DeviceBlock> blocks) {
  std::vector<EncodedChunk> chunks(blocks.size());
  if (blocks.empty()) return chunks;
  const int64_t d = config_.d, inner = config_.inner();
  const int64_t row_bytes = d * int64_t{sizeof(float)};
  const auto count = static_cast<int64_t>(blocks.size());
  const bool at_end = config_.landmark_at == LandmarkAt::kEnd;
  CallTables call;
  for (const DeviceBlock& block : blocks) call.rows += block.rows();
  ASSIGN_OR_RETURN(float* const x, Floats(kSum, call.rows * d));
  ASSIGN_OR_RETURN(float* const landmarks, Floats(kRows, count * d));
  ASSIGN_OR_RETURN(float* const carried, Floats(kState, count * d));
  const int64_t widest = std::max({3 * inner, 2 * config_.ffn, config_.d_r});
  ASSIGN_OR_RETURN(call.projected, Floats(kProjected, call.rows * widest));
  ASSIGN_OR_RETURN(call.attended, Floats(kAttended, call.rows * inner));
  ASSIGN_OR_RETURN(float* const keys, Floats(kKeys, call.rows * inner));
  ASSIGN_OR_RETURN(float* const values, Floats(kValues, call.rows * inner));

  std::vector<DeviceCopy> gather, lift, cls, place, split;
  std::vector<float> cosines, sines;
  std::vector<int64_t> positions;
  std::vector<kernels::RangeSet> sets;
  std::vector<kernels::KvSpan> parts;
  int64_t row = 0, most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const DeviceBlock& block = blocks[static_cast<size_t>(i)];
    const int64_t rows = block.rows();
    RECOLLECT_CHECK(rows >= 2 && rows <= config_.chunk_tokens + 1);
    float* const first = x + row * d;
    float* const landmark = at_end ? first + (rows - 1) * d : first;
    if (block.rows_before > 0)
      gather.push_back({block.before, first, block.rows_before * row_bytes});
    if (block.rows_here > 0) {
      gather.push_back({block.here, first + block.rows_before * d, block.rows_here * row_bytes});
    }
    lift.push_back({landmark, landmarks + i * d, row_bytes});
    cls.push_back({weights_.encoder.cls, carried + i * d, row_bytes});
    place.push_back({carried + i * d, landmark, row_bytes});
    kernels::RangeSet all;
    all.ranges[0] = {0, rows};
    for (int64_t r = 0; r < rows; ++r) {
      const float* const k = call.projected + (row + r) * 3 * inner + inner;
      const int64_t bytes = inner * int64_t{sizeof(float)};
      split.push_back({k, keys + (row + r) * inner, bytes});
      split.push_back({k + inner, values + (row + r) * inner, bytes});
      positions.push_back(r);
      sets.push_back(all);
      parts.push_back({keys + row * inner, values + row * inner});
      parts.resize(parts.size() + kernels::kMaxRanges - 1);
    }
    row += rows;
    most = std::max(most, rows);
  }
  AppendRopeFactors(ctx_, config_, config_.rope_base, positions, cosines, sines);
  call.cosines = call.tables.Add(cosines);
  call.sines = call.tables.Add(sines);
  MixerTables& mixer = call.mixers.emplace_back();
  mixer.appends = CopyTable::Add(call.tables, split);
  mixer.attentions.push_back({.sizes = {.rows = call.rows,
                                        .heads = config_.heads,
                                        .kv_heads = config_.heads,
                                        .head_dim = config_.head_dim,
                                        .max_entries = most},
                              .sets = call.tables.Add(sets),
                              .parts = call.tables.Add(parts)});
  const CopyTable gathers = CopyTable::Add(call.tables, gather);
  const CopyTable lifts = CopyTable::Add(call.tables, lift);
  const CopyTable classes = CopyTable::Add(call.tables, cls);
  const CopyTable places = CopyTable::Add(call.tables, place);
  RETURN_IF_ERROR(UploadTables(call.tables));

  RETURN_IF_ERROR(gathers.Run(device_, call.tables));
  if (config_.landmark_row == LandmarkRow::kCls) {
    // What stands for the landmark: the CLS row, and with encoder_carry what the landmark had read.
    RETURN_IF_ERROR(lifts.Run(device_, call.tables));
    RETURN_IF_ERROR(classes.Run(device_, call.tables));
    if (weights_.encoder.carry_proj) {
      ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, count * d));
      RETURN_IF_ERROR(device_.RmsNorm({.rows = count, .width = d}, landmarks, nullptr,
                                      config_.norm_eps, normed));
      RETURN_IF_ERROR(Product(weights_.encoder.carry_proj, normed, count, carried, /*add=*/true));
    }
    RETURN_IF_ERROR(places.Run(device_, call.tables));
  }
  const kernels::RowSizes sizes = {.rows = call.rows, .width = d};
  RETURN_IF_ERROR(device_.RmsNorm(sizes, x, weights_.encoder.in_norm, config_.norm_eps, {x}));
  for (const DeviceEncoderLayer& layer : weights_.encoder.layers) {
    RETURN_IF_ERROR(EncodeLayer(layer, call, x));
  }
  RETURN_IF_ERROR(
      device_.RmsNorm(sizes, x, weights_.encoder.out_norm, config_.encoder_norm_eps, {x}));

  // Landmark keys, then chunk states, as they are stored.
  RETURN_IF_ERROR(lifts.Run(device_, call.tables));
  const float* found = landmarks;
  if (weights_.encoder.landmark_proj) {
    float* const projected = call.projected;
    ASSIGN_OR_RETURN(const DeviceRows operand, AsOperand(kRounded, landmarks, count * d));
    RETURN_IF_ERROR(Product(weights_.encoder.landmark_proj, operand, count, projected));
    RETURN_IF_ERROR(device_.RmsNorm({.rows = count, .width = config_.d_r}, projected, nullptr,
                                    config_.norm_eps, {projected}));
    found = projected;
  }
  const int64_t key_count = count * config_.d_r, state_count = call.rows * d;
  ASSIGN_OR_RETURN(void* const memory,
                   Bytes(kRounded, (key_count + state_count) * int64_t{sizeof(Bf16)}));
  Bf16* const rounded = static_cast<Bf16*>(memory);
  RETURN_IF_ERROR(device_.ConvertToBf16(x, state_count, rounded));
  RETURN_IF_ERROR(device_.ConvertToBf16(found, key_count, rounded + state_count));
  std::vector<Bf16> stored(static_cast<size_t>(state_count + key_count));
  RETURN_IF_ERROR(
      device_.Download(rounded, static_cast<int64_t>(stored.size() * sizeof(Bf16)), stored.data()));
  const Bf16* states = stored.data();
  const Bf16* key = stored.data() + state_count;
  for (size_t i = 0; i < chunks.size(); ++i, key += config_.d_r) {
    const int64_t rows = blocks[i].rows();
    const Bf16* const tokens = at_end ? states : states + d;
    chunks[i].landmark_key.assign(key, key + config_.d_r);
    chunks[i].states.assign(tokens, tokens + (rows - 1) * d);
    chunks[i].rows = static_cast<int>(rows - 1);
    states += rows * d;
  }
  return chunks;
}

// x += attention of RMS(x) over all rows of a chunk, RoPE at the row's index; x += FFN(RMS(x)).
absl::Status DeviceModel::EncodeLayer(const DeviceEncoderLayer& weights, const CallTables& call,
                                      float* x) {
  const int64_t inner = config_.inner(), stride = 3 * inner, rows = call.rows;
  const float eps = config_.encoder_norm_eps;
  const RowsAttention& attention = call.mixers[0].attentions[0];
  ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, rows * config_.d));
  RETURN_IF_ERROR(
      device_.RmsNorm({.rows = rows, .width = config_.d}, x, weights.attn_norm, eps, normed));
  RETURN_IF_ERROR(Product(weights.attn_in_proj, normed, rows, call.projected));
  RETURN_IF_ERROR(device_.Rope(
      {.rows = rows, .width = config_.head_dim, .heads = 2 * config_.heads, .stride = stride},
      config_.rope_pairs, call.tables.At<float>(call.cosines), call.tables.At<float>(call.sines),
      call.projected));
  if (dtype_ == DType::kBf16) {
    RETURN_IF_ERROR(device_.RoundToBf16(call.projected, stride, rows, stride));
  }
  RETURN_IF_ERROR(call.mixers[0].appends.Run(device_, call.tables));
  RETURN_IF_ERROR(
      Attend(attention.sizes, {.q = call.projected,
                               .q_stride = stride,
                               .parts = call.tables.At<kernels::KvSpan>(attention.parts),
                               .parts_per_row = kernels::kMaxRanges,
                               .sets = call.tables.At<kernels::RangeSet>(attention.sets),
                               .out = call.attended}));
  ASSIGN_OR_RETURN(const DeviceRows operand, AsOperand(kRounded, call.attended, rows * inner));
  RETURN_IF_ERROR(Product(weights.attn_out_proj, operand, rows, x, /*add=*/true));
  return RunFfn(weights.ffn, config_.ffn_kind, eps, x, rows, x);
}

}  // namespace recollect::model
