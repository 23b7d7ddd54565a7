#include "model/device/device_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace recollect::model {

using kernels::Device;

DeviceCache::DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim,
                         DType dtype, int planes, int64_t more)
    : attended_(pattern),
      index_({.window = pattern.window + more,
              .dilation = pattern.dilation,
              .initial = pattern.initial,
              .span = pattern.span}),
      firsts_(index_.FirstsReachable(0)),
      first_head_(first_head),
      heads_(heads),
      head_dim_(head_dim),
      dtype_(dtype),
      planes_(planes),
      step_(dtype == DType::kBf16 ? kernels::kSplitTileEntries : 1),
      entry_bytes_(int64_t{heads} * head_dim * kernels::BytesOf(dtype)) {}

std::byte* DeviceCache::At(const Part& part, int plane, int64_t entry) const {
  if (part.memory == nullptr) return nullptr;
  return static_cast<std::byte*>(part.memory->data()) +
         (plane * part.capacity + entry) * entry_bytes_;
}

absl::Status DeviceCache::Resize(Device& device, Part& part, int64_t capacity) const {
  ASSIGN_OR_RETURN(part.memory, device.Allocate(planes_ * capacity * entry_bytes_));
  part.capacity = capacity;
  return absl::OkStatus();
}

int64_t DeviceCache::Droppable(CacheIndex::Part part, int64_t position) const {
  return (index_.FirstReachable(part, position) - firsts_[part]) / step_ * step_;
}

absl::Status DeviceCache::Reserve(Device& device, int64_t rows, CacheCopies& copies) {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    int64_t coming = 0;
    for (int64_t row = 0; row < rows; ++row) coming += index_.Holds(index, length_ + row) ? 1 : 0;
    if (part.entries + coming <= part.capacity) continue;
    const int64_t dropped = Droppable(index, length_);
    const int64_t kept = part.entries - dropped;
    const Part before = part;
    // What moves down within its own memory must not overlap where it goes. Memory of twice what
    // is kept, or lives, in whole steps, makes moves as rare as positions that come in are many.
    if (kept + coming > part.capacity || kept > dropped) {
      const int64_t living =
          part.entries - (index_.FirstReachable(index, length_) - firsts_[index]);
      // Entries that are dead may stay for up to a step, also where none live.
      const int64_t in_steps = step_ == 1 ? living : (living / step_ + 1) * step_;
      RETURN_IF_ERROR(Resize(device, part, std::max(2 * std::min(kept, in_steps), kept + coming)));
      if (before.memory != nullptr) copies.replaced.push_back(before.memory);
    }
    if (kept > 0) {
      for (int plane = 0; plane < planes_; ++plane) {
        copies.moves.push_back(
            {At(before, plane, dropped), At(part, plane, 0), kept * entry_bytes_});
      }
    }
    part.entries = kept;
    firsts_[index] += dropped;
  }
  return absl::OkStatus();
}

void DeviceCache::Append(std::span<const ComingRows> planes, int64_t rows, int64_t stride) {
  RECOLLECT_CHECK(static_cast<int>(planes.size()) == planes_);
  const int64_t number_bytes = kernels::BytesOf(dtype_);
  int64_t at = int64_t{first_head_} * head_dim_ * number_bytes;
  for (int64_t row = 0; row < rows; ++row, ++length_, at += stride * number_bytes) {
    for (const CacheIndex::Part index : CacheIndex::kParts) {
      if (!index_.Holds(index, length_)) continue;
      Part& part = parts_[index];
      RECOLLECT_DCHECK(part.entries < part.capacity);
      for (int plane = 0; plane < planes_; ++plane) {
        const ComingRows& coming = planes[static_cast<size_t>(plane)];
        coming.copies->push_back({static_cast<const std::byte*>(coming.rows) + at,
                                  At(part, plane, part.entries), entry_bytes_});
      }
      ++part.entries;
    }
  }
}

// Where none of a part's entries is needed, those before the first that comes in next are dead, as
// after Restore.
int64_t DeviceCache::FirstRewound(CacheIndex::Part part, int64_t length) const {
  const int64_t end = index_.EndIndex(part, length);
  return firsts_[part] <= end ? firsts_[part]
                              : firsts_[part] - (firsts_[part] - end + step_ - 1) / step_ * step_;
}

bool DeviceCache::CanRewind(int64_t length) const {
  return std::ranges::all_of(CacheIndex::kParts, [&](CacheIndex::Part part) {
    const int64_t first = index_.FirstReachable(part, length);
    const int64_t end = index_.EndIndex(part, length);
    return firsts_[part] <= first ||
           (first == end && end - FirstRewound(part, length) <= parts_[part].capacity);
  });
}

void DeviceCache::Rewind(int64_t length) {
  RECOLLECT_CHECK(length >= 0 && length <= length_ && CanRewind(length));
  length_ = length;
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    firsts_[index] = FirstRewound(index, length);
    parts_[index].entries = index_.EndIndex(index, length) - firsts_[index];
  }
}

CacheParts DeviceCache::parts() const {
  CacheParts parts;
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    parts[index] = {At(parts_[index], 0, 0), At(parts_[index], planes_ - 1, 0)};
  }
  return parts;
}

const void* DeviceCache::InWindow(int plane, int64_t position) const {
  const Part& part = parts_[CacheIndex::kWindow];
  const int64_t entry = position - firsts_[CacheIndex::kWindow];
  RECOLLECT_DCHECK(entry >= 0 && entry < part.entries);
  return At(part, plane, entry);
}

int64_t DeviceCache::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_) total += part.memory == nullptr ? 0 : part.memory->bytes();
  return total;
}

void DeviceCache::AddStored(std::vector<StoredNumbers>& stored) const {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const Part& part = parts_[index];
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    const int64_t living = std::max<int64_t>(part.entries - dead, 0);
    if (living == 0) continue;
    const int64_t numbers = living * heads_ * head_dim_;
    for (int plane = 0; plane < planes_; ++plane) {
      stored.push_back({At(part, plane, dead), numbers, dtype_});
    }
  }
}

absl::Status DeviceCache::Restore(Device& device, int64_t length) {
  RECOLLECT_CHECK(length_ == 0);
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    firsts_[index] += Droppable(index, length);
    part.entries = std::max<int64_t>(index_.EndIndex(index, length) - firsts_[index], 0);
    if (part.entries > 0) RETURN_IF_ERROR(Resize(device, part, 2 * part.entries));
  }
  length_ = length;
  return absl::OkStatus();
}

}  // namespace recollect::model
