// The operations of a model's step on a device. Unless said otherwise, pointers are device memory,
// borrowed until the work is done; host arrays are borrowed until the call returns. The header
// named above an operation is its contract; a row has the same bits in any batch. Order of calls
// and statuses: kernels/device/device.h.
#ifndef RECOLLECT_KERNELS_DEVICE_DEVICE_OPERATIONS_H_
#define RECOLLECT_KERNELS_DEVICE_DEVICE_OPERATIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/bf16.h"
#include "base/types.h"
#include "kernels/block_topk/block_bounds_plan.h"
#include "kernels/block_topk/block_topk_plan.h"
#include "kernels/copy/copy_plan.h"
#include "kernels/device/row_sizes.h"
#include "kernels/gated_scan/gated_scan_plan.h"
#include "kernels/gca/gca_plan.h"
#include "kernels/gemm/gemm_cuda_plan.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"
#include "kernels/linear_attention/linear_attention_plan.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "kernels/range_attention/range_attention_plan.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/sample.h"
#include "kernels/tile_attention/tile_attention_plan.h"

namespace recollect::kernels {

// Dense rows in the number format of the product that reads them.
struct DeviceRows {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  friend bool operator==(const DeviceRows&, const DeviceRows&) = default;
};

// Calls function(float*) or function(Bf16*). For implementations of a device.
template <typename Function>
absl::Status WithNumbers(const DeviceRows& rows, Function function) {
  if (rows.dtype == DType::kBf16) return function(static_cast<Bf16*>(rows.data));
  return function(static_cast<float*>(rows.data));
}

class DeviceOperations {
 public:
  virtual ~DeviceOperations() = default;

  virtual absl::Status Zero(void* to, int64_t bytes) = 0;
  // copy_cuda.h: copies[count], none of which reads what another writes; the longest has
  // `most_bytes`.
  virtual absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) = 0;

  // gemm_cuda.h. The first call for a shape is slow, unless Device::PrepareGemm was called for it.
  virtual absl::Status Gemm(const GemmShape& shape, const void* weights, const void* x,
                            int64_t rows, void* y) = 0;

  // elementwise_cuda.h
  virtual absl::Status RmsNorm(const RowSizes& sizes, const float* x, const float* gain, float eps,
                               const DeviceRows& y) = 0;
  virtual absl::Status RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain,
                                     float eps, float* y) = 0;
  virtual absl::Status SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) = 0;
  virtual absl::Status GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) = 0;
  virtual absl::Status Gelu(const float* x, int64_t count, const DeviceRows& y) = 0;
  virtual absl::Status SigmoidGate(const float* gate, int64_t gate_stride, const float* x,
                                   int64_t rows, int64_t width, const DeviceRows& y) = 0;
  virtual absl::Status Add(const float* x, int64_t count, float* y) = 0;
  virtual absl::Status ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                                     Bf16* y) = 0;
  absl::Status ConvertToBf16(const float* x, int64_t count, Bf16* y) {
    return ConvertToBf16(x, count, 1, count, y);
  }

  // rope_cuda.h, gated_scan_cuda.h, range_attention_cuda.h, tile_attention_cuda.h, gca_cuda.h,
  // landmark_topk_cuda.h, block_bounds_cuda.h, block_topk_cuda.h, features_cuda.h,
  // linear_attention_cuda.h, pointer_mix_cuda.h, sample_cuda.h
  virtual absl::Status Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                            const float* sines, float* x) = 0;
  virtual absl::Status GatedScan(const GatedScanPlan& plan,
                                 const GatedScanDeviceArrays& arrays) = 0;
  virtual absl::Status RangeAttention(const RangeAttentionPlan& plan,
                                      const RangeDeviceArrays& arrays) = 0;
  virtual absl::Status TileAttention(const TileAttentionPlan& plan,
                                     const TileDeviceArrays& arrays) = 0;
  virtual absl::Status Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) = 0;
  virtual absl::Status LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                                    const SegmentStart* segments, void* workspace,
                                    const DeviceTopK& best) = 0;
  virtual absl::Status BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) = 0;
  virtual absl::Status BlockTopK(const BlockTopKPlan& plan,
                                 const BlockTopKDeviceArrays& arrays) = 0;
  virtual absl::Status Features(FeatureMap map, const RowSizes& sizes, const float* x,
                                const float* scale, float* features) = 0;
  virtual absl::Status LinearAttention(const LinearAttentionPlan& plan,
                                       const LinearAttentionDeviceArrays& arrays) = 0;
  virtual absl::Status MixPointed(int64_t rows, int64_t vocab, int32_t sentinel,
                                  const PointedToken* pointed, const int64_t* ends,
                                  float* logits) = 0;
  virtual absl::Status Sample(const float* logits, int64_t rows, int32_t vocab,
                              const NeverChosen& never, const SampleSettings* settings,
                              int32_t* choices) = 0;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_DEVICE_OPERATIONS_H_
