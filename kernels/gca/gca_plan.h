// Grouped Cross-Attention (gca.h) on a device, for a batch of groups of rows, each with its own
// chunks: the rows of a decode step of many sessions, or the blocks of a prefill.
//   s_j = q·K_j / sqrt(head_dim);  p_j = exp(s_j) / (1 + Σ_i exp(s_i));  out = Σ_e w_e Σ_j p_j V_j
// (without the 1 where the shape is not off by one) from Bf16 memory, chunks in the order given; no
// chunks: out = 0. q fp32: all in fp32. q Bf16: both products on tensor cores with fp32 sums, and
// exp(s_j) rounded to Bf16 in the second, not in the denominator. Chunk rows are read in place,
// through the views. A row's bits do not depend on the other rows, on its group as long as the
// chunks are the same, or on the plan's way; with q Bf16 they are those of one kind of device. No
// atomics.
//   plan = PlanGca(shape, sizes, DType::kBf16);
//   CheckGca(plan, groups, chunks);                     // host copies, before the upload
//   device.Run(GcaOp{plan, q, groups, count, chunks, weights, workspace, out});
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/gca/gca.h"

namespace recollect::kernels {

inline constexpr int kMaxGcaHeadDim = 128;   // a thread's registers and a block's shared memory
inline constexpr int kMaxGcaGroupRows = 64;  // 16 for each warp of a block

// Consecutive rows of q that see the same chunks with the same weights: the row of one session in a
// decode step, or the 64 rows of one block in a prefill.
struct GcaGroup {
  int64_t first_row = 0;
  int64_t first_chunk = 0;  // into the call's chunks and weights
  int32_t rows = 0;         // 1 to kMaxGcaGroupRows
  int32_t chunks = 0;       // 0 or more
};

// Sizes for which a graph is captured; it may be replayed with other groups within them.
struct GcaSizes {
  int64_t groups = 0;
  int64_t rows = 0;  // over all groups
  int32_t max_group_rows = 0;
  int32_t max_group_chunks = 0;
  friend bool operator==(const GcaSizes&, const GcaSizes&) = default;
};

struct GcaPlan {
  // By chunk: a thread block for each (group, head, chunk), whose outputs a second launch adds; for
  // few rows. By group: a block for each (group, head) goes through all chunks.
  enum class Strategy { kByChunk, kByGroup };
  GcaShape shape;
  GcaSizes sizes;
  DType q_dtype = DType::kFloat32;
  Strategy strategy = Strategy::kByGroup;
  float scale = 0;              // 1 / sqrt(head_dim), with q_dtype kBf16 times log2(e)
  int64_t workspace_bytes = 0;  // by chunk: fp32 [rows, max_group_chunks, heads, head_dim]
  friend bool operator==(const GcaPlan&, const GcaPlan&) = default;
};

// Plans the operation. `q_dtype` is q's number format and decides how products are computed:
// kFloat32 in fp32, kBf16 on tensor cores. Chooses the strategy by the rows per group; both give
// the same bits. INVALID_ARGUMENT for a shape that gca.h forbids, head_dim > kMaxGcaHeadDim,
// max_group_rows > kMaxGcaGroupRows, or negative sizes.
absl::StatusOr<GcaPlan> PlanGca(const GcaShape& shape, const GcaSizes& sizes, DType q_dtype);

// Plans with a given strategy, for tests and benchmarks.
absl::StatusOr<GcaPlan> PlanGca(const GcaShape& shape, const GcaSizes& sizes, DType q_dtype,
                                GcaPlan::Strategy strategy);

// Checks host copies before they are uploaded, since the device checks nothing: groups within the
// plan's sizes, rows and chunks within [0, sizes.rows) and [0, chunks.size()), no row in two
// groups, 1 to 64 rows a chunk. INVALID_ARGUMENT names the group or chunk.
absl::Status CheckGca(const GcaPlan& plan, std::span<const GcaGroup> groups,
                      std::span<const MemoryView> chunks);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done.
// MemoryView's pointers are device memory, too, at any address; multiples of 16 bytes with head_dim
// a multiple of 8 are read fastest. Launches depend on plan and group_count alone, so a captured
// graph can be replayed with other groups.
struct GcaOp {
  GcaPlan plan;
  const void* q = nullptr;             // [rows, heads, head_dim] in plan.q_dtype, dense
  const GcaGroup* groups = nullptr;    // [group_count]
  int64_t group_count = 0;             // at most plan.sizes.groups
  const MemoryView* chunks = nullptr;  // of all groups
  const float* weights = nullptr;      // one a chunk
  void* workspace = nullptr;           // plan.workspace_bytes, aligned to 4
  // fp32 [rows, heads, head_dim], dense, not overlapping q; rows of no group are not written.
  float* out = nullptr;
  friend bool operator==(const GcaOp&, const GcaOp&) = default;
};

}  // namespace recollect::kernels
