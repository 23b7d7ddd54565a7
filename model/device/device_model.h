// A model on a device: the functions of Model (model.h) for rows of many sequences at once, in the
// memory of a kernels::Device. It computes the same formulas in the same order, with one launch or
// two for each operation of a layer, whatever the number of sequences. Tables hold the data that
// differs between sequences; the host makes them for all layers of a call and uploads them once.
// The steps of a decode are therefore repetitions of the same launches and run as graphs.
//
// Each row's result has the same bits whatever other rows are in the call and however a sequence is
// divided into calls. The bits are not those of the CPU, since sums have another order. Statuses
// are the device's; after one that is not OK, the states of the call are inconsistent and must not
// be used further.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "kernels/device/device.h"
#include "kernels/device/graph_device.h"
#include "model/chunk.h"
#include "model/device/device_state.h"
#include "model/model.h"

namespace recollect::model {

// Consecutive rows of one sequence inside a batch, like Segment. Segments that share a state are
// adjacent.
struct DeviceSegment {
  DeviceState* state = nullptr;
  int64_t rows = 0;                      // at most 64 if they read memory
  const Retrieved* retrieved = nullptr;  // chunks in the device's memory; null or empty: none

  bool reads_memory() const { return retrieved != nullptr && !retrieved->chunks.empty(); }
};

// Rows [d] of a closed block after the last lower layer, landmark and tokens in the sequence's
// order: first those at `before`, then those at `here`, both dense, in device memory.
struct DeviceBlock {
  const float* before = nullptr;
  int64_t rows_before = 0;
  const float* here = nullptr;
  int64_t rows_here = 0;

  int64_t rows() const { return rows_before + rows_here; }  // the landmark and at least a token
};

// Chunk states as they are stored, in RAM: [rows, d].
struct StoredStates {
  std::span<const Bf16> states;
  int rows = 0;
  const kernels::DeviceBuffer* uploaded = nullptr;  // of BeginUpload; replaces `states`
};

// Memory K, V of one chunk on the device.
struct DeviceMemory {
  std::shared_ptr<kernels::DeviceBuffer> owner;
  kernels::MemoryView view;
};

struct DeviceContext;

// Returns INVALID_ARGUMENT, naming the size, when a model of this config and number format has
// sizes that the device code does not support.
absl::Status CheckDeviceConfig(const ModelConfig& config, DType dtype);

// Used by one thread at a time, except for BeginUpload. Borrows the device. Runs the GCA of a
// memory adapter and nothing else of it: EncodeChunks, Queries and ProjectMemory are CpuModel's
// then, and so is the pointer head.
class DeviceModel {
 public:
  // Loads the weights from the files that `model` was loaded from, in its number format.
  // Statuses of CheckDeviceConfig; RESOURCE_EXHAUSTED and UNAVAILABLE from the device.
  static absl::StatusOr<std::unique_ptr<DeviceModel>> Load(kernels::Device& device,
                                                           const Model& model);

  ~DeviceModel();

  const ModelConfig& config() const;
  DType dtype() const;  // of the products
  kernels::Device& device() const { return device_; }
  const kernels::GraphDevice& graphs() const;

  // Runs copies on the device, none of which reads what another writes.
  absl::Status Copy(const std::vector<kernels::DeviceCopy>& copies);

  // Writes h[rows, d] on the device = embedding of ids.
  absl::Status Embed(std::span<const int32_t> ids, float* h);

  // Runs decoder layers first .. first + count - 1 in place on h[rows, d], rows = sum over
  // segments; the states advance in those layers.
  absl::Status RunLayers(int first, int count, std::span<const DeviceSegment> segments, float* h);

  // Returns each block's landmark key and chunk states, in RAM. REQUIRES: 2 to chunk_tokens + 1
  // rows each.
  absl::StatusOr<std::vector<EncodedChunk>> EncodeChunks(std::span<const DeviceBlock> blocks);

  // Writes u[rows, d_r] in RAM = `group`'s queries for landmark rows [d] on the device.
  absl::Status Queries(int group, std::span<const float* const> rows, float* u);

  // Begins to upload the states of chunks at once, concurrently with other work, for a later
  // ProjectMemory; a buffer for each. Thread-safe.
  absl::StatusOr<std::vector<std::shared_ptr<kernels::DeviceBuffer>>> BeginUpload(
      std::span<const std::span<const Bf16>> states);
  // Returns each chunk's memory K, V, in Bf16.
  absl::StatusOr<std::vector<DeviceMemory>> ProjectMemory(std::span<const StoredStates> chunks);

  // The tokens that the pointer points to from a row, in RAM; not used by a model without a
  // pointer.
  using Pointed = std::span<const kernels::PointedToken>;

  // Writes logits[rows, vocab_size] in RAM of rows [d] on the device after the last layer, mixed
  // with pointed[rows] in a model with a pointer (kernels/pointer_mix/pointer_mix.h).
  absl::Status Logits(std::span<const float* const> rows, std::span<const Pointed> pointed,
                      float* logits);

  // Writes choices[rows] in RAM = Sample (kernels/sample/sample.h) of these logits under
  // settings[rows].
  absl::Status Choices(std::span<const float* const> rows, std::span<const Pointed> pointed,
                       std::span<const kernels::SampleSettings> settings,
                       const kernels::NeverChosen& never, int32_t* choices);

 private:
  DeviceModel(kernels::Device& device, std::unique_ptr<DeviceContext> context);

  kernels::Device& device_;
  const std::unique_ptr<DeviceContext> ctx_;  // of the layers (device_layers.h)
};

}  // namespace recollect::model
