// Grouped Cross-Attention (gca.h) on a CUDA device, for a batch of groups of rows, each with its
// own chunks: the rows of a decode step of many sessions, or the blocks of a prefill.
//   s_j = q·K_j / sqrt(head_dim);  p_j = exp(s_j) / (1 + Σ_i exp(s_i));  out = Σ_e w_e Σ_j p_j V_j
// (without the 1 where the shape is not off by one) from Bf16 memory, chunks in the order given; no
// chunks: out = 0. q fp32: all in fp32. q Bf16: both products on tensor cores with fp32 sums, and
// exp(s_j) rounded to Bf16 in the second, not in the denominator. Chunk rows are read in place,
// through the views. A row's bits do not depend on the other rows, on its group as long as the
// chunks are the same, or on the plan's way; with q Bf16 they are those of one kind of device. No
// atomics.
//   plan = PlanGca(shape, sizes, DType::kBf16);         // gca_plan.h
//   CheckGca(plan, groups, chunks);                     // host copies, before the upload
//   Launch(stream, GcaOp{plan, q, groups, count, chunks, weights, workspace, out});
#ifndef RECOLLECT_KERNELS_GCA_GCA_CUDA_H_
#define RECOLLECT_KERNELS_GCA_GCA_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/gca/gca_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch by group, two by chunk, none without groups. Launch
// sizes depend on plan and group_count alone, so a captured graph can be replayed with other
// groups. Statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const GcaOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_GCA_GCA_CUDA_H_
