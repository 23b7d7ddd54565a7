#include "kernels/cpu/attention_simd.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr int kSlotScores = kFirstKernelSlot + 4;
constexpr int kValueStep = 16;

struct Bounds {
  const int64_t* of_row;  // [rows][kMaxRanges][begin, end]
  int64_t Begin(int64_t row, int part) const { return of_row[(row * kMaxRanges + part) * 2]; }
  int64_t Length(int64_t row, int part) const {
    const int64_t length = of_row[(row * kMaxRanges + part) * 2 + 1] - Begin(row, part);
    return length > 0 ? length : 0;
  }
};

RECOLLECT_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// One head of at most kRowBlock rows. q and out point at the head in the first row, kv_offset says
// where its keys and values are in an entry of kv_stride floats.
template <int kDim>
void HeadOfRows(const float* q, int64_t q_stride, int rows, int heads, int dim, const KvSpan* parts,
                int64_t kv_stride, int64_t kv_offset, const Bounds& bounds, int64_t first_row,
                const float* slope, float* scores, int64_t score_stride, float* out) {
  const int64_t out_stride = static_cast<int64_t>(heads) * dim;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  int64_t filled[kRowBlock] = {};
  for (int p = 0; p < kMaxRanges; ++p) {
    int64_t longest = 0;
    for (int r = 0; r < rows; ++r) {
      const int64_t length = bounds.Length(first_row + r, p);
      longest = length > longest ? length : longest;
    }
    for (int64_t j = 0; j < longest; j += kLanes) {
      for (int r = 0; r < rows; ++r) {
        const int64_t left = bounds.Length(first_row + r, p) - j;
        if (left <= 0) continue;
        const float* keys =
            parts[p].keys + kv_offset + (bounds.Begin(first_row + r, p) + j) * kv_stride;
        const Vec dots = DotGroup<kDim>(q + r * q_stride, keys, kv_stride,
                                        static_cast<int>(Smaller(left, kLanes)), dim);
        // Lanes past the end are overwritten by the next range, or never read.
        Store(scores + r * score_stride + filled[r] + j, Mul(dots, Set(scale)));
      }
    }
    for (int r = 0; r < rows; ++r) filled[r] += bounds.Length(first_row + r, p);
  }

  for (int r = 0; r < rows; ++r) {
    float* row = scores + r * score_stride;
    if (slope != nullptr) {
      for (int64_t i = 0; i < filled[r]; ++i)
        row[i] -= *slope * static_cast<float>(filled[r] - 1 - i);
    }
    const float shift = MaxScore(row, filled[r], -__builtin_inff());
    const float sum = ExpAndSum(row, filled[r], shift);
    if (filled[r] > 0) Scale(row, filled[r], 1.0f / sum);
    for (int d = 0; d < dim; ++d) out[r * out_stride + d] = 0;
    filled[r] = 0;
  }

  for (int p = 0; p < kMaxRanges; ++p) {
    int64_t longest = 0;
    for (int r = 0; r < rows; ++r) {
      const int64_t length = bounds.Length(first_row + r, p);
      longest = length > longest ? length : longest;
    }
    for (int64_t j = 0; j < longest; j += kValueStep) {
      for (int r = 0; r < rows; ++r) {
        const int64_t left = bounds.Length(first_row + r, p) - j;
        if (left <= 0) continue;
        const float* values =
            parts[p].values + kv_offset + (bounds.Begin(first_row + r, p) + j) * kv_stride;
        AddWeighted<kDim>(scores + r * score_stride + filled[r] + j, values, kv_stride,
                          Smaller(left, kValueStep), out + r * out_stride, dim);
      }
    }
    for (int r = 0; r < rows; ++r) filled[r] += bounds.Length(first_row + r, p);
  }
}

}  // namespace

void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& spans, const RangeSet* sets,
                    float* out) {
  // By their first elements: operator[] of std::array is an inline function (kernels/cpu/simd.h).
  static_assert(sizeof(RangeSet) == kMaxRanges * 2 * sizeof(int64_t));
  const Bounds bounds{reinterpret_cast<const int64_t*>(sets)};
  const auto* parts = reinterpret_cast<const KvSpan*>(&spans);
  const int heads = shape.heads, kv_heads = shape.kv_heads, head_dim = shape.head_dim;
  int64_t most = 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t entries = 0;
    for (int p = 0; p < kMaxRanges; ++p) entries += bounds.Length(r, p);
    most = entries > most ? entries : most;
  }
  const int64_t score_stride = (most + 2 * kLanes - 1) / kLanes * kLanes;
  float* scores = ctx.Floats(kSlotScores, kRowBlock * score_stride);
  const int64_t width = static_cast<int64_t>(heads) * head_dim;
  const int64_t kv_width = static_cast<int64_t>(kv_heads) * head_dim;
  const int group = heads / kv_heads;
  for (int64_t r = 0; r < rows; r += kRowBlock) {
    const int block = static_cast<int>(Smaller(kRowBlock, rows - r));
    for (int h = 0; h < heads; ++h) {
      const int64_t at = static_cast<int64_t>(h) * head_dim;
      auto* run = head_dim == 64 ? &HeadOfRows<64> : &HeadOfRows<0>;
      run(q + r * q_stride + at, q_stride, block, heads, head_dim, parts, kv_width,
          static_cast<int64_t>(h / group) * head_dim, bounds, r,
          shape.slopes != nullptr ? shape.slopes + h : nullptr, scores, score_stride,
          out + r * width + at);
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
