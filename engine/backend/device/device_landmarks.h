// Landmark keys in the memory of a device, searched there. The host lays out the search of a whole
// step: one upload of queries and tables, two launches for each set of mounts, or four for many
// queries, one download of all hits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/landmark_index.h"
#include "kernels/device/device.h"

namespace recollect::engine {

class DeviceLandmarks final : public LandmarkIndex {
 public:
  explicit DeviceLandmarks(std::shared_ptr<kernels::Device> device) : device_(std::move(device)) {}

  std::string name() const override { return device_->name(); }
  absl::Status health() const override { return device_->health(); }
  kernels::DeviceRoom room() const override { return device_->room(); }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(LargeVector<Bf16> keys) override;
  void Search(std::span<LandmarkQuery> queries) override;

 private:
  class Keys;
  // The search of several queries over the same keys. Offsets are in bytes, multiples of
  // kAlignment.
  struct Launch {
    kernels::LandmarkTopKPlan plan;
    int64_t queries = 0, segments = 0;   // in the upload: fp32 [queries, d_k]; SegmentTable
    int64_t candidates = 0, scores = 0;  // in the download: [queries, n] int64; fp32
  };
  // Queries [begin, end) of a call, over the same runs.
  struct Group {
    size_t begin = 0, end = 0;
  };
  static constexpr int64_t kAlignment = 16;

  // Adds the launch of a group to launches_, and its operands to in_.
  absl::Status AddLaunch(std::span<const LandmarkQuery> group);
  // Uploads in_, runs the launches, and fills out_.
  absl::Status Run();

  const std::shared_ptr<kernels::Device> device_;
  std::vector<Group> groups_;  // one for each of launches_
  std::vector<Launch> launches_;
  std::vector<std::byte> in_, out_;
  std::shared_ptr<kernels::DeviceBuffer> memory_;  // for in_, out_ and the workspace
};

}  // namespace recollect::engine
