#include "engine/backend/device/device_landmarks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/numeric/round_up.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

// Room for `bytes` more at the end of `memory`; -> where it begins.
int64_t Reserve(std::vector<std::byte>& memory, int64_t bytes, int64_t alignment) {
  const auto begin = static_cast<int64_t>(memory.size());
  memory.resize(static_cast<size_t>(begin + RoundUp(bytes, alignment)));
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
class DeviceLandmarks::Keys final : public LandmarkKeys {
 public:
  explicit Keys(kernels::Device& device) : device_(device) {}

  absl::Status Append(std::span<const Bf16> keys) override {
    if (keys.empty()) return absl::OkStatus();
    const auto added = static_cast<int64_t>(keys.size_bytes());
    if (memory_ == nullptr || bytes_ + added > memory_->bytes()) RETURN_IF_ERROR(Grow(added));
    RETURN_IF_ERROR(device_.Upload(keys.data(), added, end()));
    bytes_ += added;
    return absl::OkStatus();
  }
  const Bf16* data() const {
    return memory_ == nullptr ? nullptr : static_cast<const Bf16*>(memory_->data());
  }

 private:
  std::byte* end() const { return static_cast<std::byte*>(memory_->data()) + bytes_; }

  absl::Status Grow(int64_t added) {
    const int64_t wanted = std::max(bytes_ + added, 2 * bytes_);
    ASSIGN_OR_RETURN(std::shared_ptr<kernels::DeviceBuffer> grown,
                     device_.Allocate(RoundUp(wanted, kAlignment)));
    if (bytes_ > 0) {
      const kernels::DeviceCopy copy = {data(), grown->data(), RoundUp(bytes_, 4)};
      ASSIGN_OR_RETURN(const std::shared_ptr<kernels::DeviceBuffer> table,
                       device_.Allocate(sizeof(copy)));
      RETURN_IF_ERROR(device_.Upload(&copy, sizeof(copy), table->data()));
      RETURN_IF_ERROR(device_.Run(
          kernels::CopyOp{static_cast<const kernels::DeviceCopy*>(table->data()), 1, copy.bytes}));
    }
    memory_ = std::move(grown);
    return absl::OkStatus();
  }

  kernels::Device& device_;
  std::shared_ptr<kernels::DeviceBuffer> memory_;
  int64_t bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<LandmarkKeys>> DeviceLandmarks::Keep(LargeVector<Bf16> keys) {
  auto kept = std::make_unique<Keys>(*device_);
  RETURN_IF_ERROR(kept->Append(keys));
  return kept;
}

absl::Status DeviceLandmarks::AddLaunch(std::span<const LandmarkQuery> group) {
  const LandmarkQuery& first = group.front();
  Launch launch;
  ASSIGN_OR_RETURN(launch.plan,
                   kernels::PlanLandmarkTopK({.queries = static_cast<int64_t>(group.size()),
                                              .width = static_cast<int>(first.u.size()),
                                              .candidates = first.candidates(),
                                              .n = first.n,
                                              .aligned = true},  // each begins a buffer
                                             device_->multiprocessors()));
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

absl::Status DeviceLandmarks::Run() {
  const auto in_bytes = static_cast<int64_t>(in_.size());
  const auto out_bytes = static_cast<int64_t>(out_.size());
  // Launches follow each other: one workspace does for all.
  int64_t workspace_bytes = 0;
  for (const Launch& launch : launches_) {
    workspace_bytes = std::max(workspace_bytes, launch.plan.workspace_bytes);
  }
  ASSIGN_OR_RETURN(void* const memory,
                   kernels::AtLeast(*device_, in_bytes + out_bytes + workspace_bytes, memory_));
  std::byte* const in = static_cast<std::byte*>(memory);
  std::byte* const out = in + in_bytes;
  RETURN_IF_ERROR(device_->Upload(in_.data(), in_bytes, in));
  for (const Launch& launch : launches_) {
    RETURN_IF_ERROR(device_->Run(kernels::LandmarkTopKOp{
        launch.plan, reinterpret_cast<const float*>(in + launch.queries),
        reinterpret_cast<const kernels::SegmentStart*>(in + launch.segments), out + out_bytes,
        reinterpret_cast<int64_t*>(out + launch.candidates),
        reinterpret_cast<float*>(out + launch.scores)}));
  }
  return device_->Download(out, out_bytes, out_.data());
}

void DeviceLandmarks::Search(std::span<LandmarkQuery> queries) {
  groups_.clear();
  launches_.clear();
  in_.clear();
  out_.clear();
  for (size_t begin = 0, end = 0; begin < queries.size(); begin = end) {
    while (end < queries.size() && SameSearch(queries[begin], queries[end])) ++end;
    const std::span<LandmarkQuery> group = queries.subspan(begin, end - begin);
    const absl::Status status = group.front().n > 0 ? AddLaunch(group) : absl::OkStatus();
    for (LandmarkQuery& query : group) {
      query.status = status;
      query.best.clear();
    }
    if (status.ok() && group.front().n > 0) groups_.push_back({begin, end});
  }
  if (launches_.empty()) return;
  const absl::Status status = Run();
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
