#include "kernels/quant/quant_blocks.h"

#include <bit>
#include <cstring>

#include "base/numeric/half.h"

namespace recollect::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

void DequantizeBlock(const BlockQ8_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(block.quants[i]);
}

// The 4-bit and 5-bit formats of 32 numbers.
template <typename Block>
int Quant(const Block& block, int i) {
  int quant = block.quants[i % 16] >> 4 * (i / 16) & 0xf;
  if constexpr (requires { block.fifth_bits; }) {
    quant |= (block.fifth_bits[i / 8] >> i % 8 & 1) << 4;
  }
  return quant;
}

template <typename Block>
void DequantizeAround(const Block& block, int center, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(Quant(block, i) - center);
}

template <typename Block>
void DequantizeFromMinimum(const Block& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float minimum = HalfToFloat(block.minimum);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(Quant(block, i)) + minimum;
}

void DequantizeBlock(const BlockQ4_0& block, float* out) { DequantizeAround(block, 8, out); }
void DequantizeBlock(const BlockQ5_0& block, float* out) { DequantizeAround(block, 16, out); }
void DequantizeBlock(const BlockQ4_1& block, float* out) { DequantizeFromMinimum(block, out); }
void DequantizeBlock(const BlockQ5_1& block, float* out) { DequantizeFromMinimum(block, out); }

// Q4_K and Q5_K; quant(sub, i) is q of number i of a sub-block.
template <typename Block, typename Quant>
void DequantizeSubBlocks(const Block& block, float* out, Quant quant) {
  const float scale = HalfToFloat(block.scale);
  const float minimum = HalfToFloat(block.minimum);
  const QuantFactors factors = UnpackFactors(block.factors);
  for (int sub = 0; sub < 8; ++sub) {
    const float sub_scale = scale * static_cast<float>(factors.scale[sub]);
    const float sub_minimum = minimum * static_cast<float>(factors.minimum[sub]);
    for (int i = 0; i < 32; ++i) {
      out[32 * sub + i] = sub_scale * static_cast<float>(quant(sub, i)) - sub_minimum;
    }
  }
}

int FourBits(const uint8_t (&quants)[128], int sub, int i) {
  return quants[32 * (sub / 2) + i] >> 4 * (sub % 2) & 0xf;
}

void DequantizeBlock(const BlockQ4_K& block, float* out) {
  DequantizeSubBlocks(block, out, [&](int sub, int i) { return FourBits(block.quants, sub, i); });
}

void DequantizeBlock(const BlockQ5_K& block, float* out) {
  DequantizeSubBlocks(block, out, [&](int sub, int i) {
    return FourBits(block.quants, sub, i) | (block.fifth_bits[i] >> sub & 1) << 4;
  });
}

void DequantizeBlock(const BlockQ6_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int n = 0; n < 256; ++n) {
    const int half = n / 128, group = n / 32 % 4, i = n % 32;
    const int low = block.low_bits[64 * half + 32 * (group % 2) + i] >> 4 * (group / 2) & 0xf;
    const int high = block.high_bits[32 * half + i] >> 2 * group & 3;
    const float sub_scale = scale * static_cast<float>(block.factors[n / 16]);
    out[n] = sub_scale * static_cast<float>((low | high << 4) - 32);
  }
}

template <QuantFormat kFormat>
void DequantizeBlocks(const std::byte* blocks, int64_t count, float* out) {
  constexpr QuantTraits kTraits = TraitsOf(kFormat);
  QuantBlock<kFormat> block;
  static_assert(sizeof(block) == kTraits.block_bytes);
  for (; count > 0; --count, blocks += kTraits.block_bytes, out += kTraits.block) {
    std::memcpy(&block, blocks, sizeof(block));
    DequantizeBlock(block, out);
  }
}

}  // namespace

void Dequantize(QuantFormat format, const std::byte* blocks, int64_t count, float* out) {
  WithFormat(format, [&]<QuantFormat kFormat>() { DequantizeBlocks<kFormat>(blocks, count, out); });
}

}  // namespace recollect::kernels
