// The cache of a layer for a sequence whose queries choose blocks (block_cache.h), in device
// memory.
#ifndef RECOLLECT_MODEL_DEVICE_DEVICE_BLOCK_CACHE_H_
#define RECOLLECT_MODEL_DEVICE_DEVICE_BLOCK_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "model/config/pattern.h"
#include "model/device/device_cache.h"

namespace recollect::model {

// Keeps every position, in fp32, and the bounds of whole blocks.
class DeviceBlockCache {
 public:
  DeviceBlockCache(const HeadPatterns& patterns, int heads, int head_dim,
                   const BlockChoice& choice);

  // As DeviceCache's. Blocks whose bounds have to be computed are added to copies.blocks.
  absl::Status Reserve(kernels::Device& device, int64_t rows, CacheCopies& copies);
  void Append(const void* keys, const void* values, int64_t rows, int64_t stride,
              CacheCopies& copies);

  const HeadPatterns& patterns() const { return patterns_; }
  const BlockChoice& choice() const { return choice_; }
  kernels::BlockBoundsSizes SizesOf(int64_t blocks) const;
  // Entry t is position t.
  kernels::KvSpan entries() const;
  // [whole blocks, heads, head_dim]
  const float* low() const { return Low(0); }
  const float* high() const { return Low(capacity_); }
  int64_t length() const { return entries_.length(); }
  int64_t bytes() const;

  void AddStored(std::vector<StoredNumbers>& stored) const { entries_.AddStored(stored); }
  absl::Status Restore(kernels::Device& device, int64_t length);
  // Computes the bounds of restored blocks; to be called once the entries are written.
  absl::Status SumUpRestored(kernels::Device& device) const;

 private:
  float* Low(int64_t block) const;
  kernels::KeyBlock BlockAt(int64_t block) const;
  absl::Status Resize(kernels::Device& device, int64_t capacity);

  HeadPatterns patterns_;
  BlockChoice choice_;
  int64_t width_ = 0;  // heads * head_dim
  DeviceCache entries_;
  std::shared_ptr<kernels::DeviceBuffer> bounds_;  // low [capacity, width], then high
  int64_t capacity_ = 0;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_DEVICE_BLOCK_CACHE_H_
