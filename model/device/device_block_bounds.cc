#include "model/device/device_block_bounds.h"

#include "base/check.h"
#include "base/status.h"
#include "model/device/device_tables.h"

namespace recollect::model {

using kernels::Device;

DeviceBlockBounds::DeviceBlockBounds(const HeadPatterns& patterns, int64_t width,
                                     const BlockChoice& choice)
    : patterns_(patterns), choice_(choice), width_(width) {
  RECOLLECT_CHECK(choice.count > 0 && choice.block > 0);
}

float* DeviceBlockBounds::Low(int64_t block) const {
  return bounds_ == nullptr ? nullptr : static_cast<float*>(bounds_->data()) + block * width_;
}

kernels::BlockBoundsSizes DeviceBlockBounds::SizesOf(int64_t blocks) const {
  return {.blocks = blocks,
          .block = choice_.block,
          .width = width_,
          .mean = choice_.score == BlockScore::kMoba};
}

absl::Status DeviceBlockBounds::Resize(Device& device, int64_t capacity) {
  ASSIGN_OR_RETURN(bounds_, device.Allocate(2 * capacity * width_ * int64_t{sizeof(float)}));
  capacity_ = capacity;
  return absl::OkStatus();
}

absl::Status DeviceBlockBounds::Reserve(Device& device, const DeviceCache& cache, int64_t rows,
                                        CacheCopies& copies) {
  const int64_t blocks = cache.length() / choice_.block;
  const int64_t coming = (cache.length() + rows) / choice_.block;
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

// All whole blocks from `first` on.
void DeviceBlockBounds::AddBlocks(const DeviceCache& cache, int64_t first,
                                  std::vector<kernels::KeyBlock>& blocks) const {
  for (int64_t block = first; block < cache.length() / choice_.block; ++block) {
    blocks.push_back({static_cast<const float*>(cache.InWindow(0, block * choice_.block)),
                      Low(block), Low(capacity_ + block)});
  }
}

void DeviceBlockBounds::Append(const DeviceCache& cache, int64_t rows, CacheCopies& copies) const {
  AddBlocks(cache, (cache.length() - rows) / choice_.block, copies.blocks);
}

absl::Status DeviceBlockBounds::Restore(Device& device, int64_t length) {
  const int64_t blocks = length / choice_.block;
  return blocks == 0 ? absl::OkStatus() : Resize(device, 2 * blocks);
}

absl::Status DeviceBlockBounds::SumUpRestored(Device& device, const DeviceCache& cache) const {
  std::vector<kernels::KeyBlock> blocks;
  AddBlocks(cache, 0, blocks);
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
