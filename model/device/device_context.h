// The context that the functions of a DeviceModel (device_layers.h) share: the device, config and
// weights of the model, and memory that is kept between calls. Private to model/device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/device/graph_device.h"
#include "model/config/config.h"
#include "model/device/device_tables.h"
#include "model/device/device_weights.h"

namespace recollect::model {

// The contents of the memory that is kept between calls.
enum class DeviceScratch {
  kNormed,     // rows after RMS, input of a projection
  kProjected,  // output of a first projection
  kQkv,        // queries, keys and values in bf16
  kAttended,   // output of attention
  kSomeHeads,  // attention of some heads, where heads have different patterns
  kInner,      // output of the gate or of the FFN's activation
  kSum,        // a + gca of the "bypass" residual; rows of the chunk encoder
  kKeys,       // keys of the chunk encoder and of memory; queries of GCA
  kValues,     // values likewise; what GCA reads
  kRows,       // gathered rows
  kState,      // recurrence inside chunks; carried rows of the chunk encoder
  kRounded,
  kQueryFeatures,
  kKeyFeatures,
  kRawKeys,
  kLinear,  // output of linear attention
  kLists,   // entries that queries have chosen
  kWorkspace,
  kTables,
  kSlots
};

// Used by one thread at a time. Borrows the device.
struct DeviceContext {
  DeviceContext(kernels::Device& under, const ModelConfig& model_config, DType products)
      : device(under), config(model_config), dtype(products) {}

  // Returns the memory of `slot`, at least of the size given; its earlier contents may be lost.
  absl::StatusOr<void*> Bytes(DeviceScratch slot, int64_t bytes);
  absl::StatusOr<float*> Floats(DeviceScratch slot, int64_t count);
  // The same for rows that a product reads.
  absl::StatusOr<kernels::DeviceRows> Operand(DeviceScratch slot, int64_t count);
  // Returns x itself, or its conversion to bf16 in `slot`.
  absl::StatusOr<kernels::DeviceRows> AsOperand(DeviceScratch slot, const float* x, int64_t count);

  const DeviceLayer& layer(int index) const { return weights.layers[static_cast<size_t>(index)]; }

  absl::Status Upload(DeviceTables& tables);
  // Runs copies, none of which reads what another writes.
  absl::Status Copy(const std::vector<kernels::DeviceCopy>& copies);
  // Copies rows [d] to kRows, one after the other.
  absl::StatusOr<float*> Gather(std::span<const float* const> rows);
  // y[rows, d] = RMS(x) * gain
  absl::Status RmsNorm(const float* x, int64_t rows, const float* gain, float eps,
                       const kernels::DeviceRows& y);
  absl::Status Product(const DeviceMatrix& matrix, const kernels::DeviceRows& x, int64_t rows,
                       float* y, bool add = false);

  kernels::GraphDevice device;  // in front of the one that is borrowed
  const ModelConfig config;
  const DType dtype;  // of the products
  DeviceWeights weights;
  kernels::OpContext host;  // for what the host computes
  std::array<std::shared_ptr<kernels::DeviceBuffer>, static_cast<size_t>(DeviceScratch::kSlots)>
      scratch;
};

}  // namespace recollect::model
