// The inner product that oracles take, in double and in order. It is in a library because tests are
// compiled without the optimiser, which the products of the shipped model need.
#ifndef RECOLLECT_TESTS_SUPPORT_INNER_PRODUCT_H_
#define RECOLLECT_TESTS_SUPPORT_INNER_PRODUCT_H_

#include <span>

namespace recollect {

// Σ a[i] · b[i]. REQUIRES: as many of one as of the other.
double InnerProduct(std::span<const float> a, std::span<const double> b);

}  // namespace recollect

#endif  // RECOLLECT_TESTS_SUPPORT_INNER_PRODUCT_H_
