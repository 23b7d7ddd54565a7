// What a sequence carries in every layer (local_state.h), in the memory of a device: the recurrence
// vectors in fp32, and the cached keys and values that the local patterns can still reach in the
// number format of the model's products. Which entries there are, and where, is known on the host;
// so is what has to be copied when positions come in, and the copies of a whole step run as a few
// launches.
#ifndef RECOLLECT_MODEL_DEVICE_STATE_H_
#define RECOLLECT_MODEL_DEVICE_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/device.h"
#include "kernels/range_attention.h"
#include "model/cache_index.h"
#include "model/config.h"
#include "model/local_state.h"
#include "model/pattern.h"

namespace recollect::model {

// What appending to caches needs, in this order: `moves`, then `appends`; and what may go after
// that.
struct CacheCopies {
  std::vector<kernels::DeviceCopy> moves, appends;
  std::vector<std::shared_ptr<kernels::DeviceBuffer>> left;
};

// Keys and values of one part of a cache, in the cache's number format: [entries, heads, head_dim].
struct CachePart {
  const void* keys = nullptr;
  const void* values = nullptr;
};
using CacheParts = std::array<CachePart, kernels::kMaxRanges>;

// Numbers that a device keeps: `count` of them, in `dtype`.
struct StoredNumbers {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};

// Keys and values of neighbouring heads that share a pattern; the parts of CacheIndex, each keys
// [capacity, heads, head_dim], then values. A part grows to what its pattern can reach, or without
// end where that has none. In Bf16 an entry keeps its index in a part modulo
// kernels::kSplitTileEntries as long as the sequence lives, stored and restored, because tile
// attention's bits depend on it: entries in front of the first that can be reached go by multiples
// of that, and those that stay are not read.
class DeviceCache {
 public:
  DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim, DType dtype);

  // Makes room for `rows` more positions. RESOURCE_EXHAUSTED.
  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies);
  // Appends them: keys, values [rows, heads of the layer, head_dim] in the cache's number format,
  // rows `stride` numbers apart, at the layer's first head. REQUIRES: room.
  void Append(const void* keys, const void* values, int64_t rows, int64_t stride,
              std::vector<kernels::DeviceCopy>& appends);

  // As LocalCache's, of the positions of the latest Append.
  kernels::RangeSet Ranges(int64_t position) const { return index_.Ranges(position, firsts_); }
  CacheParts parts() const;

  int first_head() const { return first_head_; }
  int heads() const { return heads_; }
  int64_t length() const { return length_; }
  int64_t bytes() const;

  // The numbers that LocalCache::Serialize would write, in its order.
  void AddStored(std::vector<StoredNumbers>& stored) const;
  // As if `length` positions had been appended; their entries are to be written to what AddStored
  // names. REQUIRES: nothing appended yet.
  absl::Status Restore(kernels::Device& device, int64_t length);

 private:
  struct Part {
    std::shared_ptr<kernels::DeviceBuffer> memory;
    int64_t capacity = 0;
    int64_t entries = 0;
  };
  std::byte* KeysOf(const Part& part, int64_t entry) const;
  std::byte* ValuesOf(const Part& part, int64_t entry) const;
  absl::Status Resize(kernels::Device& device, Part& part, int64_t capacity) const;
  // Entries in front of the first that `position` can reach, of those that may go.
  int64_t Droppable(CacheIndex::Part part, int64_t position) const;

  CacheIndex index_;
  CacheIndex::Firsts firsts_;
  int first_head_ = 0;
  int heads_ = 0;
  int head_dim_ = 0;
  DType dtype_ = DType::kFloat32;
  int64_t step_ = 1;         // entries go by multiples of it
  int64_t entry_bytes_ = 0;  // of keys: heads * head_dim numbers
  int64_t length_ = 0;
  std::array<Part, kernels::kMaxRanges> parts_;
};

// One layer: RAT+ under a pattern for all heads, or one for each.
struct DeviceLayerState {
  DeviceLayerState(const HeadPatterns& patterns, int heads, int head_dim, DType dtype);

  std::vector<DeviceCache> caches;  // in the order of the heads; together they are all heads
  std::shared_ptr<kernels::DeviceBuffer> recurrence;  // of keys, then values: [heads, head_dim]
  float* key_recurrence() const { return static_cast<float*>(recurrence->data()); }
  int64_t length() const { return caches.front().length(); }  // positions appended so far
};

// The first `layers` layers of a sequence. Not thread-safe; belongs to one device.
class DeviceState {
 public:
  // `dtype`: of the model's products. REQUIRES: CheckDeviceConfig, no choice of blocks.
  DeviceState(const ModelConfig& config, const LocalPatterns& pattern, int layers, DType dtype);

  // Before the first rows. RESOURCE_EXHAUSTED.
  absl::Status Begin(kernels::Device& device);

  DeviceLayerState& layer(int index) { return layers_[static_cast<size_t>(index)]; }
  double rope_base() const { return rope_base_; }
  // Positions that have gone through the first layer.
  int64_t length() const { return layers_.empty() ? 0 : layers_.front().length(); }
  int64_t bytes() const;

  // The same state in RAM, and back: the bits of LocalState::Serialize. What a cache keeps in Bf16
  // has exactly that value there. REQUIRES of `state`, of a bf16 model: values that Bf16 has.
  absl::StatusOr<LocalState> Download(kernels::Device& device, const ModelConfig& config) const;
  absl::Status Upload(kernels::Device& device, const LocalState& state);

 private:
  std::vector<StoredNumbers> Stored(size_t layer) const;

  LocalPatterns pattern_;
  double rope_base_ = 0;
  int64_t width_ = 0;  // heads * head_dim
  std::vector<DeviceLayerState> layers_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_STATE_H_
