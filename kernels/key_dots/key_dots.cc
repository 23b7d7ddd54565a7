#include "kernels/key_dots/key_dots.h"

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP(KeyDots)

void KeyDots(OpContext& ctx, const float* q, const Bf16* keys, int64_t rows, int64_t width,
             float* dots) {
  kKeyDots(ctx, q, keys, rows, width, dots);
}

}  // namespace recollect::kernels
