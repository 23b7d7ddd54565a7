// The choice of the next token (sample.h) as an operation of a device.
#ifndef RECOLLECT_KERNELS_SAMPLE_SAMPLE_OPERATION_H_
#define RECOLLECT_KERNELS_SAMPLE_SAMPLE_OPERATION_H_

#include <cstdint>

#include "kernels/sample/sample.h"

namespace recollect::kernels {

// choices[rows] = Sample of each row of logits under its settings. Pointers are device memory,
// borrowed until the work is done.
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

#endif  // RECOLLECT_KERNELS_SAMPLE_SAMPLE_OPERATION_H_
