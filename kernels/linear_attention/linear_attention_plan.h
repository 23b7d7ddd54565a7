// Linear attention (linear_attention.h) on a device, for segments of many sequences: the rows of a
// decode step, or the slices of prefills. For each position, in order,
//   S = S + φ(k) vᵀ of the position that enters;   out = φ(q)ᵀ (S + S_0)
// in fp32. The caller passes φ(q) and φ(k), as on the CPU (FeaturesOp), and S, which is zeros for a
// fresh sequence and is kept and restored as it is.
//   plan = PlanLinearAttention({segments, {heads, kv_heads, head_dim}});
//   CheckLinearAttention(plan, segments);  // host copies, before the upload
//   device.Run(LinearAttentionOp{plan, segments, count, initial});
//
// Time is never cut: positions enter one after the other with one Fma each, and a read adds its
// features in an order that depends on head_dim alone. So a row has the same bits in any division
// of a sequence into calls, in any batch, from a prefill and from a decode step. What runs in
// parallel is sequences, key-value heads, columns of S and features; S is read and written once a
// call, and a chunk's products are not turned into matrix products, whose order would show in the
// bits.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/block/check_sizes.h"
#include "kernels/linear_attention/linear_attention.h"

namespace recollect::kernels {

inline constexpr int kMaxLinearHeadDim = 128;  // one thread per feature

// Consecutive rows of one sequence. Arrays are fp32 in device memory, at any multiple of 4 bytes.
// Before each of the last `entering` rows reads S, one position enters, in order. Outputs overlap
// nothing else.
struct LinearAttentionSegment {
  const float* q = nullptr;       // φ(q) [rows, heads, 2 head_dim]
  const float* keys = nullptr;    // φ(k) [entering, kv_heads, 2 head_dim], or null for none
  const float* values = nullptr;  // [entering, kv_heads, head_dim], or null for none
  float* state = nullptr;  // S [kv_heads, 2 head_dim, head_dim], read and updated, not shared
  float* out = nullptr;    // [rows, heads, head_dim]
  int64_t rows = 0;        // 0: nothing happens
  int64_t entering = 0;    // at most rows
};

// Sizes for which a graph is captured; it may be replayed with other segments within them.
struct LinearAttentionSizes {
  int64_t segments = 0;
  LinearAttentionShape shape;
  friend bool operator==(const LinearAttentionSizes&, const LinearAttentionSizes&) = default;
};

struct LinearAttentionPlan {
  LinearAttentionSizes sizes;
  int64_t tiles = 0;  // of columns of S; a thread block per (tile, segment, key-value head)
  int lanes = 0;      // threads that share a column's features
  int threads = 0;    // of a block
  friend bool operator==(const LinearAttentionPlan&, const LinearAttentionPlan&) = default;
};

// Plans the operation. INVALID_ARGUMENT when there are fewer than 0 segments or more than 65 535,
// heads, kv_heads or head_dim is less than 1, kv_heads does not divide heads, head_dim is odd or
// more than kMaxLinearHeadDim, or there are more heads than a launch can count (65 535).
absl::StatusOr<LinearAttentionPlan> PlanLinearAttention(const LinearAttentionSizes& sizes);

// Checks host copies before they are uploaded, since the device checks nothing: at most as many
// segments as planned and 2^30 rows and heads, no more entering than rows, no array missing.
// INVALID_ARGUMENT names the segment.
absl::Status CheckLinearAttention(const LinearAttentionPlan& plan,
                                  std::span<const LinearAttentionSegment> segments);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done; so
// is what the segments point to. Launches depend on plan and segment_count alone, so a captured
// graph can be replayed with other segments.
struct LinearAttentionOp {
  LinearAttentionPlan plan;
  const LinearAttentionSegment* segments = nullptr;  // [segment_count]
  int64_t segment_count = 0;                         // at most plan.sizes.segments
  const float* initial = nullptr;  // S_0 [heads, 2 head_dim, head_dim] fp32, or null (zero)
  friend bool operator==(const LinearAttentionOp&, const LinearAttentionOp&) = default;
};

// INVALID_ARGUMENT by CheckRows, or when width is more than kMaxLinearHeadDim.
absl::Status CheckFeatures(const RowSizes& sizes);

// features = φ(x * scale), not overlapping the inputs, of every head of every row, for queries and
// for keys, in fp32. A row's bits do not depend on the other rows, its place or its alignment;
// multiples of 16 bytes, with rows and heads a multiple of four numbers, are read and written
// fastest. A channel that is NaN makes all features of its head NaN for softmax, its own two for
// relu. Pointers are device memory, borrowed until the work is done.
struct FeaturesOp {
  FeatureMap map = FeatureMap::kSoftmax;
  RowSizes sizes;
  const float* x = nullptr;      // [rows, heads, width], rows sizes.stride floats apart
  const float* scale = nullptr;  // [width], one for all heads; null: all ones
  float* features = nullptr;     // [rows, heads, 2 width], dense
  friend bool operator==(const FeaturesOp&, const FeaturesOp&) = default;
};

}  // namespace recollect::kernels
