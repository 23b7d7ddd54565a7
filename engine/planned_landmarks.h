// Landmark keys in the memory of a device that runs kernels/landmark_topk_plan.h's searches: what
// goes up, is run and comes back is laid out here, on the host; a subclass has the memory and runs
// it (cuda_landmarks.h; a test without a GPU runs the kernels' thread blocks on the host).
#ifndef RECOLLECT_ENGINE_PLANNED_LANDMARKS_H_
#define RECOLLECT_ENGINE_PLANNED_LANDMARKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/landmark_device.h"
#include "kernels/landmark_topk_plan.h"

namespace recollect::engine {

class PlannedLandmarks : public LandmarkDevice {
 public:
  explicit PlannedLandmarks(int multiprocessors) : multiprocessors_(multiprocessors) {}
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(std::vector<Bf16> keys) final;
  void Search(std::span<LandmarkQuery> queries) final;

 protected:
  class Memory {
   public:
    virtual ~Memory() = default;
    virtual Bf16* data() = 0;
  };

  // One search of queries over the same keys. Offsets are in bytes, multiples of kAlignment.
  struct Launch {
    kernels::LandmarkTopKPlan plan;
    int64_t queries = 0, segments = 0;   // in what goes up: fp32 [queries, d_r]; SegmentTable
    int64_t candidates = 0, scores = 0;  // in what comes back: [queries, n] int64; fp32
  };
  static constexpr int64_t kAlignment = 16;

  // Each has happened when it returns. Thread-safe. RESOURCE_EXHAUSTED, UNAVAILABLE.
  virtual absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t numbers) = 0;
  virtual absl::Status Upload(std::span<const Bf16> from, Bf16* to) = 0;
  virtual absl::Status CopyWithin(const Bf16* from, int64_t count, Bf16* to) = 0;
  // Takes `in` up, runs the launches, and fills `out`.
  virtual absl::Status Run(std::span<const Launch> launches, std::span<const std::byte> in,
                           std::span<std::byte> out) = 0;

 private:
  class Keys;
  // Queries [begin, end) of a call, over the same runs.
  struct Group {
    size_t begin = 0, end = 0;
  };
  absl::Status Lay(std::span<const LandmarkQuery> group);

  const int multiprocessors_;
  std::vector<Group> groups_;  // one for each of launches_
  std::vector<Launch> launches_;
  std::vector<std::byte> in_, out_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_PLANNED_LANDMARKS_H_
