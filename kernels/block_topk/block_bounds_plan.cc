#include "kernels/block_topk/block_bounds_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace recollect::kernels {
namespace {

// One thread each; a launch may have 2^31 - 1 thread blocks.
constexpr int64_t kMaxNumbers = int64_t{1} << 33;

}  // namespace

absl::Status CheckBlockBounds(const BlockBoundsSizes& sizes) {
  const auto refuse = [&](absl::string_view wrong) {
    return absl::InvalidArgumentError(absl::StrCat("bounds of ", sizes.blocks, " blocks of ",
                                                   sizes.block, " x ", sizes.width,
                                                   " numbers: ", wrong));
  };
  if (sizes.blocks < 0 || sizes.block < 1 || sizes.width < 0) return refuse("a size is too small");
  if (sizes.blocks > kMaxNumbers / std::max<int64_t>(sizes.width, 1)) {
    return refuse("too many for one launch");
  }
  return absl::OkStatus();
}

absl::Status CheckKeyBlocks(const BlockBoundsSizes& sizes, std::span<const KeyBlock> blocks) {
  if (static_cast<int64_t>(blocks.size()) != sizes.blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("bounds of ", blocks.size(), " blocks, expected ", sizes.blocks));
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const KeyBlock& block = blocks[b];
    if (block.keys != nullptr && block.low != nullptr && block.high != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("bounds of block ", b, ": no keys, low or high"));
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
