// Keys and values of some heads of a layer that share one local pattern, in device memory
// (local_cache.h). The host knows which entries there are, where they lie, and what has to be
// copied when positions are appended; the copies of a whole step run as a few launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kernels/device/device.h"
#include "kernels/range_attention/range_attention.h"
#include "model/config/pattern.h"
#include "model/state/cache_index.h"

namespace recollect::model {

// The work of appending to caches, in this order: `moves`; `raw`, before the projected keys are
// changed; `appends`, once keys are placed; the bounds of `blocks`. After that, `replaced` may be
// freed.
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

// `count` numbers of type `dtype` in device memory.
struct StoredNumbers {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};

// Incoming rows of one plane of a cache's entries (keys, values, …), and the list to which their
// copies are added.
struct ComingRows {
  const void* rows = nullptr;
  std::vector<kernels::DeviceCopy>* copies = nullptr;
};

// Keys and values of neighbouring heads that share a pattern, in the parts of CacheIndex. A part
// holds keys [capacity, heads, head_dim], then the other planes of its entries, values last. A part
// grows to the size that its pattern can reach, or without end if the pattern's reach has none. In
// Bf16 an entry's index in its part modulo kernels::kSplitTileEntries never changes, not even by
// storing and restoring the sequence, because tile attention's bits depend on it: entries that can
// no longer be reached are dropped in multiples of that number, and those that remain are not read.
class DeviceCache {
 public:
  // `planes`: arrays of [heads, head_dim] numbers per entry, keys and values among them. `more`:
  // how many positions before the window are kept, although queries do not attend to them.
  DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim, DType dtype,
              int planes = 2, int64_t more = 0);

  // Makes room for `rows` more positions. RESOURCE_EXHAUSTED.
  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies);
  // Appends them. Each plane is [rows, heads of the layer, head_dim] in the cache's number format,
  // rows `stride` numbers apart; its pointer is that of the layer's first head. REQUIRES: room.
  void Append(std::span<const ComingRows> planes, int64_t rows, int64_t stride);

  // Whether everything that position `length` can reach is still kept, so that Rewind(length) is
  // possible.
  bool CanRewind(int64_t length) const;
  // Forgets the positions from `length` on. REQUIRES: CanRewind(length).
  void Rewind(int64_t length);

  // As LocalCache's, for positions of the latest Append.
  kernels::RangeSet Ranges(int64_t position) const { return attended_.Ranges(position, firsts_); }
  CacheParts parts() const;
  // The address of `position`'s numbers in one plane of the window's part. REQUIRES: the entry is
  // kept.
  const void* InWindow(int plane, int64_t position) const;

  int first_head() const { return first_head_; }
  int heads() const { return heads_; }
  int planes() const { return planes_; }
  int64_t length() const { return length_; }
  int64_t bytes() const;

  // The numbers that LocalCache::Serialize would write, in its order.
  void AddStored(std::vector<StoredNumbers>& stored) const;
  // Makes the cache as if `length` positions had been appended; the caller then writes their
  // entries to the arrays that AddStored names. REQUIRES: nothing appended yet.
  absl::Status Restore(kernels::Device& device, int64_t length);

 private:
  struct Part {
    std::shared_ptr<kernels::DeviceBuffer> memory;
    int64_t capacity = 0;
    int64_t entries = 0;
  };
  std::byte* At(const Part& part, int plane, int64_t entry) const;
  absl::Status Resize(kernels::Device& device, Part& part, int64_t capacity) const;
  // The oldest entry that is kept after Rewind(length).
  int64_t FirstRewound(CacheIndex::Part part, int64_t length) const;
  // The number of entries before the first that `position` can reach which may be dropped.
  int64_t Droppable(CacheIndex::Part part, int64_t position) const;

  CacheIndex attended_;
  CacheIndex index_;  // of the positions that are kept
  CacheIndex::Firsts firsts_;
  int first_head_ = 0;
  int heads_ = 0;
  int head_dim_ = 0;
  DType dtype_ = DType::kFloat32;
  int planes_ = 2;
  int64_t step_ = 1;         // entries are dropped in multiples of it
  int64_t entry_bytes_ = 0;  // of a plane: heads * head_dim numbers
  int64_t length_ = 0;
  std::array<Part, kernels::kMaxRanges> parts_;
};

}  // namespace recollect::model
