// The vector implementations, declared once per instruction set. Contracts are those of the ops'
// own headers; arguments are plain pointers (see simd.h for why).
#ifndef RECOLLECT_KERNELS_CPU_SIMD_OPS_H_
#define RECOLLECT_KERNELS_CPU_SIMD_OPS_H_

#include <stdint.h>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

struct KvSpan;
struct RangeShape;
struct MemoryView;
struct GcaShape;
struct LinearAttentionShape;
struct EnteringRows;

#define RECOLLECT_DECLARE_SIMD_OPS(isa)                                                            \
  namespace isa {                                                                                  \
  void ConvertToBf16(const float* x, int64_t count, uint16_t* y);                                  \
  void ConvertToFloat(const uint16_t* x, int64_t count, float* y);                                 \
  void RmsNorm(OpContext& ctx, const float* x, const float* gain, float eps, int64_t rows,         \
               int64_t width, float* y);                                                           \
  void SwiGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y);              \
  void GeGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y);               \
  void Gelu(OpContext& ctx, const float* x, int64_t count, float* y);                              \
  void SigmoidGate(OpContext& ctx, const float* gate, int64_t gate_stride, const float* x,         \
                   int64_t rows, int64_t width, float* y);                                         \
  float LogSumExp(OpContext& ctx, const float* x, int64_t count);                                  \
  void Add(OpContext& ctx, const float* x, int64_t count, float* y);                               \
  void RoundToBf16(OpContext& ctx, float* x, int64_t count);                                       \
  void RotateHalves(const float* cosines, const float* sines, int heads, int head_dim,             \
                    float* row);                                                                   \
  void RotatePairs(const float* cosines, const float* sines, int heads, int head_dim, float* row); \
  void GatedScan(OpContext& ctx, const float* z, const float* bias, const float* x,                \
                 int64_t stride, int64_t rows, int64_t channels, float* state, float* y,           \
                 int64_t y_stride);                                                                \
  void RangeAttentionRows(OpContext& ctx, const RangeShape& shape, const float* q,                 \
                          int64_t q_stride, int64_t rows, const KvSpan* parts,                     \
                          const int64_t* bounds, float* out);                                      \
  void FeatureRows(bool softmax, const float* x, int64_t x_stride, int64_t rows, int heads,        \
                   int head_dim, const float* scale, float* features);                             \
  void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,          \
                       int64_t rows, const EnteringRows& entering, const float* initial,           \
                       float* state, float* out);                                                  \
  void GcaRows(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,                \
               const MemoryView* chunks, const float* weights, int64_t count, float* out);         \
  void BlockScores(const float* q, int64_t width, const float* low, const float* high,             \
                   int64_t stride, int64_t blocks, float* scores);                                 \
  void GemmPanels(const float* panels, int64_t n, int64_t k, const float* x, int64_t rows,         \
                  float* y);                                                                       \
  void LandmarkScores(const float* query, int64_t width, const uint16_t* keys, int64_t count,      \
                      float* scores);                                                              \
  }
RECOLLECT_DECLARE_SIMD_OPS(avx2)
RECOLLECT_DECLARE_SIMD_OPS(avx512)
#undef RECOLLECT_DECLARE_SIMD_OPS

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CPU_SIMD_OPS_H_
