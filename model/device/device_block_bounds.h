// The bounds by which the queries of a sequence score blocks (block_cache.h), in device memory.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "model/config/pattern.h"
#include "model/device/device_cache.h"

namespace recollect::model {

// Covers the whole blocks of a cache that keeps every position, in fp32.
class DeviceBlockBounds {
 public:
  // `width`: heads * head_dim.
  DeviceBlockBounds(const HeadPatterns& patterns, int64_t width, const BlockChoice& choice);

  // As DeviceCache's, of `cache` before it appends `rows` positions, and after it has: the blocks
  // whose bounds have to be computed are added to copies.blocks.
  absl::Status Reserve(kernels::Device& device, const DeviceCache& cache, int64_t rows,
                       CacheCopies& copies);
  void Append(const DeviceCache& cache, int64_t rows, CacheCopies& copies) const;

  const HeadPatterns& patterns() const { return patterns_; }
  const BlockChoice& choice() const { return choice_; }
  kernels::BlockBoundsSizes SizesOf(int64_t blocks) const;
  // [whole blocks, heads, head_dim]
  const float* low() const { return Low(0); }
  const float* high() const { return Low(capacity_); }
  int64_t bytes() const { return bounds_ == nullptr ? 0 : bounds_->bytes(); }

  // Makes room for the bounds of a restored cache, and computes them once its entries are written.
  absl::Status Restore(kernels::Device& device, int64_t length);
  absl::Status SumUpRestored(kernels::Device& device, const DeviceCache& cache) const;

 private:
  float* Low(int64_t block) const;
  void AddBlocks(const DeviceCache& cache, int64_t first,
                 std::vector<kernels::KeyBlock>& blocks) const;
  absl::Status Resize(kernels::Device& device, int64_t capacity);

  HeadPatterns patterns_;
  BlockChoice choice_;
  int64_t width_ = 0;
  std::shared_ptr<kernels::DeviceBuffer> bounds_;  // low [capacity, width], then high
  int64_t capacity_ = 0;
};

}  // namespace recollect::model
