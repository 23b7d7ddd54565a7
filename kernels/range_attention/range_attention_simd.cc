#include "kernels/cpu/attention_simd.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr ScratchName kScores;
constexpr int kValueStep = 16;
// From this many queries on it pays to widen keys and values once and read them many times.
constexpr int kWidenFromQueries = 4;

struct Bounds {
  const int64_t* of_row;  // [rows][kMaxRanges][begin, end]
  int64_t Begin(int64_t row, int part) const { return of_row[(row * kMaxRanges + part) * 2]; }
  int64_t Length(int64_t row, int part) const {
    const int64_t length = of_row[(row * kMaxRanges + part) * 2 + 1] - Begin(row, part);
    return length > 0 ? length : 0;
  }
};

// Keys or values j .. j + count of one head, kDim numbers each, as the queries of a part read them:
// where they lie, or widened, if all queries begin at the same entry and there are enough of them.
// Either has the same bits.
template <int kDim>
struct Entries {
  const float* rows = nullptr;  // kDim apart; null: they are read where they lie
  alignas(64) float wide[kLanes > kValueStep ? kLanes* kDim : kValueStep* kDim];

  void Widen(const uint16_t* from, int64_t stride, int64_t count) {
    for (int64_t j = 0; j < count; ++j) {
      for (int d = 0; d < kDim; d += kLanes) {
        Store(wide + j * kDim + d, LoadBf16(from + j * stride + d));
      }
    }
    rows = wide;
  }
  void Widen(const float*, int64_t, int64_t) {}
};
template <>
struct Entries<0> {
  const float* rows = nullptr;
  template <typename Element>
  void Widen(const Element*, int64_t, int64_t) {}
};

RECOLLECT_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The keys and values of one key-value head in a part, entries `stride` numbers apart.
template <typename Element>
struct HeadRows {
  const Element* keys = nullptr;
  const Element* values = nullptr;
  int64_t stride = 0;
};
RECOLLECT_INLINE HeadRows<float> HeadOf(const KvSpan& part, const RangeShape& shape, int kv_head) {
  if (part.keys == nullptr) return {};
  const int64_t at = static_cast<int64_t>(kv_head) * shape.head_dim;
  return {part.keys + at, part.values + at, static_cast<int64_t>(shape.kv_heads) * shape.head_dim};
}
RECOLLECT_INLINE HeadRows<uint16_t> HeadOf(const Bf16KvSpan& part, const RangeShape& shape,
                                           int kv_head) {
  if (part.keys == nullptr) return {};
  const int64_t dim = shape.head_dim, heads = part.head_stride != 0 ? 1 : shape.kv_heads;
  const int64_t at = kv_head * (part.head_stride != 0 ? part.head_stride : dim);
  return {reinterpret_cast<const uint16_t*>(part.keys) + at,
          reinterpret_cast<const uint16_t*>(part.values) + at, heads * dim};
}

// One head of one row.
struct Query {
  int64_t row = 0;
  const float* q = nullptr;
  const float* slope = nullptr;
  float* out = nullptr;
};

