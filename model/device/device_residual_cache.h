// The cache of a layer of RAttention (residual_cache.h), in device memory.
#ifndef RECOLLECT_MODEL_DEVICE_DEVICE_RESIDUAL_CACHE_H_
#define RECOLLECT_MODEL_DEVICE_DEVICE_RESIDUAL_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "model/device/device_cache.h"

namespace recollect::model {

// Keeps the last W + 1 positions, in fp32; S is kept by the layer state.
class DeviceResidualCache {
 public:
  DeviceResidualCache(int64_t window, int heads, int head_dim);

  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies) {
    return entries_.Reserve(device, rows, copies);
  }
  // Keys are copied twice: raw, and after they are placed.
  void Append(const void* keys, const void* values, int64_t rows, int64_t stride,
              CacheCopies& copies);

  bool windowed() const { return window_ >= 0; }
  int heads() const { return entries_.heads(); }
  kernels::RangeSet Ranges(int64_t position) const;
  CacheParts parts() const { return entries_.parts(); }
  // As ResidualCache::LeftBy.
  struct Leaving {
    const float* raw = nullptr;
    const float* values = nullptr;
    int64_t count = 0;
  };
  Leaving LeftBy(int64_t rows) const;
  int64_t length() const { return entries_.length(); }
  int64_t bytes() const { return entries_.bytes(); }

  void AddStored(std::vector<StoredNumbers>& stored) const { entries_.AddStored(stored); }
  absl::Status Restore(kernels::Device& device, int64_t length) {
    return entries_.Restore(device, length);
  }

 private:
  int RawPlane() const { return windowed() ? 1 : 0; }

  int64_t window_;
  DeviceCache entries_;  // placed keys where there is a window, raw keys, values
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_DEVICE_RESIDUAL_CACHE_H_
