// The tensors of a checkpoint (weights.h) in the memory of a device: matrices [n, k] row-major in
// the number format of the products, all else fp32. Where RAT's heads share queries and keys, each
// head has its own copy of their rows, and the matrix is laid out as RAT+'s. Private to model/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/device/device.h"
#include "model/config/config.h"
#include "model/weights/tensor_file.h"
#include "model/weights/weights.h"

namespace recollect::model {

struct DeviceMatrix {
  const void* data = nullptr;
  int64_t n = 0, k = 0;
};

struct DeviceTensors {
  using Vector = const float*;  // null: the config has no such tensor
  using Matrix = DeviceMatrix;
  using Rows = const float*;
};
// The matrix in_proj of mixers with a recurrence has rows o, q, k, v, g.
using DeviceMixer = MixerWeightsOf<DeviceTensors>;
using DeviceFfn = FfnWeightsOf<DeviceTensors>;
using DeviceGca = GcaWeightsOf<DeviceTensors>;
using DeviceLayer = LayerWeightsOf<DeviceTensors>;
using DeviceEncoderLayer = EncoderLayerWeightsOf<DeviceTensors>;

struct DeviceWeights : WeightsOf<DeviceTensors> {
  std::shared_ptr<kernels::DeviceBuffer> owner;  // of all tensors
};

// Every shape of product that a model of this config has, each once.
std::vector<kernels::GemmShape> DeviceProducts(const ModelConfig& config, DType dtype);

// `adapter`: the file of the model's memory adapter, of which the GCA alone is loaded; null: none.
// REQUIRES: Model::Load has accepted the files; a tensor that has since disappeared is
// INVALID_ARGUMENT. RESOURCE_EXHAUSTED, UNAVAILABLE: the device.
absl::StatusOr<DeviceWeights> LoadDeviceWeights(kernels::Device& device, const TensorFile& file,
                                                const TensorFile* adapter,
                                                const ModelConfig& config, DType dtype);

}  // namespace recollect::model
