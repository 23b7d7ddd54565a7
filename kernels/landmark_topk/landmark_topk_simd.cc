#include "kernels/cpu/simd.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

// Keys are read once, in order. Fetching this far ahead of use keeps enough lines in flight to
// reach the memory's bandwidth, which the hardware's own prefetch does not on the machines
// measured.
constexpr int64_t kAheadBytes = 4096;
constexpr int kLineElements = 32;  // bf16 elements in 64 bytes

// The lanes of the result add up to q·key. Four sums hide the latency of Fma. Fetches what lies
// `ahead` bytes from what is used.
RECOLLECT_INLINE Vec DotLanes(const float* query, const uint16_t* key, int64_t whole, int rest,
                              int64_t ahead) {
  Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
  int64_t j = 0;
  for (; j + 4 * kLanes <= whole; j += 4 * kLanes) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      if (u * kLanes % kLineElements == 0) {
        const char* at = reinterpret_cast<const char*>(key + j + u * kLanes);
        _mm_prefetch(at + ahead, _MM_HINT_T0);
      }
      sum[u] = Fma(Load(query + j + u * kLanes), LoadBf16(key + j + u * kLanes), sum[u]);
    }
  }
  for (; j < whole; j += kLanes) sum[0] = Fma(Load(query + j), LoadBf16(key + j), sum[0]);
  if (rest > 0) sum[1] = Fma(LoadFirst(query + j, rest), LoadBf16First(key + j, rest), sum[1]);
  return Add(Add(sum[0], sum[1]), Add(sum[2], sum[3]));
}

// Scores of keys, each of them where key(i) says.
template <typename Key>
RECOLLECT_INLINE void ScoresOf(const float* query, int64_t width, const Key& key, int64_t ahead,
                               int64_t count, float* scores) {
  const Vec scale = Set(1.0f / __builtin_sqrtf(static_cast<float>(width)));
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t first = 0; first < count; first += kLanes) {
    const int group = static_cast<int>(count - first < kLanes ? count - first : kLanes);
    Vec sum[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      sum[i] = i < group ? DotLanes(query, key(first + i), whole, rest, ahead) : Zero();
    }
    const Vec result = Mul(SumsOf(sum), scale);
    if (group == kLanes) {
      Store(scores + first, result);
    } else {
      StoreFirst(scores + first, result, group);
    }
  }
}

}  // namespace

void LandmarkScores(OpContext&, const float* query, int64_t width, const Bf16* bf16_keys,
                    int64_t count, float* scores) {
  const auto* keys = reinterpret_cast<const uint16_t*>(bf16_keys);
  ScoresOf(
      query, width, [&](int64_t i) { return keys + i * width; }, kAheadBytes, count, scores);
}

void LandmarkScoresAt(OpContext&, const float* query, int64_t width, const Bf16* bf16_keys,
                      const int64_t* at, int64_t count, float* scores) {
  const auto* keys = reinterpret_cast<const uint16_t*>(bf16_keys);
  ScoresOf(
      query, width, [&](int64_t i) { return keys + at[i] * width; }, 0, count, scores);
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
