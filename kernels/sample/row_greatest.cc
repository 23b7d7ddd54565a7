#include "kernels/sample/row_greatest.h"

#include <limits>

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(RowGreatest)

namespace reference {

float RowGreatest(OpContext&, const float* x, int64_t count) {
  float greatest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] > greatest) greatest = x[i];
  }
  return greatest;
}

}  // namespace reference
}  // namespace recollect::kernels
