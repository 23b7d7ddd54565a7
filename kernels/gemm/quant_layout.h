// How quantised weights lie in memory for products, and what the code of each instruction set gets
// and gives. Plain structures and constants alone: vector code includes this (kernels/cpu/simd.h).
//
// The outputs of a matrix are cut into panels of 16, and k into groups of 32. A panel has its
// groups in order of k:
//
//   group   codes [bits * 64 bytes], then scales: one fp16 for each of the 16 outputs, and then one
//           fp16 minimum each, if the format has minima
//
// Formats with blocks of 256 numbers have 8 groups in a unit, which begins with what they share:
//
//   unit    fp16 scale [16], fp16 minimum [16] if the format has minima, 8 groups
//   group   codes, then one byte of scale for each output and half group (Q6_K) or group, then one
//           byte of minimum each, if the format has minima
//
// A code is kept without sign, q + zero. Codes are in lines of 64 bytes: byte 4 j + t of line i
// belongs to output j and to number 4 i + t of the group, the order in which VNNI and AMX multiply.
// With 8 bits there are 8 lines. With fewer, line i of 4 has number 4 i + t in its lower 4 bits and
// number 16 + 4 i + t in its upper ones. With 6 bits two more lines have bits 4 and 5: of line h,
// bits 2 f and 2 f + 1 are those of number 16 h + 4 f + t.
#pragma once

#include <cstdint>

#include "kernels/quant/quant_blocks.h"

namespace recollect::kernels {

inline constexpr int kQuantPanel = 16;     // outputs
inline constexpr int kQuantGroup = 32;     // numbers along k
inline constexpr int kQuantLine = 64;      // bytes
inline constexpr int kQuantTileRows = 16;  // that AMX multiplies at once
// A tile of fewer rows takes as long as one of 16, longer than vectors need (Sapphire Rapids).
inline constexpr int kFewestTileRows = 13;

struct PanelLayout {
  int bits = 0;  // of a code as it is kept; 5 bits are kept in 6
  int zero = 0;  // the code of q = 0
  bool minima = false;
  int groups = 1;      // of a unit
  int scales = 1;      // of a group and output
  int code_bytes = 0;  // of a group
  int group_bytes = 0;
  int header_bytes = 0;
  int unit_bytes = 0;
};

constexpr PanelLayout Sized(PanelLayout layout) {
  const int halves = kQuantPanel * (layout.minima ? 2 : 1) * 2;
  layout.code_bytes = layout.bits * kQuantLine;
  const bool shared = layout.groups > 1;
  layout.header_bytes = shared ? halves : 0;
  layout.group_bytes = layout.code_bytes +
                       (shared ? kQuantPanel * (layout.scales + (layout.minima ? 1 : 0)) : halves);
  layout.unit_bytes = layout.header_bytes + layout.groups * layout.group_bytes;
  return layout;
}

// By format.
inline constexpr PanelLayout kPanelLayouts[] = {
    Sized({.bits = 8, .zero = 128}),                            // Q8_0
    Sized({.bits = 4, .zero = 8}),                              // Q4_0
    Sized({.bits = 4, .minima = true}),                         // Q4_1
    Sized({.bits = 6, .zero = 16}),                             // Q5_0
    Sized({.bits = 6, .minima = true}),                         // Q5_1
    Sized({.bits = 4, .minima = true, .groups = 8}),            // Q4_K
    Sized({.bits = 6, .minima = true, .groups = 8}),            // Q5_K
    Sized({.bits = 6, .zero = 32, .groups = 8, .scales = 2})};  // Q6_K

constexpr PanelLayout LayoutOf(QuantFormat format) {
  return kPanelLayouts[static_cast<int>(format)];
}

// Bytes of a panel of k numbers.
constexpr int64_t QuantPanelBytes(const PanelLayout& layout, int64_t k) {
  return k / (kQuantGroup * layout.groups) * layout.unit_bytes;
}

// Outputs of one format, padded to whole panels by outputs that are zero. Borrows the bytes.
struct QuantPanels {
  QuantFormat format = QuantFormat::kQ8_0;
  int64_t outputs = 0;
  const uint8_t* bytes = nullptr;
};

// A group of a rounded row: x is about scale * code.
struct QuantGroup {
  float scale = 0;
  float sum = 0;         // scale times the sum of the codes
  int32_t negative = 0;  // the sum of the codes, times -1
  int32_t lower = 0;     // the sum of the first 16 codes, times -1
};

// Rounded rows: codes[rows, k], groups[rows, k / 32]; for code of many rows both go on with zeros
// to the next multiple of 16 rows.
struct QuantInput {
  const int8_t* codes = nullptr;
  const QuantGroup* groups = nullptr;
  int64_t rows = 0;
  int64_t k = 0;
};

// Bytes of scratch that a product needs: a panel's codes in 8 bits.
constexpr int64_t QuantScratchBytes(int64_t k) { return k * kQuantPanel; }

// Rounds x[rows, k] to codes and groups, as kernels/gemm/quant_gemm.h says.
using RoundQuantRows = void(const float* x, int64_t rows, int64_t k, int8_t* codes,
                            QuantGroup* groups);
// Writes y[rows, outputs], rows `stride` floats apart. `scratch` begins at a multiple of 64.
using MultiplyQuantPanels = void(const QuantPanels& panels, const QuantInput& x, float* y,
                                 int64_t stride, uint8_t* scratch);

}  // namespace recollect::kernels
