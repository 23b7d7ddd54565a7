#include "kernels/cpu/attention_simd.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr ScratchName kScores;
constexpr int kValueStep = 16;
// From this many queries on it pays that they read the same keys and values together.
constexpr int kShareFromQueries = 4;

struct Bounds {
  const int64_t* of_row;  // [rows][kMaxRanges][begin, end]
  int64_t Begin(int64_t row, int part) const { return of_row[(row * kMaxRanges + part) * 2]; }
  int64_t Length(int64_t row, int part) const {
    const int64_t length = of_row[(row * kMaxRanges + part) * 2 + 1] - Begin(row, part);
    return length > 0 ? length : 0;
  }
};

// Keys or values of one head, kDim numbers each, which the queries of a part read together: where
// they lie, or widened from bf16. Both have the same bits.
template <int kDim>
struct Entries {
  const float* rows = nullptr;  // null: each query reads its own
  int64_t stride = kDim;        // numbers between two rows
  int64_t count = 0;
  alignas(64) float wide[(kLanes > kValueStep ? kLanes : kValueStep) * (kDim > 0 ? kDim : 1)];

  void Share(const uint16_t* from, int64_t from_stride, int64_t entries) {
    for (int64_t j = 0; j < entries; ++j) {
      for (int d = 0; d < kDim; d += kLanes) {
        Store(wide + j * kDim + d, LoadBf16(from + j * from_stride + d));
      }
    }
    rows = wide;
    count = entries;
  }
  void Share(const float* from, int64_t from_stride, int64_t entries) {
    rows = from;
    stride = from_stride;
    count = entries;
  }
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

// At most kRowBlock queries that share a key-value head, whose rows are in parts[kMaxRanges], and
// the scores of each, score_stride apart.
template <typename Element>
struct Block {
  const Query* queries;
  int rows;
  int dim;
  const HeadRows<Element>* parts;
  Bounds bounds;
  float* scores;
  int64_t score_stride;

