#include "kernels/sample/row_greatest.h"

#include <limits>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
namespace reference {

float RowGreatest(OpContext&, const float* x, int64_t count) {
  float greatest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] > greatest) greatest = x[i];
  }
  return greatest;
}

}  // namespace reference
RECOLLECT_CPU_OP(RowGreatest)

float RowGreatest(OpContext& ctx, const float* x, int64_t count) {
  return kRowGreatest(ctx, x, count);
}

}  // namespace recollect::kernels
