#include "kernels/cpu/attention_simd.h"
#include "kernels/gca/gca.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr ScratchName kKeys, kValues;
constexpr int kMaxMemoryRows = 64;
constexpr int kScoreStride = kMaxMemoryRows;
constexpr int kValueStep = 16;
// From this many rows on it pays to widen a chunk once and read it many times.
constexpr int64_t kWidenFromRows = 4;

// Rows [rows][dim] of one head out of bf16 rows `stride` apart.
void Widen(const uint16_t* from, int64_t stride, int rows, int dim, float* to) {
  for (int j = 0; j < rows; ++j, to += dim) {
    const uint16_t* row = from + j * stride;
    int d = 0;
    for (; d + kLanes <= dim; d += kLanes) Store(to + d, LoadBf16(row + d));
    if (d < dim) StoreFirst(to + d, LoadBf16First(row + d, dim - d), dim - d);
  }
}

// Adds one chunk's output for one head of at most kRowBlock rows, `stride` floats apart in q and
// out. `least` is the score of the row of zeros, 0, or -inf where there is none.
template <int kDim, typename Element>
void ChunkToRows(const float* q, int64_t stride, int rows, int dim, const Element* keys,
                 const Element* values, int64_t memory_stride, int memory_rows, float least,
                 float weight, float* out) {
  alignas(64) float scores[kRowBlock * kScoreStride];
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  for (int j = 0; j < memory_rows; j += kLanes) {
    const int count = memory_rows - j < kLanes ? memory_rows - j : kLanes;
    const Element* group = keys + j * memory_stride;
    int r = 0;
    if constexpr (kDim > 0) {
      for (; r + 2 <= rows; r += 2) {
        const float* const two[] = {q + r * stride, q + (r + 1) * stride};
        Vec dots[2];
        DotGroups<kDim, 2>(two, group, memory_stride, count, dots);
        Store(scores + r * kScoreStride + j, Mul(dots[0], Set(scale)));
        Store(scores + (r + 1) * kScoreStride + j, Mul(dots[1], Set(scale)));
      }
    }
    for (; r < rows; ++r) {
      const Vec dots = DotGroup<kDim>(q + r * stride, group, memory_stride, count, dim);
      Store(scores + r * kScoreStride + j, Mul(dots, Set(scale)));
    }
  }
  for (int r = 0; r < rows; ++r) {
    float* row = scores + r * kScoreStride;
    const float shift = MaxScore(row, memory_rows, least);
    const float sum = ExpAndSum(row, memory_rows, shift);
    alignas(64) float one[kLanes];
    Store(one, Exp(Set(least - shift)));
    Scale(row, memory_rows, weight / (one[0] + sum));
  }
  for (int j = 0; j < memory_rows; j += kValueStep) {
    const int count = memory_rows - j < kValueStep ? memory_rows - j : kValueStep;
    const Element* group = values + j * memory_stride;
    int r = 0;
    if constexpr (kDim > 0) {
      for (; r + 3 <= rows; r += 3) {
        const float* const weights[] = {scores + r * kScoreStride + j,
                                        scores + (r + 1) * kScoreStride + j,
                                        scores + (r + 2) * kScoreStride + j};
        float* const three[] = {out + r * stride, out + (r + 1) * stride, out + (r + 2) * stride};
        AddWeightedTo<kDim, 3>(weights, group, memory_stride, count, three);
      }
    }
    for (; r < rows; ++r) {
      AddWeighted<kDim>(scores + r * kScoreStride + j, group, memory_stride, count,
                        out + r * stride, dim);
    }
  }
}

}  // namespace

void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         const MemoryView* chunks, const float* weights, int64_t count, float* out) {
  const int dim = shape.head_dim;
  const int64_t width = static_cast<int64_t>(shape.heads) * dim;
  const int64_t memory_width = static_cast<int64_t>(shape.kv_heads) * dim;
  for (int64_t i = 0; i < rows * width; ++i) out[i] = 0;
  if (rows == 0) return;  // q and out may be null, and no offset from that is defined
  float* keys = ctx.Floats(kKeys, kMaxMemoryRows * dim);
  float* values = ctx.Floats(kValues, kMaxMemoryRows * dim);
  const float least = shape.off_by_one ? 0.0f : -__builtin_inff();
  auto* narrow = dim == 64 ? &ChunkToRows<64, uint16_t> : &ChunkToRows<0, uint16_t>;
  auto* wide = dim == 64 ? &ChunkToRows<64, float> : &ChunkToRows<0, float>;
  for (int64_t e = 0; e < count; ++e) {
    const MemoryView& chunk = chunks[e];
    int widened = -1;
    for (int h = 0; h < shape.heads; ++h) {
      const int kv_head = h * shape.kv_heads / shape.heads;
      const auto* chunk_keys = reinterpret_cast<const uint16_t*>(chunk.keys + kv_head * dim);
      const auto* chunk_values = reinterpret_cast<const uint16_t*>(chunk.values + kv_head * dim);
      const int64_t head = static_cast<int64_t>(h) * dim;
      if (rows < kWidenFromRows) {
        narrow(q + head, width, static_cast<int>(rows), dim, chunk_keys, chunk_values, memory_width,
               chunk.rows, least, weights[e], out + head);
        continue;
      }
      if (kv_head != widened) {
        Widen(chunk_keys, memory_width, chunk.rows, dim, keys);
        Widen(chunk_values, memory_width, chunk.rows, dim, values);
        widened = kv_head;
      }
      for (int64_t r = 0; r < rows; r += kRowBlock) {
        const int block = static_cast<int>(rows - r < kRowBlock ? rows - r : kRowBlock);
        const int64_t at = r * width + head;
        wide(q + at, width, block, dim, keys, values, dim, chunk.rows, least, weights[e], out + at);
      }
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
