// A reference implementation of every op: scalar, summed in double, without blocking. It documents
// what the fast implementations compute, and they are tested against it. Contracts are those of the
// ops' own headers.
#ifndef RECOLLECT_KERNELS_CPU_REFERENCE_H_
#define RECOLLECT_KERNELS_CPU_REFERENCE_H_

#include <array>
#include <cstdint>
#include <span>

#include "base/bf16.h"
#include "kernels/cpu/op_context.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gca/gca.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"

namespace recollect::kernels::reference {

void RmsNorm(OpContext& ctx, const float* x, const float* gain, float eps, int64_t rows,
             int64_t width, float* y);
void SwiGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y);
void GeGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y);
void Gelu(OpContext& ctx, const float* x, int64_t count, float* y);
float LogSumExp(OpContext& ctx, const float* x, int64_t count);
void SigmoidGate(OpContext& ctx, const float* gate, int64_t gate_stride, const float* x,
                 int64_t rows, int64_t width, float* y);
void Add(OpContext& ctx, const float* x, int64_t count, float* y);
void RoundToBf16(OpContext& ctx, float* x, int64_t count);
void Rope(OpContext& ctx, const RopeAngles& angles, int64_t first_position, int64_t rows,
          int64_t row_stride, int heads, int head_dim, float* x);
void GatedScan(OpContext& ctx, const float* z, const float* bias, const float* x, int64_t stride,
               int64_t rows, int64_t channels, float* state, float* y, int64_t y_stride);
void ChunkedGatedScan(OpContext& ctx, int64_t first, int64_t chunk, const float* z,
                      const float* bias, const float* x, int64_t stride, int64_t rows,
                      int64_t channels, float* state, float* y, int64_t y_stride);
void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                    float* out);
void Features(OpContext& ctx, FeatureMap map, const float* x, int64_t x_stride, int64_t rows,
              int heads, int head_dim, const float* scale, float* features);
void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out);
void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         std::span<const MemoryView> chunks, std::span<const float> weights, float* out);
void BlockScores(OpContext& ctx, const float* q, int64_t width, const float* low, const float* high,
                 int64_t stride, int64_t blocks, float* scores);
void LandmarkScores(const float* query, int64_t width, const Bf16* keys, int64_t count,
                    float* scores);

}  // namespace recollect::kernels::reference

#endif  // RECOLLECT_KERNELS_CPU_REFERENCE_H_
