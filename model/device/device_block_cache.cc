#include "model/device/device_block_cache.h"

#include "base/check.h"
#include "base/status.h"
#include "model/device/device_tables.h"

namespace recollect::model {

using kernels::Device;

DeviceBlockCache::DeviceBlockCache(const HeadPatterns& patterns, int heads, int head_dim,
                                   const BlockChoice& choice)
    : patterns_(patterns),
      choice_(choice),
      width_(int64_t{heads} * head_dim),
      entries_({.window = kUnboundedSpan, .dilation = kNoDilation}, 0, heads, head_dim,
               DType::kFloat32) {
  RECOLLECT_CHECK(choice.count > 0 && choice.block > 0);
}

float* DeviceBlockCache::Low(int64_t block) const {
  return bounds_ == nullptr ? nullptr : static_cast<float*>(bounds_->data()) + block * width_;
}

kernels::KeyBlock DeviceBlockCache::BlockAt(int64_t block) const {
  return {static_cast<const float*>(entries_.InWindow(0, block * choice_.block)), Low(block),
          Low(capacity_ + block)};
}

kernels::BlockBoundsSizes DeviceBlockCache::SizesOf(int64_t blocks) const {
  return {.blocks = blocks,
          .block = choice_.block,
          .width = width_,
          .mean = choice_.score == BlockScore::kMoba};
}

kernels::KvSpan DeviceBlockCache::entries() const {
  const CachePart all = entries_.parts()[CacheIndex::kWindow];
  return {static_cast<const float*>(all.keys), static_cast<const float*>(all.values)};
}

absl::Status DeviceBlockCache::Resize(Device& device, int64_t capacity) {
  ASSIGN_OR_RETURN(bounds_, device.Allocate(2 * capacity * width_ * int64_t{sizeof(float)}));
  capacity_ = capacity;
  return absl::OkStatus();
}

absl::Status DeviceBlockCache::Reserve(Device& device, int64_t rows, CacheCopies& copies) {
  RETURN_IF_ERROR(entries_.Reserve(device, rows, copies));
  const int64_t blocks = length() / choice_.block, coming = (length() + rows) / choice_.block;
  if (coming <= capacity_) return absl::OkStatus();
  const float *low = Low(0), *high = Low(capacity_);
  if (bounds_ != nullptr) copies.replaced.push_back(bounds_);
  RETURN_IF_ERROR(Resize(device, 2 * coming));
  if (blocks > 0) {
    const int64_t bytes = blocks * width_ * int64_t{sizeof(float)};
    copies.moves.push_back({low, Low(0), bytes});
    copies.moves.push_back({high, Low(capacity_), bytes});
  }
  return absl::OkStatus();
}

void DeviceBlockCache::Append(const void* keys, const void* values, int64_t rows, int64_t stride,
                              CacheCopies& copies) {
  const int64_t whole = length() / choice_.block;
  const ComingRows planes[] = {{keys, &copies.appends}, {values, &copies.appends}};
  entries_.Append(planes, rows, stride);
  for (int64_t block = whole; block < length() / choice_.block; ++block) {
    copies.blocks.push_back(BlockAt(block));
  }
}

int64_t DeviceBlockCache::bytes() const {
  return entries_.bytes() + (bounds_ == nullptr ? 0 : bounds_->bytes());
}

absl::Status DeviceBlockCache::Restore(Device& device, int64_t length) {
  RETURN_IF_ERROR(entries_.Restore(device, length));
  const int64_t blocks = length / choice_.block;
  return blocks == 0 ? absl::OkStatus() : Resize(device, 2 * blocks);
}

absl::Status DeviceBlockCache::SumUpRestored(Device& device) const {
  std::vector<kernels::KeyBlock> blocks;
  for (int64_t block = 0; block < length() / choice_.block; ++block) {
    blocks.push_back(BlockAt(block));
  }
  if (blocks.empty()) return absl::OkStatus();
  DeviceTables tables;
  const int64_t at = tables.Add(blocks);
  ASSIGN_OR_RETURN(const std::shared_ptr<kernels::DeviceBuffer> memory,
                   device.Allocate(tables.bytes()));
  RETURN_IF_ERROR(tables.Upload(device, memory->data()));
  return device.Run(
      kernels::BlockBoundsOp{SizesOf(std::ssize(blocks)), tables.At<kernels::KeyBlock>(at)});
}

}  // namespace recollect::model
