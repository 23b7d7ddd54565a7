// The weights of a sample (sample.h), the same on the CPU and on a device.
#pragma once

#include "kernels/cuda/cuda_math.h"

namespace recollect::kernels::cuda {

// The weight of the greatest logit. A row of 2^31 logits sums to less than 2^63.
constexpr uint64_t kGreatestWeight = uint64_t{1} << 32;

RECOLLECT_HD uint64_t WeightOf(float logit, float greatest, float temperature) {
  if (logit == greatest) return kGreatestWeight;  // infinity, too
  const float exponent = Div(Add(logit, -greatest), temperature);
  if (!(exponent > -23.0f)) return 0;  // below one unit, or NaN from infinities
  return static_cast<uint64_t>(Mul(Exp(exponent), static_cast<float>(kGreatestWeight)));
}

// The least weight that is `share` of `total` or more. REQUIRES: share in (0, 1], total > 0.
RECOLLECT_HD uint64_t ShareOf(double share, uint64_t total) {
  const double product = share * static_cast<double>(total);
  auto weight = static_cast<uint64_t>(product);
  if (static_cast<double>(weight) < product) ++weight;
  return weight < total ? weight : total;  // `total` may be rounded up as a double
}

// The weight before the token that is drawn; less than `total`.
RECOLLECT_HD uint64_t WeightBefore(double draw, uint64_t total) {
  const auto weight = static_cast<uint64_t>(draw * static_cast<double>(total));
  return weight < total ? weight : total - 1;
}

}  // namespace recollect::kernels::cuda