// At most kRowBlock queries that share a key-value head, whose rows are in parts[kMaxRanges].
template <int kDim, typename Element>
void AttendTogether(const Query* queries, int rows, int dim, const HeadRows<Element>* parts,
                    const Bounds& bounds, float* scores, int64_t score_stride) {
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  int64_t filled[kRowBlock] = {};
  Entries<kDim> entries;
  int64_t longest[kMaxRanges] = {};
  bool together[kMaxRanges];
  for (int p = 0; p < kMaxRanges; ++p) {
    together[p] = rows >= kWidenFromQueries;
    for (int r = 0; r < rows; ++r) {
      const int64_t length = bounds.Length(queries[r].row, p);
      longest[p] = length > longest[p] ? length : longest[p];
      if (bounds.Begin(queries[r].row, p) != bounds.Begin(queries[0].row, p)) together[p] = false;
    }
  }
  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t j = 0; j < longest[p]; j += kLanes) {
      entries.rows = nullptr;
      if (together[p]) {
        const int64_t first = bounds.Begin(queries[0].row, p) + j;
        entries.Widen(parts[p].keys + first * parts[p].stride, parts[p].stride,
                      Smaller(longest[p] - j, kLanes));
      }
      for (int r = 0; r < rows; ++r) {
        const int64_t left = bounds.Length(queries[r].row, p) - j;
        if (left <= 0) continue;
        const Element* keys =
            parts[p].keys + (bounds.Begin(queries[r].row, p) + j) * parts[p].stride;
        const auto count = static_cast<int>(Smaller(left, kLanes));
        const Vec dots = entries.rows != nullptr
                             ? DotGroup<kDim>(queries[r].q, entries.rows, kDim, count, dim)
                             : DotGroup<kDim>(queries[r].q, keys, parts[p].stride, count, dim);
        // Lanes past the end are overwritten by the next range, or never read.
        Store(scores + r * score_stride + filled[r] + j, Mul(dots, Set(scale)));
      }
    }
    for (int r = 0; r < rows; ++r) filled[r] += bounds.Length(queries[r].row, p);
  }

  for (int r = 0; r < rows; ++r) {
    float* row = scores + r * score_stride;
    if (const float* slope = queries[r].slope; slope != nullptr) {
      for (int64_t i = 0; i < filled[r]; ++i)
        row[i] -= *slope * static_cast<float>(filled[r] - 1 - i);
    }
    const float shift = MaxScore(row, filled[r], -__builtin_inff());
    const float sum = ExpAndSum(row, filled[r], shift);
    if (filled[r] > 0) Scale(row, filled[r], 1.0f / sum);
    for (int d = 0; d < dim; ++d) queries[r].out[d] = 0;
    filled[r] = 0;
  }

  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t j = 0; j < longest[p]; j += kValueStep) {
      entries.rows = nullptr;
      if (together[p]) {
        const int64_t first = bounds.Begin(queries[0].row, p) + j;
        entries.Widen(parts[p].values + first * parts[p].stride, parts[p].stride,
                      Smaller(longest[p] - j, kValueStep));
      }
      for (int r = 0; r < rows; ++r) {
        const int64_t left = bounds.Length(queries[r].row, p) - j;
        if (left <= 0) continue;
        const Element* values =
            parts[p].values + (bounds.Begin(queries[r].row, p) + j) * parts[p].stride;
        const float* weights = scores + r * score_stride + filled[r] + j;
        const int64_t count = Smaller(left, kValueStep);
        if (entries.rows != nullptr) {
          AddWeighted<kDim>(weights, entries.rows, kDim, count, queries[r].out, dim);
        } else {
          AddWeighted<kDim>(weights, values, parts[p].stride, count, queries[r].out, dim);
        }
      }
    }
    for (int r = 0; r < rows; ++r) filled[r] += bounds.Length(queries[r].row, p);
  }
}

// parts[kMaxRanges]; Element: of HeadOf(parts[p]).
template <typename Element, typename Span>
void Attend(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride, int64_t rows,
            const Span* parts, const RangeSet* sets, float* out) {
  static_assert(sizeof(RangeSet) == kMaxRanges * 2 * sizeof(int64_t));
  const Bounds bounds{reinterpret_cast<const int64_t*>(sets)};
  const int heads = shape.heads, kv_heads = shape.kv_heads, head_dim = shape.head_dim;
  int64_t most = 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t entries = 0;
    for (int p = 0; p < kMaxRanges; ++p) entries += bounds.Length(r, p);
    most = entries > most ? entries : most;
  }
  const int64_t score_stride = (most + 2 * kLanes - 1) / kLanes * kLanes;
  float* scores = ctx.Floats(kScores, kRowBlock * score_stride);
  const int64_t width = static_cast<int64_t>(heads) * head_dim;
  const int group = heads / kv_heads;
  // The heads of a group are rows that walk the same keys.
  for (int kv_head = 0; kv_head < kv_heads; ++kv_head) {
    HeadRows<Element> of_head[kMaxRanges];
    for (int p = 0; p < kMaxRanges; ++p) of_head[p] = HeadOf(parts[p], shape, kv_head);
    auto* run = head_dim == 64 ? &AttendTogether<64, Element> : &AttendTogether<0, Element>;
    Query queries[kRowBlock];
    int filled = 0;
    for (int64_t i = 0; i < rows * group; ++i) {
      const int64_t row = i / group, head = kv_head * group + i % group, at = head * head_dim;
      queries[filled].row = row;
      queries[filled].q = q + row * q_stride + at;
      queries[filled].slope = shape.slopes != nullptr ? shape.slopes + head : nullptr;
      queries[filled].out = out + row * width + at;
      if (++filled < kRowBlock && i + 1 < rows * group) continue;
      run(queries, filled, head_dim, of_head, bounds, scores, score_stride);
      filled = 0;
    }
  }
}

}  // namespace

// Arrays by their first elements: operator[] of std::array is an inline function
// (kernels/cpu/simd.h).
void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& spans, const RangeSet* sets,
                    float* out) {
  Attend<float>(ctx, shape, q, q_stride, rows, reinterpret_cast<const KvSpan*>(&spans), sets, out);
}

void RangeAttentionOfBf16(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                          int64_t rows, const std::array<Bf16KvSpan, kMaxRanges>& spans,
                          const RangeSet* sets, float* out) {
  Attend<uint16_t>(ctx, shape, q, q_stride, rows, reinterpret_cast<const Bf16KvSpan*>(&spans), sets,
                   out);
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
