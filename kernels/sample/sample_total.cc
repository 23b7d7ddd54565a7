#include "kernels/sample/sample_total.h"

#include "kernels/sample/sample_weights.h"

namespace recollect::kernels {
namespace reference {

uint64_t SampleTotal(OpContext&, const float* logits, int64_t count, float greatest,
                     float temperature) {
  uint64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (logits[i] <= greatest) total += cuda::WeightOf(logits[i], greatest, temperature);
  }
  return total;
}

}  // namespace reference
RECOLLECT_CPU_OP_CODE(SampleTotal)

}  // namespace recollect::kernels
