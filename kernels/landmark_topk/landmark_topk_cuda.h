// Exact landmark search (landmark_topk.h) on a CUDA device, for a batch of queries over one list of
// segments.
//   r_e = <u, κ_e> / sqrt(d_k), products and sums in fp32, in the order of kernels/cuda/cuda_math.h
// Ties go to the earlier candidate, scores that are not finite rank last: the order of
// landmark_topk.h. A query's result has the same bits with any other queries, any division of the
// candidates into segments, and any number of multiprocessors. No result depends on the order of
// atomic operations.
//   plan = PlanLandmarkTopK(sizes, multiprocessors);   // landmark_topk_plan.h
//   Launch(stream, LandmarkTopKOp{plan, queries, segments, workspace, candidates, scores});
#ifndef RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_CUDA_H_
#define RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"

namespace recollect::kernels {

// Returns before the work is done. Keys may have any alignment unless the plan's sizes say that
// they are aligned; they are read fastest where these do, and else at multiples of 16 bytes with
// d_k a multiple of 8. Two launches, four with a filter, none when there is
// nothing to find. A device whose thread blocks cannot have the shared memory of a filter (186 KB
// for width 256) searches by tiles. Statuses
// of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const LandmarkTopKOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_CUDA_H_
