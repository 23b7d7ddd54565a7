// GCA by products of pairs of bf16 numbers (AMX or AVX512-BF16): each chunk is a span of range
// attention (kernels/range_attention/range_attention_bf16.h), which is added with its retrieval
// weight. A row has the same bits in any company, because it has them in each span.
#pragma once

#include <cstdint>

#include "kernels/gca/gca.h"
#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::kernels {

// The shape of a chunk's attention, for PairsCanAttend and PairCodeOf.
inline RangeShape ShapeOfChunk(const GcaShape& shape) {
  return {shape.heads, shape.kv_heads, shape.head_dim};
}

// Computes GcaOfBf16 by a given code, where PairsCanAttend(ShapeOfChunk(shape)).
void GcaByPairs(OpContext& ctx, const PairCode& code, const GcaShape& shape, const float* q,
                int64_t rows, const MemoryView* chunks, const float* weights, int64_t count,
                float* out);

}  // namespace recollect::kernels
