// The local state of a sequence in every layer (local_state.h), in device memory: the mixer's
// recurrence in fp32, and the cached keys and values that the local patterns can still reach
// (device_cache.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/device/device.h"
#include "model/config/config.h"
#include "model/config/pattern.h"
#include "model/device/device_block_bounds.h"
#include "model/device/device_cache.h"
#include "model/state/local_state.h"

namespace recollect::model {

// The state of one layer.
struct DeviceLayerState {
  // `dtype`: of the model's products.
  DeviceLayerState(const ModelConfig& config, const LocalPatterns& pattern, int layer, DType dtype);

  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies);
  // Appends keys, values [rows, heads, head_dim] in the format `cached`, rows `stride` numbers
  // apart.
  void Append(const void* keys, const void* values, int64_t rows, int64_t stride,
              CacheCopies& copies);
  // As DeviceCache's; a recurrence, blocks and RAttention's sum cannot.
  bool CanRewind(int64_t length) const;
  void Rewind(int64_t length);
  int64_t length() const { return caches.front().length(); }  // positions appended so far
  int64_t bytes() const;
  // Returns the numbers that LayerState::Serialize writes after the length.
  std::vector<StoredNumbers> Stored() const;
  absl::Status Restore(kernels::Device& device, int64_t length);

  // In the order of their heads, which together are all heads. One cache of all positions if
  // queries choose blocks, by `blocks`; one for RAttention (`residual`), which keeps the position
  // that enters S next besides the window, and of each position the key as projected after the
  // placed one, if there is a window.
  std::vector<DeviceCache> caches;
  std::optional<DeviceBlockBounds> blocks;
  bool residual = false;
  DType cached = DType::kFloat32;  // number format of entries
  // fp32: the recurrence of keys, then of values, [heads, head_dim] each; S of RAttention; or
  // nothing.
  std::shared_ptr<kernels::DeviceBuffer> carried;
  int64_t carried_numbers = 0;
  float* carried_data() const { return static_cast<float*>(carried->data()); }
};

// The first `layers` layers of a sequence. Not thread-safe; belongs to one device.
class DeviceState {
 public:
  // `dtype`: of the model's products. REQUIRES: CheckDeviceConfig; queries choose at most
  // kMaxDeviceTopK + 1 blocks.
  DeviceState(const ModelConfig& config, const LocalPatterns& pattern, int layers, DType dtype);

  // Must be called before the first rows: starts with an empty sequence, or from a state of the
  // same pattern and layers. For a bf16 model's caches in Bf16, the state's cached values must be
  // representable in Bf16. RESOURCE_EXHAUSTED. REQUIRES: has run nothing.
  absl::Status Begin(kernels::Device& device);
  absl::Status Begin(kernels::Device& device, const LocalState& state);

  // As LocalState::Rewind. Operations that are queued may still read what is forgotten.
  bool Rewind(int64_t length);

  DeviceLayerState& layer(int index) { return layers_[static_cast<size_t>(index)]; }
  double rope_base() const { return rope_base_; }
  // The number of positions that have passed the first layer.
  int64_t length() const { return layers_.empty() ? 0 : layers_.front().length(); }
  int64_t bytes() const;

  // Returns the bits of LayerState::Serialize. May run concurrently with operations of other
  // threads.
  absl::StatusOr<std::string> SerializeLayer(kernels::Device& device, int layer) const;

 private:
  LocalPatterns pattern_;
  double rope_base_ = 0;
  std::vector<DeviceLayerState> layers_;
};

}  // namespace recollect::model
