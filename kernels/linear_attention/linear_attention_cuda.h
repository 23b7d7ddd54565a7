// Linear attention (linear_attention.h) on a CUDA device, for segments of many sequences: the rows
// of a decode step, or the slices of prefills. For each position, in order,
//   S = S + φ(k) vᵀ of the position that enters;   out = φ(q)ᵀ (S + S_0)
// in fp32. The caller passes φ(q) and φ(k), as on the CPU (features_cuda.h), and S, which is zeros
// for a fresh sequence and is kept and restored as it is.
//   plan = PlanLinearAttention({segments, {heads, kv_heads, head_dim}});  // …_plan.h
//   CheckLinearAttention(plan, segments);  // host copies, before the upload
//   Launch(stream, LinearAttentionOp{plan, segments, count, initial});
//
// Time is never cut: positions enter one after the other with one Fma each, and a read adds its
// features in an order that depends on head_dim alone. So a row has the same bits in any division
// of a sequence into calls, in any batch, from a prefill and from a decode step. What runs in
// parallel is sequences, key-value heads, columns of S and features; S is read and written once a
// call, and a chunk's products are not turned into matrix products, whose order would show in the
// bits.
#ifndef RECOLLECT_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_CUDA_H_
#define RECOLLECT_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/linear_attention/linear_attention_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch, none without segments. No workspace. Launch sizes
// depend on plan and segment_count alone, so a captured graph can be replayed with other segments.
// INVALID_ARGUMENT when there are more segments than planned; else statuses of
// kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const LinearAttentionOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_CUDA_H_
