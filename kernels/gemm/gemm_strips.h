// Strips of a matrix's outputs, which a team of threads (kernels/cpu/op_team.h) multiplies side by
// side. A strip is a part of the packed weights where they lie, and gives its outputs the bits
// that the product of all outputs gives them. Private to gemm/.
#pragma once

#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gemm/gemm_tiles.h"

namespace recollect::kernels {

struct Strip {
  int64_t first = 0;  // output
  int64_t outputs = 0;
  int64_t at_byte = 0;  // of the packed weights
  std::shared_ptr<const Plan> plan;
};

// Returns the strips of weights [n, k] that are packed by `plan`, in their order; empty where the
// layout cannot be cut, or where a strip of test weights has other bits than the whole. Kept for
// the life of the process, as plans are.
std::shared_ptr<const std::vector<Strip>> StripsFor(const Plan& plan, int64_t n, int64_t k,
                                                    DType dtype);

// The weights of one strip of `packed`, borrowed.
dnnl::memory WeightsOf(const Strip& strip, const dnnl::memory& packed);

}  // namespace recollect::kernels