  // The entries that query r has in part p from its j-th on; none if there is no such query.
  int64_t Left(int r, int p, int64_t j) const {
    return r < rows ? bounds.Length(queries[r].row, p) - j : 0;
  }
  // The query's j-th entry in part p, among keys or values of the part.
  const Element* EntryOf(const Element* entries, int r, int p, int64_t j) const {
    return entries + (bounds.Begin(queries[r].row, p) + j) * parts[p].stride;
  }
};

// Scores of entries j .. j + kLanes of part p, for each query after the `filled` that it has.
template <int kDim, typename Element>
RECOLLECT_INLINE void Score(const Block<Element>& block, int p, int64_t j,
                            const Entries<kDim>& shared, const int64_t* filled) {
  const Vec scale = Set(1.0f / __builtin_sqrtf(static_cast<float>(block.dim)));
  for (int r = 0; r < block.rows; ++r) {
    const int64_t left = block.Left(r, p, j);
    if (left <= 0) continue;
    // Lanes past the end are overwritten by the next range, or never read.
    float* const to = block.scores + r * block.score_stride + filled[r] + j;
    const float* const q[] = {block.queries[r].q, block.queries[r + 1 < block.rows ? r + 1 : r].q};
    if constexpr (kDim > 0) {
      if (shared.rows != nullptr) {
        const bool two = block.Left(r + 1, p, j) > 0;
        Vec dots[2];
        const auto count = static_cast<int>(shared.count);
        if (two) {
          DotGroups<kDim, 2>(q, shared.rows, shared.stride, count, dots);
        } else {
          DotGroups<kDim, 1>(q, shared.rows, shared.stride, count, dots);
        }
        Store(to, Mul(dots[0], scale));
        if (!two) continue;
        ++r;
        Store(block.scores + r * block.score_stride + filled[r] + j, Mul(dots[1], scale));
        continue;
      }
    }
    const Element* keys = block.EntryOf(block.parts[p].keys, r, p, j);
    const auto count = static_cast<int>(Smaller(left, kLanes));
    Store(to, Mul(DotGroup<kDim>(q[0], keys, block.parts[p].stride, count, block.dim), scale));
  }
}

// Scores of query r become weights, whose sum is 1.
template <typename Element>
RECOLLECT_INLINE void Weigh(const Block<Element>& block, int r, int64_t filled) {
  float* row = block.scores + r * block.score_stride;
  if (const float* slope = block.queries[r].slope; slope != nullptr) {
    for (int64_t i = 0; i < filled; ++i) row[i] -= *slope * static_cast<float>(filled - 1 - i);
  }
  const float shift = MaxScore(row, filled, -__builtin_inff());
  const float sum = ExpAndSum(row, filled, shift);
  if (filled > 0) Scale(row, filled, 1.0f / sum);
}

// Adds values j .. j + kValueStep of part p to the output of each query.
template <int kDim, typename Element>
RECOLLECT_INLINE void AddValues(const Block<Element>& block, int p, int64_t j,
                                const Entries<kDim>& shared, const int64_t* filled) {
  for (int r = 0; r < block.rows; ++r) {
    const int64_t count = Smaller(block.Left(r, p, j), kValueStep);
    if (count <= 0) continue;
    const float* weights[3] = {block.scores + r * block.score_stride + filled[r] + j};
    float* out[3] = {block.queries[r].out};
    int many = 1;  // queries that take the same values
    for (; many < 3 && Smaller(block.Left(r + many, p, j), kValueStep) == count; ++many) {
      const int at = r + many;
      weights[many] = block.scores + at * block.score_stride + filled[at] + j;
      out[many] = block.queries[at].out;
    }
    if constexpr (kDim > 0) {
      if (shared.rows != nullptr && many == 3) {
        AddWeightedTo<kDim, 3>(weights, shared.rows, shared.stride, count, out);
        r += 2;
        continue;
      }
      if (shared.rows != nullptr) {
        AddWeightedTo<kDim, 1>(weights, shared.rows, shared.stride, count, out);
        continue;
      }
    }
    const Element* values = block.EntryOf(block.parts[p].values, r, p, j);
    AddWeighted<kDim>(weights[0], values, block.parts[p].stride, count, out[0], block.dim);
  }
}

template <int kDim, typename Element>
void AttendTogether(const Block<Element>& all) {
  const Block<Element> block = all;
  const int rows = block.rows;
  int64_t filled[kRowBlock] = {};
  int64_t longest[kMaxRanges] = {};
  bool together[kMaxRanges];
  for (int p = 0; p < kMaxRanges; ++p) {
    together[p] = kDim > 0 && rows >= kShareFromQueries;
    for (int r = 0; r < rows; ++r) {
      const int64_t length = block.Left(r, p, 0);
      longest[p] = length > longest[p] ? length : longest[p];
      const int64_t first = block.bounds.Begin(block.queries[0].row, p);
      if (block.bounds.Begin(block.queries[r].row, p) != first) together[p] = false;
    }
  }
  Entries<kDim> shared;
  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t j = 0; j < longest[p]; j += kLanes) {
      shared.rows = nullptr;
      if (together[p]) {
        shared.Share(block.EntryOf(block.parts[p].keys, 0, p, j), block.parts[p].stride,
                     Smaller(longest[p] - j, kLanes));
      }
      Score<kDim>(block, p, j, shared, filled);
    }
    for (int r = 0; r < rows; ++r) filled[r] += block.Left(r, p, 0);
  }
  for (int r = 0; r < rows; ++r) {
    Weigh(block, r, filled[r]);
    for (int d = 0; d < block.dim; ++d) block.queries[r].out[d] = 0;
    filled[r] = 0;
  }
  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t j = 0; j < longest[p]; j += kValueStep) {
      shared.rows = nullptr;
      if (together[p]) {
        shared.Share(block.EntryOf(block.parts[p].values, 0, p, j), block.parts[p].stride,
                     Smaller(longest[p] - j, kValueStep));
      }
      AddValues<kDim>(block, p, j, shared, filled);
    }
    for (int r = 0; r < rows; ++r) filled[r] += block.Left(r, p, 0);
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
      run({queries, filled, head_dim, of_head, bounds, scores, score_stride});
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
