// The tensors of a checkpoint (weights.h) in the memory of a device: matrices [n, k] row-major in
// the number format of the products, all else fp32. Where RAT's heads share queries and keys, each
// head has its own copy of their rows, and the matrix is laid out as RAT+'s. Private to model/.
#ifndef RECOLLECT_MODEL_DEVICE_DEVICE_WEIGHTS_H_
#define RECOLLECT_MODEL_DEVICE_DEVICE_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/device/device.h"
#include "model/config/config.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

struct DeviceMatrix {
  const void* data = nullptr;  // null: the config has no such matrix
  int64_t n = 0, k = 0;
  explicit operator bool() const { return data != nullptr; }
};

struct DeviceFfn {
  const float* norm = nullptr;
  DeviceMatrix in_proj, out_proj;
};

// As MixerWeights; null: the mixer has no such weights.
struct DeviceMixer {
  const float* norm = nullptr;
  const float* gate_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
  const float* alibi_slopes = nullptr;
  const float *swa_norm = nullptr, *rla_norm = nullptr;
  const float *q_scale = nullptr, *k_scale = nullptr;
  const float* initial = nullptr;
  DeviceMatrix in_proj;  // rows o, q, k, v, g of mixers with a recurrence, else q, k, v
  DeviceMatrix out_proj;
};

struct DeviceLayer {
  DeviceMixer mixer;
  const float* gca_norm = nullptr;  // null: no GCA
  DeviceMatrix gca_q_proj, gca_out_proj;
  float gca_norm_eps = 0;
  int memory_layer = 0;  // of the layers whose K, V a chunk has, one behind the other
  DeviceFfn ffn;
};

struct DeviceQuery {
  const float* norm = nullptr;
  DeviceMatrix proj;
};

struct DeviceEncoderLayer {
  const float* attn_norm = nullptr;
  DeviceMatrix attn_in_proj, attn_out_proj;
  DeviceFfn ffn;
};

struct DeviceEncoder {
  const float *cls = nullptr, *in_norm = nullptr, *out_norm = nullptr;
  DeviceMatrix carry_proj, landmark_proj;
  std::vector<DeviceEncoderLayer> layers;
};

struct DeviceWeights {
  const float* embed = nullptr;  // [vocab_size, d]
  DeviceMatrix head;             // the same tensor
  std::vector<DeviceLayer> layers;
  std::vector<DeviceQuery> queries;  // one per group
  DeviceEncoder encoder;
  DeviceMatrix memory_k_proj, memory_v_proj, memory_gate_proj;
  const float* final_norm = nullptr;

  std::shared_ptr<kernels::DeviceBuffer> memory;  // of all tensors
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

#endif  // RECOLLECT_MODEL_DEVICE_DEVICE_WEIGHTS_H_
