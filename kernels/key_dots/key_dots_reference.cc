#include "kernels/key_dots/key_dots.h"

namespace recollect::kernels::reference {

// In fp32, unlike other references: vector code has these bits.
void KeyDots(OpContext&, const float* q, const Bf16* keys, int64_t rows, int64_t width,
             float* dots) {
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += q[i] * keys[i * rows + r].ToFloat();
    dots[r] = sum;
  }
}

}  // namespace recollect::kernels::reference
