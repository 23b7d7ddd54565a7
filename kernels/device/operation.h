// The operations of a device, as values: what a kernels::Device runs and compares. Each is declared
// beside its contract, with its plan or its sizes; a row has the same bits in any batch.
//   device.Run(AddOp{.x = x, .count = count, .y = y});
#ifndef RECOLLECT_KERNELS_DEVICE_OPERATION_H_
#define RECOLLECT_KERNELS_DEVICE_OPERATION_H_

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
#include "kernels/tile_attention/tile_attention_plan.h"

namespace recollect::kernels {

using Operation =
    std::variant<AddOp, BlockBoundsOp, BlockTopKOp, ConvertToBf16Op, CopyOp, FeaturesOp,
                 GatedScanOp, GcaOp, GeGluOp, GeluOp, GemmOp, LandmarkTopKOp, LinearAttentionOp,
                 MixPointedOp, RangeAttentionOp, RmsNormOp, RopeOp, SampleOp, SigmoidGateOp,
                 SwiGluOp, TileAttentionOp, ZeroOp>;

// Whether graphs hold operations of this kind (graph_device.h). Those whose arguments change from
// step to step are left out.
inline bool InGraphs(const Operation& operation) {
  return !std::holds_alternative<LandmarkTopKOp>(operation) &&
         !std::holds_alternative<MixPointedOp>(operation) &&
         !std::holds_alternative<SampleOp>(operation);
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_OPERATION_H_
