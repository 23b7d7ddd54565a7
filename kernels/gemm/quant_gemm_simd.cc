#include "kernels/gemm/quant_rows_simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

template <QuantFormat kFormat>
void MultiplyFormat(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride,
                    uint8_t* scratch) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const int64_t panel_bytes = QuantPanelBytes(kLayout, x.k);
  const uint8_t* panel = panels.bytes;
  for (int64_t j = 0; j < panels.outputs; j += kQuantPanel, panel += panel_bytes) {
    const int64_t left = panels.outputs - j;
    const int outputs = static_cast<int>(left < kQuantPanel ? left : kQuantPanel);
    MultiplyPanel<kLayout>(panel, x, 0, y + j, stride, outputs, scratch);
  }
}

// The largest |x| of a group as bits, which order numbers as their values, and above them infinity
// and NaN.
RECOLLECT_INLINE uint32_t LargestBits(const float* x) {
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < kQuantGroup; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    most = _mm256_max_epi32(most, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

RECOLLECT_INLINE __m256i RoundEight(const float* x, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

// The codes of a group, and the sums of its two halves.
RECOLLECT_INLINE __m256i RoundGroup(const float* x, float inverse, int halves[2]) {
  const __m256 by = _mm256_set1_ps(inverse);
  // Packing works in 128-bit lanes; the permutation puts fours of codes back in order.
  const __m256i low = _mm256_packs_epi32(RoundEight(x, by), RoundEight(x + 8, by));
  const __m256i high = _mm256_packs_epi32(RoundEight(x + 16, by), RoundEight(x + 24, by));
  const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
                                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
  halves[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums));
  halves[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1));
  return codes;
}

}  // namespace

void RoundRows(const float* x, int64_t rows, int64_t k, int8_t* codes, QuantGroup* groups) {
  for (int64_t at = 0; at < rows * k; at += kQuantGroup, ++groups) {
    const uint32_t bits = LargestBits(x + at);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof(bits));
    __m256i rounded = _mm256_setzero_si256();
    *groups = QuantGroup{0, 0, 0, 0};
    if (bits >= 0x7f800000u) {
      groups->scale = groups->sum = __builtin_nanf("");
    } else if (largest >= 0x1p-100f) {
      int halves[2];
      rounded = RoundGroup(x + at, 127.0f / largest, halves);
      groups->scale = largest / 127.0f;
      groups->negative = -(halves[0] + halves[1]);
      groups->lower = -halves[0];
      groups->sum = groups->scale * static_cast<float>(-groups->negative);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + at), rounded);
  }
}

void MultiplyQuant(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride,
                   uint8_t* scratch) {
  WithFormat(panels.format, [&]<QuantFormat kFormat>() {
    MultiplyFormat<kFormat>(panels, x, y, stride, scratch);
  });
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
