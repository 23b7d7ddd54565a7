// Tables of one call of a DeviceModel. Private to model/device_*.cc.
#ifndef RECOLLECT_MODEL_DEVICE_DEVICE_CALL_H_
#define RECOLLECT_MODEL_DEVICE_DEVICE_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/rope/rope.h"
#include "model/device/device_model.h"
#include "model/device/device_state.h"
#include "model/device/device_tables.h"

namespace recollect::model {

// Keys and values that some neighbouring rows share, in the format of AttendedHeads.
struct CachedRows {
  int64_t rows = 0;
  CacheParts parts = {};
};

// Neighbouring rows and the entries that each attends to.
struct AttendedRows {
  std::vector<CachedRows> cached = {};
  std::vector<kernels::RangeSet> sets = {};  // of each row

  // Adds the `rows` latest positions of a cache.
  template <typename Cache>
  void Add(const Cache& cache, int64_t rows) {
    cached.push_back({.rows = rows, .parts = cache.parts()});
    for (int64_t position = cache.length() - rows; position < cache.length(); ++position) {
      sets.push_back(cache.Ranges(position));
    }
  }
};

// Neighbouring query heads and the key-value heads that they read.
struct AttendedHeads {
  DType dtype = DType::kFloat32;  // of the caches
  int first = 0;
  int heads = 0;
  int kv_heads = 0;
};

// For either kernel: range attention if caches are in fp32, tile attention if they are in Bf16.
// Offsets are into the tables.
struct RowsAttention {
  AttendedHeads heads = {};
  int64_t first_row = 0;
  kernels::RangeAttentionSizes ranges = {};
  kernels::TileAttentionSizes tiles = {};
  int64_t sets_at = 0, parts_at = 0, tiles_at = 0;
  int64_t kv_stride = 0;  // of tile attention; entries of range attention are dense
  CopyTable places = {};
};

// All heads of neighbouring rows, each with the blocks it chooses.
struct BlocksAttention {
  int64_t first_row = 0;
  kernels::BlockTopKPlan choose = {};
  kernels::RangeAttentionPlan attend = {};
  int64_t patterns_per_head = 0;
  int64_t rows_at = 0, patterns_at = 0, parts_at = 0;
};

// Queries, keys and values side by side in each row, in the number format of a cache.
struct QkvRows {
  std::byte* data = nullptr;
  int64_t stride = 0;  // numbers
  DType dtype = DType::kFloat32;

  void* At(int64_t row, int64_t column) const {
    return data + (row * stride + column) * kernels::BytesOf(dtype);
  }
  float* Floats(int64_t row, int64_t column) const {
    return reinterpret_cast<float*>(data) + row * stride + column;
  }
};

// The factors of RoPE for the rows of a call.
struct RopeTables {
  int64_t step = 0;  // positions that share an angle
  int64_t cosines = 0, sines = 0;
};

// The linear branch of RAttention.
struct LinearTables {
  kernels::LinearAttentionPlan plan = {};
  int64_t segments_at = 0;
  CopyTable leaving = {};  // raw keys of positions that enter S, to `raw`
  int64_t left = 0;        // how many
  float *query_features = nullptr, *key_features = nullptr, *raw = nullptr;
  float* linear = nullptr;
};

struct DeviceModel::MixerTables {
  int kv_heads = 0;
  QkvRows fp32;          // in the rows that the first projection gives
  QkvRows bf16;          // converted from fp32, if `rounds`
  bool rounds = false;   // whether a cache is in Bf16
  RopeTables rope = {};  // step 0: keys and queries stay as they are
  CopyTable moves = {}, raw = {}, appends = {};
  kernels::BlockBoundsSizes bounds = {};
  int64_t bounds_at = 0;
  kernels::GatedScanPlan scan = {};
  int64_t scans_at = 0;
  std::vector<RowsAttention> attentions = {};
  std::vector<BlocksAttention> choosing = {};
  LinearTables linear = {};

  const QkvRows& In(DType dtype) const { return dtype == DType::kBf16 ? bf16 : fp32; }
};

struct GcaTables {
  kernels::GcaPlan plan;
  int64_t count = 0;  // of groups; 0: no row reads memory
  int64_t groups = 0, chunks = 0, weights = 0;
};

struct DeviceModel::CallTables {
  int64_t rows = 0;
  float* projected = nullptr;      // output of a mixer's first projection
  std::byte* converted = nullptr;  // its queries, keys and values in Bf16
  float* attended = nullptr;
  float* some_heads = nullptr;
  std::map<int64_t, RopeTables> ropes;  // by step
  std::vector<MixerTables> mixers;      // by layer
  GcaTables gca;
  DeviceTables tables;
  CacheCopies copies;  // of the layer that is being laid out; keeps memory that caches replaced
};

struct DeviceModel::EncoderTables {
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

// The number of positions that share an angle of RoPE.
inline int64_t StepOf(const MixerConfig& mixer) { return std::max<int64_t>(mixer.chunk, 1); }

// Appends RoPE's factors for rows at these positions, [positions, head_dim / 2] each.
inline void AppendRopeFactors(kernels::OpContext& ctx, const ModelConfig& config, double base,
                              int64_t step, const std::vector<int64_t>& positions,
                              std::vector<float>& cosines, std::vector<float>& sines) {
  const size_t at = cosines.size();
  const size_t count = positions.size() * static_cast<size_t>(config.head_dim / 2);
  cosines.resize(at + count);
  sines.resize(at + count);
  kernels::RopeFactors(ctx, {.base = base, .pairs = config.rope_pairs, .step = step}, positions,
                       config.head_dim, cosines.data() + at, sines.data() + at);
}

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_DEVICE_CALL_H_
