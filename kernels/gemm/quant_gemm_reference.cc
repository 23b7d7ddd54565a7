#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numeric/half.h"
#include "kernels/gemm/quant_layout.h"

// Scalar, and not in double: integers are exact and the few fp32 operations are in the order that
// is promised, so that vector code has the same bits.
namespace recollect::kernels::reference {
namespace {

float Half(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return HalfToFloat(bits);
}

// q of number i of a group, for one output.
template <PanelLayout kLayout>
int Quant(const uint8_t* group, int output, int i) {
  const uint8_t* codes = group + 4 * output + i % 4;
  const int line = i / 4;
  if constexpr (kLayout.bits == 8) return codes[line * kQuantLine] - kLayout.zero;
  int code = codes[line % 4 * kQuantLine] >> 4 * (line / 4) & 0xf;
  if constexpr (kLayout.bits == 6) {
    code |= (codes[(4 + line / 4) * kQuantLine] >> 2 * (line % 4) & 3) << 4;
  }
  return code - kLayout.zero;
}

// Adds group `g` of a unit to y.
template <PanelLayout kLayout>
float AddGroup(const uint8_t* unit, int g, int output, const int8_t* codes, const QuantGroup& x,
               float y) {
  const uint8_t* group = unit + kLayout.header_bytes + g * kLayout.group_bytes;
  constexpr bool kShared = kLayout.groups > 1;
  const uint8_t* halves = (kShared ? unit : group + kLayout.code_bytes) + 2 * output;
  const uint8_t* bytes = group + kLayout.code_bytes + output;
  constexpr int kNumbers = kQuantGroup / kLayout.scales;
  for (int s = 0; s < kLayout.scales; ++s) {
    int32_t dot = 0;
    for (int i = s * kNumbers; i < (s + 1) * kNumbers; ++i) {
      dot += codes[i] * Quant<kLayout>(group, output, i);
    }
    float scale = Half(halves);
    if constexpr (kShared) {
      const uint8_t byte = bytes[s * kQuantPanel];
      // Minima are with scales from 0 to 63, and without them they have a sign.
      scale *= static_cast<float>(kLayout.minima ? byte : static_cast<int8_t>(byte));
    }
    y = std::fma(static_cast<float>(dot), x.scale * scale, y);
  }
  if constexpr (kLayout.minima) {
    float minimum = Half(halves + 2 * kQuantPanel);
    if constexpr (kShared) minimum *= -static_cast<float>(bytes[kQuantPanel]);
    y = std::fma(x.sum, minimum, y);
  }
  return y;
}

template <QuantFormat kFormat>
void Multiply(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const int64_t groups = x.k / kQuantGroup, units = groups / kLayout.groups;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t j = 0; j < panels.outputs; ++j) {
      const uint8_t* panel = panels.bytes + j / kQuantPanel * units * kLayout.unit_bytes;
      float sum = 0;
      for (int64_t g = 0; g < groups; ++g) {
        sum = AddGroup<kLayout>(panel + g / kLayout.groups * kLayout.unit_bytes,
                                static_cast<int>(g % kLayout.groups),
                                static_cast<int>(j % kQuantPanel),
                                x.codes + r * x.k + g * kQuantGroup, x.groups[r * groups + g], sum);
      }
      y[r * stride + j] = sum;
    }
  }
}

}  // namespace

void RoundRows(const float* x, int64_t rows, int64_t k, int8_t* codes, QuantGroup* groups) {
  for (int64_t at = 0; at < rows * k; at += kQuantGroup) {
    QuantGroup& group = groups[at / kQuantGroup];
    group = {};
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < kQuantGroup; ++i) {
      finite = finite && std::isfinite(x[at + i]);
      largest = std::max(largest, std::abs(x[at + i]));
    }
    std::memset(codes + at, 0, kQuantGroup);
    if (!finite) {
      group.scale = group.sum = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    if (largest < 0x1p-100f) continue;
    const float inverse = 127.0f / largest;
    group.scale = largest / 127.0f;
    for (int i = 0; i < kQuantGroup; ++i) {
      const auto code = static_cast<int8_t>(std::lrint(x[at + i] * inverse));
      codes[at + i] = code;
      group.negative -= code;
      if (i < kQuantGroup / 2) group.lower -= code;
    }
    group.sum = group.scale * static_cast<float>(-group.negative);
  }
}

void MultiplyQuant(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride,
                   uint8_t*) {
  WithFormat(panels.format,
             [&]<QuantFormat kFormat>() { Multiply<kFormat>(panels, x, y, stride); });
}

}  // namespace recollect::kernels::reference
