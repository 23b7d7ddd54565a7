// The operations of a device, as values: a Device runs them, and a GraphDevice compares them to
// find steps that repeat. Each is declared beside its contract, with its plan or its sizes; a row
// has the same bits in any batch.
//   device.Run(AddOp{.x = x, .count = count, .y = y});
#pragma once

#include <variant>

#include "kernels/block_topk/block_bounds_plan.h"
#include "kernels/block_topk/block_topk_plan.h"
#include "kernels/copy/copy_plan.h"
#include "kernels/elementwise/elementwise_operations.h"
#include "kernels/gated_scan/gated_scan_plan.h"
#include "kernels/gca/gca_plan.h"
#include "kernels/gemm/gemm_cuda_plan.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"
#include "kernels/linear_attention/linear_attention_plan.h"
#include "kernels/pointer_mix/pointer_mix_operation.h"
#include "kernels/range_attention/range_attention_plan.h"
#include "kernels/rope/rope_operation.h"
#include "kernels/sample/sample_operation.h"
#include "kernels/sparse_topk/sparse_topk_plan.h"
#include "kernels/tile_attention/tile_attention_plan.h"

namespace recollect::kernels {

// The list of all operations of a device: EACH(Op) for every one.
// clang-format off
#define RECOLLECT_OPERATIONS(EACH) \
  EACH(AddOp) EACH(BlockBoundsOp) EACH(BlockTopKOp) EACH(ConvertToBf16Op) EACH(CopyOp) \
  EACH(FeaturesOp) EACH(GatedScanOp) EACH(GcaOp) EACH(GeGluOp) EACH(GeluOp) EACH(GemmOp) \
  EACH(LandmarkTopKOp) EACH(LinearAttentionOp) EACH(MixPointedOp) EACH(RangeAttentionOp) \
  EACH(RmsNormOp) EACH(RopeOp) EACH(SampleOp) EACH(SigmoidGateOp) EACH(SparseTopKOp) \
  EACH(SwiGluOp) EACH(TileAttentionOp) EACH(ZeroOp)
// clang-format on

// RECOLLECT_ALTERNATIVE puts a comma before each operation, so the list begins with void, which
// OneOf drops.
template <typename, typename... Ops>
using OneOf = std::variant<Ops...>;
#define RECOLLECT_ALTERNATIVE(Op) , Op
using Operation = OneOf<void RECOLLECT_OPERATIONS(RECOLLECT_ALTERNATIVE)>;
#undef RECOLLECT_ALTERNATIVE

// Whether graphs hold operations of this kind (graph_device.h). Those whose arguments change from
// step to step are left out: they have a member kChangesEachStep.
inline bool InGraphs(const Operation& operation) {
  return std::visit(
      []<typename Op>(const Op&) {
        return !requires { Op::kChangesEachStep; };
      },
      operation);
}

}  // namespace recollect::kernels
