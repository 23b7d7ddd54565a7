#include "engine/planned_landmarks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace recollect::engine {
namespace {

// Room for `bytes` more at the end of `memory`; -> where it begins.
int64_t Reserve(std::vector<std::byte>& memory, int64_t bytes, int64_t alignment) {
  const auto begin = static_cast<int64_t>(memory.size());
  memory.resize(static_cast<size_t>(begin + (bytes + alignment - 1) / alignment * alignment));
  return begin;
}

bool SameSearch(const LandmarkQuery& a, const LandmarkQuery& b) {
  return a.n == b.n && a.u.size() == b.u.size() &&
         std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
                    [](const KeyRun& x, const KeyRun& y) {
                      return x.keys == y.keys && x.count == y.count;
                    });
}

}  // namespace

// Grows by doubling: a session adds a key every 63 tokens.
class PlannedLandmarks::Keys final : public LandmarkKeys {
 public:
  explicit Keys(PlannedLandmarks& device) : device_(device) {}

  absl::Status Append(std::span<const Bf16> keys) override {
    if (keys.empty()) return absl::OkStatus();
    const int64_t needed = size_ + static_cast<int64_t>(keys.size());
    if (needed > capacity_) {
      const int64_t capacity = std::max(needed, 2 * capacity_);
      ASSIGN_OR_RETURN(std::unique_ptr<Memory> grown, device_.Allocate(capacity));
      if (size_ > 0) RETURN_IF_ERROR(device_.CopyWithin(memory_->data(), size_, grown->data()));
      memory_ = std::move(grown);
      capacity_ = capacity;
    }
    RETURN_IF_ERROR(device_.Upload(keys, memory_->data() + size_));
    size_ = needed;
    return absl::OkStatus();
  }
  const Bf16* data() const { return memory_ == nullptr ? nullptr : memory_->data(); }

 private:
  PlannedLandmarks& device_;
  std::unique_ptr<Memory> memory_;
  int64_t size_ = 0, capacity_ = 0;  // in numbers
};

absl::StatusOr<std::unique_ptr<LandmarkKeys>> PlannedLandmarks::Keep(std::vector<Bf16> keys) {
  auto kept = std::make_unique<Keys>(*this);
  RETURN_IF_ERROR(kept->Append(keys));
  return kept;
}

absl::Status PlannedLandmarks::Lay(std::span<const LandmarkQuery> group) {
  const LandmarkQuery& first = group.front();
  Launch launch;
  ASSIGN_OR_RETURN(launch.plan,
                   kernels::PlanLandmarkTopK({.queries = static_cast<int64_t>(group.size()),
                                              .width = static_cast<int>(first.u.size()),
                                              .candidates = first.candidates(),
                                              .n = first.n},
                                             multiprocessors_));
  std::vector<kernels::KeySegment> segments;
  for (const KeyRun& run : first.runs) {
    segments.push_back({static_cast<const Keys*>(run.keys)->data(), run.count});
  }
  const std::vector<kernels::SegmentStart> table = kernels::SegmentTable(segments);
  const size_t query_bytes = first.u.size() * sizeof(float);
  const size_t table_bytes = table.size() * sizeof(table[0]);
  const auto places = static_cast<int64_t>(group.size()) * first.n;
  launch.queries = Reserve(in_, static_cast<int64_t>(group.size() * query_bytes), kAlignment);
  for (size_t i = 0; i < group.size(); ++i) {
    std::memcpy(in_.data() + launch.queries + i * query_bytes, group[i].u.data(), query_bytes);
  }
  launch.segments = Reserve(in_, static_cast<int64_t>(table_bytes), kAlignment);
  std::memcpy(in_.data() + launch.segments, table.data(), table_bytes);
  launch.candidates = Reserve(out_, places * int64_t{sizeof(int64_t)}, kAlignment);
  launch.scores = Reserve(out_, places * int64_t{sizeof(float)}, kAlignment);
  launches_.push_back(launch);
  return absl::OkStatus();
}

void PlannedLandmarks::Search(std::span<LandmarkQuery> queries) {
  groups_.clear();
  launches_.clear();
  in_.clear();
  out_.clear();
  for (size_t begin = 0, end = 0; begin < queries.size(); begin = end) {
    while (end < queries.size() && SameSearch(queries[begin], queries[end])) ++end;
    const std::span<LandmarkQuery> group = queries.subspan(begin, end - begin);
    const absl::Status status = group.front().n > 0 ? Lay(group) : absl::OkStatus();
    for (LandmarkQuery& query : group) {
      query.status = status;
      query.best.clear();
    }
    if (status.ok() && group.front().n > 0) groups_.push_back({begin, end});
  }
  if (launches_.empty()) return;
  const absl::Status status = Run(launches_, in_, out_);
  for (size_t i = 0; i < launches_.size(); ++i) {
    const Launch& launch = launches_[i];
    const auto* candidates = reinterpret_cast<const int64_t*>(out_.data() + launch.candidates);
    const auto* scores = reinterpret_cast<const float*>(out_.data() + launch.scores);
    for (size_t q = groups_[i].begin; q < groups_[i].end; ++q) {
      LandmarkQuery& query = queries[q];
      query.status = status;
      if (!status.ok()) continue;
      // Where there are fewer candidates than n, -1 follows.
      for (int j = 0; j < query.n && candidates[j] >= 0; ++j) {
        query.best.push_back({candidates[j], scores[j]});
      }
      candidates += query.n;
      scores += query.n;
    }
  }
}

}  // namespace recollect::engine
