// Grouped Cross-Attention (DRT paper; design 2.5): each query row attends inside every selected
// chunk on its own, with softmax-off-by-one, and the chunks' outputs are summed with the retrieval
// weights.
//   s_j = q·K_j / sqrt(head_dim);  p_j = exp(s_j) / (1 + Σ_i exp(s_i));  out = Σ_e w_e Σ_j p_j V_j
// Computed stably: with m = max(0, max_j s_j) the denominator is exp(-m) + Σ exp(s_i - m). Chunks
// are summed in the order given. This is not a merge of parts of one softmax. No chunks: out = 0.
// The 1 stands for an additional row of zeros in K and in V; a shape that is not off by one omits
// it (DRT as published with chunks of 64): p is then the ordinary softmax over the chunk's rows.
#pragma once

#include <cstdint>

#include "base/numeric/bf16.h"
#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Memory K and V of one chunk, each [rows, kv_heads, head_dim] bf16, dense, borrowed. 1 <= rows
// <= 64.
struct MemoryView {
  const Bf16* keys = nullptr;
  const Bf16* values = nullptr;
  int rows = 0;
};

struct GcaShape {
  int heads = 0;
  int kv_heads = 0;  // divides heads; head h reads kv head h * kv_heads / heads
  int head_dim = 0;
  bool off_by_one = true;
  friend bool operator==(const GcaShape&, const GcaShape&) = default;
};

// q[rows, heads, head_dim] fp32, dense; chunks[count]; weights[count]; out like q, not overlapping
// it.
void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         const MemoryView* chunks, const float* weights, int64_t count, float* out);

// Computes the same of a q that is rounded to bf16. With AMX and heads of 64 or 128, each p is
// rounded to bf16 before it meets a value; elsewhere the bits are those of Gca.
void GcaOfBf16(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
               const MemoryView* chunks, const float* weights, int64_t count, float* out);

// Lists for the team of `ctx`, if there is one, the keys and values that those who serve read for a
// row (kernels/cpu/read_ahead.h).
void ReadChunksSoon(OpContext& ctx, const GcaShape& shape, const MemoryView* chunks, int64_t count);

}  // namespace recollect::kernels
