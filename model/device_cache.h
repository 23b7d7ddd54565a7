// Keys and values of some heads of a layer that share one local pattern, in the memory of a device
// (local_cache.h). Which entries there are, and where, is known on the host; so is what has to be
// copied when positions come in, and the copies of a whole step run as a few launches.
#ifndef RECOLLECT_MODEL_DEVICE_CACHE_H_
#define RECOLLECT_MODEL_DEVICE_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kernels/device.h"
#include "kernels/range_attention.h"
#include "model/cache_index.h"
#include "model/pattern.h"

namespace recollect::model {

// What appending to caches needs, in this order: `moves`, then `raw` while the projected keys are
// as they came, `appends` once they are placed, then the bounds of `blocks`; and what may go after
// that.
struct CacheCopies {
  std::vector<kernels::DeviceCopy> moves, raw, appends;
  std::vector<kernels::KeyBlock> blocks;
  std::vector<std::shared_ptr<kernels::DeviceBuffer>> replaced;
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

// One kind of numbers that a cache keeps of each entry, in rows that come in, and what copies them.
struct ComingRows {
  const void* rows = nullptr;
  std::vector<kernels::DeviceCopy>* copies = nullptr;
};

// Keys and values of neighbouring heads that share a pattern; the parts of CacheIndex, each keys
// [capacity, heads, head_dim], then whatever else there is of an entry, values last. A part grows
// to what its pattern can reach, or without end where that has none. In Bf16 an entry keeps its
// index in a part modulo kernels::kSplitTileEntries as long as the sequence lives, stored and
// restored, because tile attention's bits depend on it: entries in front of the first that can be
// reached go by multiples of that, and those that stay are not read.
class DeviceCache {
 public:
  // `planes`: kinds of numbers of an entry.
  DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim, DType dtype,
              int planes = 2);

  // Makes room for `rows` more positions. RESOURCE_EXHAUSTED.
  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies);
  // Appends them: of each plane [rows, heads of the layer, head_dim] in the cache's number format,
  // rows `stride` numbers apart, at the layer's first head. REQUIRES: room.
  void Append(std::span<const ComingRows> planes, int64_t rows, int64_t stride);

  // As LocalCache's, of the positions of the latest Append.
  kernels::RangeSet Ranges(int64_t position) const { return index_.Ranges(position, firsts_); }
  CacheParts parts() const;
  // Where the entry of `position` in the window's part has its numbers of one plane. REQUIRES: it
  // is there.
  const void* InWindow(int plane, int64_t position) const;

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
  std::byte* At(const Part& part, int plane, int64_t entry) const;
  absl::Status Resize(kernels::Device& device, Part& part, int64_t capacity) const;
  // Entries in front of the first that `position` can reach, of those that may go.
  int64_t Droppable(CacheIndex::Part part, int64_t position) const;

  CacheIndex index_;
  CacheIndex::Firsts firsts_;
  int first_head_ = 0;
  int heads_ = 0;
  int head_dim_ = 0;
  DType dtype_ = DType::kFloat32;
  int planes_ = 2;
  int64_t step_ = 1;         // entries go by multiples of it
  int64_t entry_bytes_ = 0;  // of a plane: heads * head_dim numbers
  int64_t length_ = 0;
  std::array<Part, kernels::kMaxRanges> parts_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_CACHE_H_
