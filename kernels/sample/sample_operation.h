// The next token (sample.h) of every row of logits on a device, so that only one number per row is
// copied to the host.
#pragma once

#include <cstdint>

#include "kernels/sample/sample.h"

namespace recollect::kernels {

// choices[rows] = Sample of each row of logits under its settings: the choices of the host.
// Pointers are device memory, borrowed until the work is done. Logits at multiples of 16 bytes with
// vocab a multiple of four are read fastest. A row with temperature 0 is read once; each of top-k,
// top-p and the draw reads it, in cache, 8 to 16 times more. INVALID_ARGUMENT by CheckRows.
struct SampleOp {
  static constexpr bool kChangesEachStep = true;  // kernels/device/operation.h
  const float* logits = nullptr;                  // [rows, vocab] fp32, dense
  int64_t rows = 0;
  int32_t vocab = 0;
  NeverChosen never;
  const SampleSettings* settings = nullptr;  // [rows]
  int32_t* choices = nullptr;                // [rows]
  friend bool operator==(const SampleOp&, const SampleOp&) = default;
};

}  // namespace recollect::kernels
