#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels::reference {
namespace {

double Wide(float number) { return number; }
double Wide(Bf16 number) { return number.ToFloat(); }

// Where entry e of a key-value head is.
int64_t PlaceOf(const KvSpan&, const RangeShape& shape, int kv_head, int64_t e) {
  return (e * shape.kv_heads + kv_head) * shape.head_dim;
}
int64_t PlaceOf(const Bf16KvSpan& part, const RangeShape& shape, int kv_head, int64_t e) {
  if (part.head_stride != 0) return kv_head * part.head_stride + e * shape.head_dim;
  return PlaceOf(KvSpan{}, shape, kv_head, e);
}

template <typename Span>
void Attend(const RangeShape& shape, const float* q, int64_t q_stride, int64_t rows,
            const std::array<Span, kMaxRanges>& parts, const RangeSet* sets, float* out) {
  const int heads = shape.heads, kv_heads = shape.kv_heads, head_dim = shape.head_dim;
  const int64_t width = static_cast<int64_t>(heads) * head_dim;
  for (int64_t r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      const int64_t head = static_cast<int64_t>(h) * head_dim;
      const int kv_head = h * kv_heads / heads;
      std::vector<double> scores;
      for (int p = 0; p < kMaxRanges; ++p) {
        for (int64_t e = sets[r].ranges[p].begin; e < sets[r].ranges[p].end; ++e) {
          double dot = 0;
          for (int d = 0; d < head_dim; ++d) {
            dot += static_cast<double>(q[r * q_stride + head + d]) *
                   Wide(parts[p].keys[PlaceOf(parts[p], shape, kv_head, e) + d]);
          }
          scores.push_back(dot / std::sqrt(static_cast<double>(head_dim)));
        }
      }
      if (shape.slopes != nullptr) {
        double distance = static_cast<double>(scores.size());
        for (double& s : scores) s -= shape.slopes[h] * --distance;
      }
      double largest = -std::numeric_limits<double>::infinity();
      for (double s : scores) largest = std::max(largest, s);
      double sum = 0;
      for (double s : scores) sum += std::exp(s - largest);
      for (int d = 0; d < head_dim; ++d) {
        double total = 0;
        size_t i = 0;
        for (int p = 0; p < kMaxRanges; ++p) {
          for (int64_t e = sets[r].ranges[p].begin; e < sets[r].ranges[p].end; ++e) {
            total += std::exp(scores[i++] - largest) / sum *
                     Wide(parts[p].values[PlaceOf(parts[p], shape, kv_head, e) + d]);
          }
        }
        out[r * width + head + d] = static_cast<float>(total);
      }
    }
  }
}

}  // namespace

void RangeAttention(OpContext&, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                    float* out) {
  Attend(shape, q, q_stride, rows, parts, sets, out);
}

void RangeAttentionOfBf16(OpContext&, const RangeShape& shape, const float* q, int64_t q_stride,
                          int64_t rows, const std::array<Bf16KvSpan, kMaxRanges>& parts,
                          const RangeSet* sets, float* out) {
  Attend(shape, q, q_stride, rows, parts, sets, out);
}

}  // namespace recollect::kernels::reference
