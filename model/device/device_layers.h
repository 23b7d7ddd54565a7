// The pieces of the network on a device, one file each. Private to model/device.
//
//   device_layers.cc             decoder layers of a call; FFN
//   device_mixer.cc              norm, projections and output gate around a mixer; the mixers are
//   device_gated_mixer.cc          RAT+ (design 2.2) and RAT: gated recurrence, attention
//   device_attention_mixer.cc      softmax attention over a window or everything
//   device_rattention_mixer.cc     the same, and linear attention over everything before the window
//   device_local_attention.cc    attention of rows over what their sequences keep
//   device_blocks.cc             the same where queries choose blocks
//   device_attention.cc          attention over keys and values anywhere
//   device_gca_layer.cc          Grouped Cross-Attention over retrieved chunks (design 2.5)
//   device_encoder.cc            chunk encoder (design 2.3)
//
// Tables hold the data that differs between sequences, and are uploaded together before the first
// layer runs. So each piece is first built, which adds its tables, and then run, which only queues
// operations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/rope/rope.h"
#include "model/device/device_context.h"
#include "model/device/device_model.h"
#include "model/device/device_state.h"
#include "model/device/device_tables.h"

namespace recollect::model {

// ---- Attention ---------------------------------------------------------------------------------

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
  void Add(const DeviceCache& cache, int64_t rows) {
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

// Attention of neighbouring rows by one of two kernels: range attention if caches are in fp32, tile
// attention if they are in Bf16. Offsets are into the tables.
struct RowsAttention {
  AttendedHeads heads = {};
  int64_t first_row = 0;
  kernels::RangeAttentionSizes ranges = {};
  kernels::TileAttentionSizes tiles = {};
  int64_t sets_at = 0, parts_at = 0, tiles_at = 0;
  int64_t kv_stride = 0;  // of tile attention; entries of range attention are dense
  CopyTable places = {};
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

// Adds tables of attention; entries of caches in Bf16 are `kv_stride` numbers apart.
RowsAttention BuildRows(const ModelConfig& config, const AttendedRows& attended,
                        const AttendedHeads& heads, int64_t kv_stride, DeviceTables& tables);
// Computes out[rows, heads, head_dim] = attention of queries of these rows and heads, dense.
// slopes: of ALiBi, or null.
absl::Status Attend(DeviceContext& ctx, const RowsAttention& attention, const DeviceTables& tables,
                    const QkvRows& qkv, const float* slopes, float* out);

// All heads of neighbouring rows, each with the blocks it chooses.
struct BlocksAttention {
  int64_t first_row = 0;
  kernels::BlockTopKPlan choose = {};
  kernels::RangeAttentionPlan attend = {};
  int64_t patterns_per_head = 0;
  int64_t rows_at = 0, patterns_at = 0, parts_at = 0;
};
absl::StatusOr<BlocksAttention> BuildBlocks(const DeviceContext& ctx, int layer,
                                            std::span<const DeviceSegment> runs, int64_t first_row,
                                            DeviceTables& tables);
absl::Status AttendBlocks(DeviceContext& ctx, const BlocksAttention& blocks,
                          const DeviceTables& tables, const QkvRows& qkv, float* out);

// The number of positions that share an angle of RoPE.
inline int64_t RopeStep(const MixerConfig& mixer) { return std::max<int64_t>(mixer.chunk, 1); }

// The factors of RoPE for some rows.
struct RopeTables {
  int64_t step = 0;  // positions that share an angle; 0: keys and queries stay as they are
  int64_t cosines = 0, sines = 0;
};

// Appends RoPE's factors for rows at these positions, [positions, head_dim / 2] each.
void AppendRopeFactors(DeviceContext& ctx, double base, int64_t step,
                       const std::vector<int64_t>& positions, std::vector<float>& cosines,
                       std::vector<float>& sines);

// ---- Decoder layers ----------------------------------------------------------------------------

// A call of RunLayers. The memory that all layers use has the size that the largest layer needs, so
// that its address is known before the first layer runs.
struct DeviceCall {
  std::vector<DeviceSegment> runs;  // a sequence's segments in one
  int64_t rows = 0;
  float* projected = nullptr;      // output of a mixer's first projection
  std::byte* converted = nullptr;  // its queries, keys and values in Bf16
  float* attended = nullptr;       // [rows, heads, head_dim]
  float* some_heads = nullptr;
  std::map<int64_t, RopeTables> ropes;  // by step
  DeviceTables tables;
  CacheCopies copies;  // of the layer that is being built; keeps memory that caches replaced
};

// Queues operations. Borrows its call and context.
using RunRows = std::function<absl::Status()>;

// Builds layer `layer`'s mixer of call.runs, whose rows become part of their sequences. The
// returned function runs on call.projected, the output of in_proj, which it may change, and writes
// call.attended.
using BuildMixer = absl::StatusOr<RunRows>(DeviceContext& ctx, int layer, DeviceCall& call);
BuildMixer BuildRatPlus, BuildRat, BuildAttention, BuildRattention;

// Returns the width of a row of a mixer's first projection; RAT's shared heads are written out.
int64_t ProjectedWidth(const ModelConfig& config, const MixerConfig& mixer);

// Queries, keys and values of a mixer's rows, and the copies that append them to the caches.
struct MixerRows {
  int layer = 0;
  int kv_heads = 0;
  QkvRows fp32 = {};    // in call.projected
  QkvRows bf16 = {};    // converted from fp32, if `rounds`
  bool rounds = false;  // whether a cache is in Bf16
  RopeTables rope = {};
  CopyTable moves = {}, raw = {}, appends = {};

  const QkvRows& In(DType dtype) const { return dtype == DType::kBf16 ? bf16 : fp32; }
};
// Appends the rows, whose queries begin at column `first` of call.projected.
absl::StatusOr<MixerRows> AppendRows(DeviceContext& ctx, int layer, int64_t first, int kv_heads,
                                     DeviceCall& call);
// Prepares queries and keys for the softmax: applies RoPE, then the norms by head, as the layer has
// them; converts q, k and v to the caches' number format, and copies keys and values into the
// caches.
absl::Status PlaceRows(DeviceContext& ctx, const MixerRows& rows, const DeviceCall& call);

// The attention of a layer's rows to the positions that their sequences keep.
struct LocalAttention {
  kernels::BlockBoundsSizes bounds;  // of blocks that have become whole
  int64_t bounds_at = 0;
  std::vector<RowsAttention> attentions;
  std::vector<BlocksAttention> choosing;
};
// REQUIRES: the rows are appended.
absl::StatusOr<LocalAttention> BuildLocalAttention(const DeviceContext& ctx, const MixerRows& rows,
                                                   DeviceCall& call);
// Writes call.attended.
absl::Status AttendLocal(DeviceContext& ctx, const LocalAttention& attention, const MixerRows& rows,
                         const DeviceCall& call);

// Returns the function that builds a mixer of this kind.
BuildMixer* BuildOf(MixerKind kind);
// Computes h += mixer(RMS(h)) with the function that BuildMixer returned.
absl::Status RunMixer(DeviceContext& ctx, int layer, const RunRows& run, const DeviceCall& call,
                      float* h);

struct GcaTables {
  kernels::GcaPlan plan;
  int64_t count = 0;  // of groups; 0: no row reads memory
  int64_t groups = 0, weights = 0;
  std::vector<int64_t> chunks = {};  // for each layer whose K, V they have
};
absl::StatusOr<GcaTables> BuildGca(const DeviceContext& ctx,
                                   std::span<const DeviceSegment> segments, DeviceCall& call);
// Computes sum += GCA(RMS(a)). Rows that read nothing add zeros.
absl::Status RunGca(DeviceContext& ctx, const DeviceGca& weights, const GcaTables& gca,
                    const DeviceCall& call, const float* a, float* sum);

// Computes h += FFN(RMS(x)).
absl::Status RunFfn(DeviceContext& ctx, const DeviceFfn& weights, FfnKind kind, float eps,
                    const float* x, int64_t rows, float* h);

}  // namespace recollect::model
