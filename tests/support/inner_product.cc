#include "tests/support/inner_product.h"

#include <numeric>

#include "base/check.h"

namespace recollect {

double InnerProduct(std::span<const float> a, std::span<const double> b) {
  RECOLLECT_CHECK(a.size() == b.size());
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace recollect
