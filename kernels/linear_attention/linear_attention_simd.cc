#include "kernels/cpu/attention_simd.h"
#include "kernels/linear_attention/linear_attention.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr ScratchName kColumns;

RECOLLECT_INLINE Vec LoadUpTo(const float* p, int n) {
  return n == kLanes ? Load(p) : LoadFirst(p, n);
}
RECOLLECT_INLINE void StoreUpTo(float* p, Vec v, int n) {
  n == kLanes ? Store(p, v) : StoreFirst(p, v, n);
}

// x becomes softmax(x).
RECOLLECT_INLINE void Softmax(float* x, int count) {
  const float sum = ExpAndSum(x, count, MaxScore(x, count, -__builtin_inff()));
  Scale(x, count, 1.0f / sum);
}

// Σ_f q_f (S_f + S_0f) over the features of one column block: four sums hide the latency of Fma.
template <bool kInitial>
RECOLLECT_INLINE Vec Read(const float* q, const float* columns, const float* initial, int features,
                          int dim, int n) {
  Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
  for (int f = 0; f < features; f += 4) {
    for (int u = 0; u < 4; ++u) {
      Vec s = Load(columns + (f + u) * kLanes);
      if (kInitial) s = Add(s, LoadUpTo(initial + static_cast<int64_t>(f + u) * dim, n));
      sum[u] = Fma(Set(q[f + u]), s, sum[u]);
    }
  }
  return Add(Add(sum[0], sum[1]), Add(sum[2], sum[3]));
}

}  // namespace

void Features(OpContext&, FeatureMap map, const float* x, int64_t x_stride, int64_t rows, int heads,
              int head_dim, const float* scale, float* features) {
  const bool softmax = map == FeatureMap::kSoftmax;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * x_stride;
    for (int h = 0; h < heads; ++h, in += head_dim, features += 2 * head_dim) {
      for (int d = 0; d < head_dim; d += kLanes) {
        const int n = head_dim - d < kLanes ? head_dim - d : kLanes;
        Vec y = LoadUpTo(in + d, n);
        if (scale != nullptr) y = Mul(y, LoadUpTo(scale + d, n));
        const Vec opposite = Sub(Zero(), y);
        StoreUpTo(features + d, softmax ? y : Max(y, Zero()), n);
        StoreUpTo(features + head_dim + d, softmax ? opposite : Max(opposite, Zero()), n);
      }
      if (!softmax) continue;
      Softmax(features, head_dim);
      Softmax(features + head_dim, head_dim);
    }
  }
}

// Some columns of one S at a time, in front of all rows: they stay in the first-level cache, dense,
// while the rows pass.
void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out) {
  const int dim = shape.head_dim, features = 2 * dim, group = shape.heads / shape.kv_heads;
  const int64_t size = static_cast<int64_t>(features) * dim;
  float* columns = ctx.Floats(kColumns, static_cast<int64_t>(features) * kLanes);
  for (int g = 0; g < shape.kv_heads; ++g, state += size) {
    for (int d = 0; d < dim; d += kLanes) {
      const int n = dim - d < kLanes ? dim - d : kLanes;
      for (int f = 0; f < features; ++f) {
        Store(columns + f * kLanes, LoadUpTo(state + static_cast<int64_t>(f) * dim + d, n));
      }
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t e = r - (rows - entering.count);
        if (e >= 0) {
          const int64_t row = e * shape.kv_heads + g;
          const float* key = entering.keys + row * features;
          const Vec value = LoadUpTo(entering.values + row * dim + d, n);
          for (int f = 0; f < features; ++f) {
            float* s = columns + f * kLanes;
            Store(s, Fma(Set(key[f]), value, Load(s)));
          }
        }
        for (int h = g * group; h < (g + 1) * group; ++h) {
          const int64_t row = r * shape.heads + h;
          const float* features_of_q = q + row * features;
          const Vec read =
              initial == nullptr
                  ? Read<false>(features_of_q, columns, nullptr, features, dim, n)
                  : Read<true>(features_of_q, columns, initial + h * size + d, features, dim, n);
          StoreUpTo(out + row * dim + d, read, n);
        }
      }
      if (entering.count == 0) continue;
      for (int f = 0; f < features; ++f) {
        StoreUpTo(state + static_cast<int64_t>(f) * dim + d, Load(columns + f * kLanes), n);
      }
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
