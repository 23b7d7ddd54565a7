// What the tables of one call of a DeviceModel hold. Private to model/device_*.cc.
#ifndef RECOLLECT_MODEL_DEVICE_CALL_H_
#define RECOLLECT_MODEL_DEVICE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/rope.h"
#include "model/device_model.h"
#include "model/device_state.h"
#include "model/device_tables.h"

namespace recollect::model {

// Keys and values that some neighbouring rows share, in the number format of the products.
struct CachedRows {
  int64_t rows = 0;
  CacheParts parts = {};
};

// Some heads of neighbouring rows over their caches: range attention in fp32, tile attention in
// Bf16. Offsets are those of the tables.
struct RowsAttention {
  int64_t first_row = 0;
  int first_head = 0;
  int heads = 0;
  kernels::RangeAttentionSizes ranges = {};
  kernels::TileAttentionSizes tiles = {};
  int64_t sets_at = 0, parts_at = 0, tiles_at = 0;
  int64_t kv_stride = 0;  // of tile attention; entries of range attention are dense
  CopyTable places = {};
};

// Queries, keys and values [rows, inner] side by side, in the number format of the products.
struct QkvRows {
  std::byte* data = nullptr;
  int64_t stride = 0;  // numbers
  DType dtype = DType::kFloat32;

  void* At(int64_t row, int64_t column) const {
    return data + (row * stride + column) * kernels::BytesOf(dtype);
  }
};

struct DeviceModel::MixerTables {
  CopyTable moves, appends;
  kernels::GatedScanPlan scan;
  int64_t scans = 0;
  std::vector<RowsAttention> attentions;
};

struct GcaTables {
  kernels::GcaPlan plan;
  int64_t count = 0;  // of groups; 0: nobody reads
  int64_t groups = 0, chunks = 0, weights = 0;
};

struct DeviceModel::CallTables {
  int64_t rows = 0;
  float* projected = nullptr;  // where a mixer's first projection will lie
  QkvRows qkv;                 // part of that, or converted from there
  float* attended = nullptr;
  float* head_rows = nullptr;
  int64_t cosines = 0, sines = 0;
  std::vector<MixerTables> mixers;  // by layer
  GcaTables gca;
  DeviceTables tables;
  CacheCopies copies;  // of the layer that is being laid out; keeps memory that caches have left
};

struct DeviceModel::EncoderTables {
  int64_t rows = 0;  // of all chunks, landmarks among them
  int64_t chunks = 0;
  float* x = nullptr;          // [rows, d]
  float* landmarks = nullptr;  // [chunks, d]
  float* carried = nullptr;    // [chunks, d]: what stands for them
  float* projected = nullptr;
  QkvRows qkv;  // that, or converted from there
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

// Appends what RoPE turns rows at these positions by, [positions, head_dim / 2] each.
inline void AppendRopeFactors(kernels::OpContext& ctx, const ModelConfig& config, double base,
                              const std::vector<int64_t>& positions, std::vector<float>& cosines,
                              std::vector<float>& sines) {
  const size_t at = cosines.size();
  const size_t count = positions.size() * static_cast<size_t>(config.head_dim / 2);
  cosines.resize(at + count);
  sines.resize(at + count);
  kernels::RopeFactors(ctx, {.base = base, .pairs = config.rope_pairs}, positions, config.head_dim,
                       cosines.data() + at, sines.data() + at);
}

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_CALL_H_
