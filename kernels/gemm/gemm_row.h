// Multiplies one row by weights in bf16 with vectors, and gives the bits of oneDNN's product on
// AMX. A register of AMX takes as long for one row as for sixteen, and oneDNN does not ask for
// weights before it needs them; the row of a token is bound by reading them. Private to gemm/.
//
// AMX adds 32 numbers of k at a time: y += (Σ of the even products) + (Σ of the odd ones), each sum
// in a chain of fused fp32 operations from 0 on, with denormal numbers taken for 0.
#pragma once

#include <cstdint>

#include "base/numeric/bf16.h"
#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gemm/gemm_tiles.h"

namespace recollect::kernels {

// Returns whether GemmRow gives test rows the bits of this plan's tiles, with weights [n, k] that
// lie as it expects. Kept for the life of the process, as plans are.
bool RowHasBitsOf(const Plan& plan, int64_t n, int64_t k, DType dtype);

// Computes y[n] = x[k] Wᵀ of weights for which RowHasBitsOf, on the team if there is one.
void GemmRow(OpContext& ctx, const dnnl::memory& weights, int64_t n, int64_t k, const Bf16* x,
             float* y);

// Lists the weights for a team. REQUIRES: ctx has one.
void ReadRowSoon(OpContext& ctx, const dnnl::memory& weights, int64_t n, int64_t k);

}  // namespace recollect::kernels
