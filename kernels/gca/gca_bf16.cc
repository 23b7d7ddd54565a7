#include "kernels/gca/gca_bf16.h"

#include <algorithm>

#include "base/numeric/round_up.h"
#include "kernels/cpu/op_team.h"

namespace recollect::kernels {
#if defined(RECOLLECT_SIMD)
namespace {

constexpr ScratchName kSums, kSumsOfChunks;

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

// Some queries of a key-value head read all chunks.
void ReadChunks(OpContext& own, const Op& op, const Queries& queries) {
  // Codes write sums of a multiple of their step, which divides this.
  float* sums = own.Floats(kSums, kMaxQueries * SpanSumsFloats(op.shape.head_dim));
  for (int64_t e = 0; e < op.count; ++e) {
    SumChunk(own, op, queries, op.chunks[e], sums);
    AddChunk(op, queries, sums, op.weights[e]);
  }
}

// All queries, divided by key-value heads and into two halves, if there are many.
void ShareQueries(OpContext& ctx, const Op& op, int64_t queries) {
  const int64_t step = op.code.query_step;
  const int64_t half = RoundUp((queries + 1) / 2, step);
  const int64_t some = ctx.has_team() ? std::min<int64_t>(half, kMaxQueries) : kMaxQueries;
  const int kv_heads = op.shape.kv_heads;
  const int64_t parts = (queries + some - 1) / some * kv_heads;
  ctx.Share(static_cast<int>(parts), [&](OpContext& own, int part) {
    const int64_t begin = part / kv_heads * some;
    ReadChunks(own, op, {part % kv_heads, begin, std::min(begin + some, queries)});
  });
}

// Asks for the rows of one head, which lie apart, so that reading them takes no longer than memory
// needs.
void AskFor(const Op& op, const MemoryView& chunk, int kv_head) {
  constexpr int64_t kLine = 64 / sizeof(Bf16);
  const int64_t dim = op.shape.head_dim, stride = op.shape.kv_heads * dim;
  for (const Bf16* rows : {chunk.keys, chunk.values}) {
    for (int64_t row = 0; row < chunk.rows; ++row) {
      for (int64_t d = 0; d < dim; d += kLine) {
        __builtin_prefetch(rows + row * stride + kv_head * dim + d);
      }
    }
  }
}

// So few queries that each thread reads other chunks for them.
void ShareChunks(OpContext& ctx, const Op& op, int64_t queries) {
  const int64_t stride = op.code.query_step * SpanSumsFloats(op.shape.head_dim);
  const int kv_heads = op.shape.kv_heads;
  const int64_t parts = op.count * kv_heads;
  float* sums = ctx.Floats(kSumsOfChunks, parts * stride);
  if (ctx.has_team()) ctx.team()->ahead().Reached(op.chunks[op.count - 1].values);
  TwoHalves order(static_cast<int>(parts));
  ctx.Share(static_cast<int>(parts), [&](OpContext& own, int) {
    const int part = order.Next(own);
    const MemoryView& chunk = op.chunks[part / kv_heads];
    const int kv_head = part % kv_heads;
    AskFor(op, chunk, kv_head);
    SumChunk(own, op, {kv_head, 0, queries}, chunk, sums + part * stride);
  });
  for (int part = 0; part < parts; ++part) {
    AddChunk(op, {part % kv_heads, 0, queries}, sums + part * stride, op.weights[part / kv_heads]);
  }
}

}  // namespace

void GcaByPairs(OpContext& ctx, const PairCode& code, const GcaShape& shape, const float* q,
                int64_t rows, const MemoryView* chunks, const float* weights, int64_t count,
                float* out) {
  if (rows == 0) return;
  const Op op{code, shape, q, chunks, weights, count, out};
  const int64_t queries = rows * op.group();
  std::fill_n(out, rows * op.width(), 0.0f);
  if (queries <= code.query_step) {
    ShareChunks(ctx, op, queries);
  } else {
    ShareQueries(ctx, op, queries);
  }
}
#endif

}  // namespace recollect::kernels
