#include "model/device/device_residual_cache.h"

#include <algorithm>

namespace recollect::model {

using kernels::Device;

// One position more than the window: the one that enters S next.
DeviceResidualCache::DeviceResidualCache(int64_t window, int heads, int head_dim)
    : window_(window),
      entries_({.window = window + 1, .dilation = kNoDilation}, 0, heads, head_dim, DType::kFloat32,
               window >= 0 ? 3 : 2) {}

void DeviceResidualCache::Append(const void* keys, const void* values, int64_t rows, int64_t stride,
                                 CacheCopies& copies) {
  const ComingRows placed{keys, &copies.appends}, raw{keys, &copies.raw};
  const ComingRows all[] = {placed, raw, {values, &copies.appends}};
  entries_.Append(std::span(all).subspan(windowed() ? 0 : 1), rows, stride);
}

kernels::RangeSet DeviceResidualCache::Ranges(int64_t position) const {
  kernels::RangeSet set = entries_.Ranges(position);
  if (position > window_) ++set.ranges[CacheIndex::kWindow].begin;
  return set;
}

DeviceResidualCache::Leaving DeviceResidualCache::LeftBy(int64_t rows) const {
  const int64_t left = std::max<int64_t>(length() - window_ - 1, 0);  // so far
  const int64_t count = std::min(rows, left);
  if (count == 0) return {};
  const auto at = [&](int plane) {
    return static_cast<const float*>(entries_.InWindow(plane, left - count));
  };
  return {at(RawPlane()), at(RawPlane() + 1), count};
}

}  // namespace recollect::model
