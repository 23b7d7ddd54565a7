// Linear attention over a state of fixed size, the residual branch of RAttention (eq. 4 of its
// paper, without denominator and decay). For each position, in order:
//   S = S + φ(k) vᵀ of the position that enters;   out = φ(q)ᵀ (S + S_0)
// S [2 head_dim, head_dim] a key-value head in fp32. Query head h reads key-value head
// floor(h kv_heads / heads). Positions are processed one after the other and each sum has a fixed
// order, so any division of a sequence into calls gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// The feature map φ of the channels y of one head; it gives twice as many numbers.
enum class FeatureMap {
  kSoftmax,  // softmax(y), softmax(-y)
  kRelu,     // max(y, 0), max(-y, 0)
};

// features[rows, heads, 2 head_dim] = φ(x * scale), dense; x[rows, heads, head_dim], rows
// `x_stride` floats apart; scale[head_dim] or null (all ones).
RECOLLECT_CPU_OP(Features,
                 void(OpContext& ctx, FeatureMap map, const float* x, int64_t x_stride,
                      int64_t rows, int heads, int head_dim, const float* scale, float* features));

struct LinearAttentionShape {
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;  // even
  friend bool operator==(const LinearAttentionShape&, const LinearAttentionShape&) = default;
};

// Positions that enter S: φ(k) [count, kv_heads, 2 head_dim] and v [count, kv_heads, head_dim].
struct EnteringRows {
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t count = 0;
};

// q: φ(q) [rows, heads, 2 head_dim]. Before each of the last entering.count <= rows rows reads S,
// one position enters, in order. state[kv_heads, 2 head_dim, head_dim] is read and updated.
// initial: S_0 [heads, 2 head_dim, head_dim] or null (zero). out[rows, heads, head_dim].
void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out);

}  // namespace recollect::kernels
