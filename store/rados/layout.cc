#include "store/rados/layout.h"

#include <algorithm>
#include <set>

namespace recollect::store::rados {

void Layout::Add(std::span<const Extent> extents, Sizes sizes) {
  WriterLock lock(mutex_);
  for (const Extent& extent : extents) {
    const std::pair<uint64_t, uint64_t> segment{extent.epoch, extent.segment};
    if (segments_.empty() || segments_.back() != segment) segments_.push_back(segment);
    Table& table = tables_[static_cast<int>(extent.kind)];
    table.places.push_back(
        {static_cast<uint32_t>(segments_.size() - 1), extent.offset, extent.bytes});
    if (extent.kind != Kind::kChunks) table.begins.push_back(table.end);
    table.end += extent.count;
  }
  sizes_ = std::move(sizes);
}

Sizes Layout::sizes() const {
  ReaderLock lock(mutex_);
  return sizes_;
}

void Layout::SetCacheName(std::string name) {
  WriterLock lock(mutex_);
  cache_name_ = std::move(name);
}

std::string Layout::cache_name() const {
  ReaderLock lock(mutex_);
  return cache_name_;
}

int64_t Layout::pieces(Kind kind) const {
  ReaderLock lock(mutex_);
  return std::ssize(tables_[static_cast<int>(kind)].places);
}

std::vector<Piece> Layout::Find(Kind kind, int64_t begin, int64_t end) const {
  ReaderLock lock(mutex_);
  const Table& table = tables_[static_cast<int>(kind)];
  std::vector<Piece> out;
  int64_t index = begin;
  if (kind != Kind::kChunks) {
    const auto after = std::upper_bound(table.begins.begin(), table.begins.end(), begin);
    index = std::max<int64_t>(after - table.begins.begin() - 1, 0);
  }
  for (; index < std::ssize(table.places); ++index) {
    const auto at = static_cast<size_t>(index);
    const int64_t first = kind == Kind::kChunks ? index : table.begins[at];
    if (first >= end) break;
    const int64_t next = kind == Kind::kChunks          ? index + 1
                         : at + 1 < table.begins.size() ? table.begins[at + 1]
                                                        : table.end;
    const Place& place = table.places[at];
    const auto& [epoch, number] = segments_[place.segment];
    out.push_back({index, first, next - first, SegmentName(owner_, epoch, number), place.offset,
                   place.bytes});
  }
  return out;
}

std::vector<std::string> Layout::Objects() const {
  ReaderLock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [epoch, number] : segments_) names.insert(SegmentName(owner_, epoch, number));
  return {names.begin(), names.end()};
}

}  // namespace recollect::store::rados
