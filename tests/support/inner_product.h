// The inner product that oracles take, in double and in order. It is in a library because tests are
// compiled without the optimiser, which the products of the shipped model need.
#pragma once

#include <span>

namespace recollect {

// Σ a[i] · b[i]. REQUIRES: as many of one as of the other.
double InnerProduct(std::span<const float> a, std::span<const double> b);

}  // namespace recollect
