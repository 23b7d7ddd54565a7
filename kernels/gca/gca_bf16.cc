#include "kernels/gca/gca_bf16.h"

#include <algorithm>

namespace recollect::kernels {
#if defined(RECOLLECT_SIMD)
namespace {

constexpr ScratchName kSums;

// Arguments of the op.
struct Op {
  const PairCode& code;
  const GcaShape& shape;
  const float* q;
  const MemoryView* chunks;
  const float* weights;
  int64_t count;
  float* out;

  int64_t group() const { return shape.heads / shape.kv_heads; }
  int64_t width() const { return int64_t{shape.heads} * shape.head_dim; }
};

// Queries [begin, end) of a key-value head, numbered as in SpanCall.
struct Queries {
  int kv_head;
  int64_t begin, end;
};

void SumChunk(OpContext& ctx, const Op& op, const Queries& queries, const MemoryView& chunk,
              float* sums) {
  const RangeShape shape = ShapeOfChunk(op.shape);
  const Bf16KvSpan part{chunk.keys, chunk.values, 0};
  const int64_t bounds[] = {0, chunk.rows};
  op.code.attend(ctx,
                 {.shape = &shape,
                  .q = op.q,
                  .q_stride = op.width(),
                  .kv_head = queries.kv_head,
                  .begin = queries.begin,
                  .end = queries.end,
                  .part = &part,
                  .bounds = bounds,  // the same for all rows
                  .bounds_stride = 0,
                  .span = 0},
                 sums);
}

// Adds what the queries have summed in one chunk.
void AddChunk(const Op& op, const Queries& queries, const float* sums, float weight) {
  const int dim = op.shape.head_dim;
  const int64_t group = op.group();
  for (int64_t begin = queries.begin; begin < queries.end; begin += kMergedQueries) {
    const int64_t end = std::min(begin + kMergedQueries, queries.end);
    float* out[kMergedQueries];
    for (int64_t i = begin; i < end; ++i) {
      out[i - begin] =
          op.out + i / group * op.width() + (queries.kv_head * group + i % group) * dim;
    }
    avx512::AddSpan({.head_dim = dim,
                     .sums = sums + (begin - queries.begin) * SpanSumsFloats(dim),
                     .queries = static_cast<int>(end - begin),
                     .spans = 1,
                     .stride = 0},
                    op.shape.off_by_one, weight, out);
  }
}

}  // namespace

void GcaByPairs(OpContext& ctx, const PairCode& code, const GcaShape& shape, const float* q,
                int64_t rows, const MemoryView* chunks, const float* weights, int64_t count,
                float* out) {
  const Op op{code, shape, q, chunks, weights, count, out};
  const int64_t queries = rows * op.group();
  std::fill_n(out, rows * op.width(), 0.0f);
  // Codes write sums of a multiple of their step, which divides this.
  float* sums = ctx.Floats(kSums, code.most_queries * SpanSumsFloats(shape.head_dim));
  for (int64_t begin = 0; begin < queries; begin += code.most_queries) {
    for (int kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      const Queries some{kv_head, begin, std::min(begin + code.most_queries, queries)};
      for (int64_t e = 0; e < count; ++e) {
        SumChunk(ctx, op, some, chunks[e], sums);
        AddChunk(op, some, sums, weights[e]);
      }
    }
  }
}
#endif

}  // namespace recollect::kernels
