// Packs blocks of weights into panels.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/numeric/round_up.h"
#include "kernels/gemm/quant_gemm.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kAlignment = 64;

// What one output has in one unit: a block of the file.
struct Unit {
  uint8_t codes[256];
  uint16_t scale = 0, minimum = 0;  // fp16
  uint8_t scales[16] = {}, minima[8] = {};
};

void ReadUnit(const BlockQ8_0& block, Unit& unit) {
  unit.scale = block.scale;
  for (int i = 0; i < 32; ++i) unit.codes[i] = static_cast<uint8_t>(block.quants[i] + 128);
}

// The 4-bit and 5-bit formats of 32 numbers.
template <typename Block>
void ReadUnit(const Block& block, Unit& unit) {
  unit.scale = block.scale;
  if constexpr (requires { block.minimum; }) unit.minimum = block.minimum;
  for (int i = 0; i < 16; ++i) {
    unit.codes[i] = block.quants[i] & 0xf;
    unit.codes[16 + i] = block.quants[i] >> 4;
  }
  if constexpr (requires { block.fifth_bits; }) {
    for (int i = 0; i < 32; ++i) {
      unit.codes[i] |= static_cast<uint8_t>((block.fifth_bits[i / 8] >> i % 8 & 1) << 4);
    }
  }
}

template <typename Block>
void ReadSubBlocks(const Block& block, Unit& unit) {
  unit.scale = block.scale;
  unit.minimum = block.minimum;
  const QuantFactors factors = UnpackFactors(block.factors);
  std::copy_n(factors.scale, 8, unit.scales);
  std::copy_n(factors.minimum, 8, unit.minima);
  for (int i = 0; i < 256; ++i) {
    unit.codes[i] = block.quants[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 0xf;
  }
}

void ReadUnit(const BlockQ4_K& block, Unit& unit) { ReadSubBlocks(block, unit); }

void ReadUnit(const BlockQ5_K& block, Unit& unit) {
  ReadSubBlocks(block, unit);
  for (int i = 0; i < 256; ++i) {
    unit.codes[i] |= static_cast<uint8_t>((block.fifth_bits[i % 32] >> i / 32 & 1) << 4);
  }
}

void ReadUnit(const BlockQ6_K& block, Unit& unit) {
  unit.scale = block.scale;
  std::memcpy(unit.scales, block.factors, 16);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, group = i / 32 % 4;
    const int low = block.low_bits[64 * half + i % 64] >> 4 * (group / 2) & 0xf;
    const int high = block.high_bits[32 * half + i % 32] >> 2 * group & 3;
    unit.codes[i] = static_cast<uint8_t>(low | high << 4);
  }
}

// Writes the codes of one output in one group, whose part of a line is four bytes.
template <QuantFormat kFormat>
void WriteCodes(const uint8_t* codes, int output, uint8_t* group) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  uint8_t lines[kQuantGroup];
  if constexpr (kLayout.bits == 8) {
    std::copy_n(codes, kQuantGroup, lines);
  } else {
    for (int i = 0; i < 16; ++i) {
      lines[i] = static_cast<uint8_t>((codes[i] & 0xf) | codes[16 + i] << 4);
    }
  }
  if constexpr (kLayout.bits == 6) {
    for (int i = 0; i < 8; ++i) {
      const uint8_t* const of_byte = codes + i / 4 * 16 + i % 4;
      lines[16 + i] = static_cast<uint8_t>(of_byte[0] >> 4 | of_byte[4] >> 4 << 2 |
                                           of_byte[8] >> 4 << 4 | of_byte[12] >> 4 << 6);
    }
  }
  for (int line = 0; line < kLayout.bits; ++line) {
    std::memcpy(group + line * kQuantLine + 4 * output, lines + 4 * line, 4);
  }
}

template <QuantFormat kFormat>
void WriteUnit(const Unit& unit, int output, uint8_t* to) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  constexpr bool kShared = kLayout.groups > 1;
  uint8_t* const halves = kShared ? to : to + kLayout.code_bytes;
  std::memcpy(halves + 2 * output, &unit.scale, 2);
  if (kLayout.minima) std::memcpy(halves + 2 * (kQuantPanel + output), &unit.minimum, 2);
  for (int g = 0; g < kLayout.groups; ++g) {
    uint8_t* const group = to + kLayout.header_bytes + g * kLayout.group_bytes;
    WriteCodes<kFormat>(unit.codes + g * kQuantGroup, output, group);
    if constexpr (kShared) {
      uint8_t* bytes = group + kLayout.code_bytes + output;
      for (int s = 0; s < kLayout.scales; ++s, bytes += kQuantPanel) {
        *bytes = unit.scales[g * kLayout.scales + s];
      }
      if (kLayout.minima) *bytes = unit.minima[g];
    }
  }
}

template <QuantFormat kFormat>
void PackPanelsOf(const QuantRows& part, int64_t k, uint8_t* to) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const int64_t units = k / (kQuantGroup * kLayout.groups);
  const int64_t outputs = RoundUp(part.rows, kQuantPanel);
  for (int64_t j = 0; j < outputs; ++j) {
    uint8_t* const panel = to + j / kQuantPanel * units * kLayout.unit_bytes;
    for (int64_t u = 0; u < units; ++u) {
      Unit unit;
      std::memset(unit.codes, kLayout.zero, sizeof(unit.codes));
      if (j < part.rows) {
        QuantBlock<kFormat> block;
        std::memcpy(&block, part.blocks + (j * units + u) * int64_t{sizeof(block)}, sizeof(block));
        ReadUnit(block, unit);
      }
      WriteUnit<kFormat>(unit, static_cast<int>(j % kQuantPanel), panel + u * kLayout.unit_bytes);
    }
  }
}

int64_t PanelBytes(const QuantRows& part, int64_t k) {
  return RoundUp(part.rows, kQuantPanel) / kQuantPanel * QuantPanelBytes(LayoutOf(part.format), k);
}

}  // namespace

void QuantMatrix::Free::operator()(uint8_t* p) const { std::free(p); }

absl::StatusOr<QuantMatrix> QuantMatrix::Create(std::span<const QuantRows> parts, int64_t k) {
  QuantMatrix matrix;
  matrix.k_ = k;
  for (const QuantRows& part : parts) {
    const QuantTraits traits = TraitsOf(part.format);
    const std::string name(traits.name);
    if (k < 1 || k % traits.block != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": rows of ", k, " numbers, expected a multiple of ", traits.block));
    }
    if (part.rows < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", part.rows, " rows, expected at least 1"));
    }
    matrix.n_ += part.rows;
    matrix.bytes_ += RoundUp(PanelBytes(part, k), kAlignment);
  }
  if (parts.empty()) return absl::InvalidArgumentError("a quantised matrix without parts");
  matrix.panels_.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, matrix.bytes_)));
  if (matrix.panels_ == nullptr) throw std::bad_alloc();
  std::memset(matrix.panels_.get(), 0, matrix.bytes_);
  uint8_t* to = matrix.panels_.get();
  for (const QuantRows& part : parts) {
    WithFormat(part.format, [&]<QuantFormat kFormat>() { PackPanelsOf<kFormat>(part, k, to); });
    matrix.parts_.push_back({part.format, part.rows, to});
    to += RoundUp(PanelBytes(part, k), kAlignment);
  }
  return matrix;
}

}  // namespace recollect::kernels
