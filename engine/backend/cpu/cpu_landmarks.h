// Landmark keys in RAM, searched by the compute threads.
#ifndef RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
#define RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/landmark_index.h"

namespace recollect::engine {

class CpuLandmarks final : public LandmarkIndex {
 public:
  explicit CpuLandmarks(std::shared_ptr<ComputeThreads> threads) : threads_(std::move(threads)) {}
  std::string name() const override { return "cpu"; }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(std::vector<Bf16> keys) override;
  void Search(std::span<LandmarkQuery> queries) override;

 private:
  class KeysInRam;
  struct Kept;
  // Keys that lie together, and which candidates they are.
  struct Stretch {
    const Bf16* keys = nullptr;
    int64_t count = 0;
    int64_t first = 0;               // candidate of the run's first key
    const int32_t* order = nullptr;  // of these keys, added to `first`; null: 0, 1, 2, …
  };
  // Stretches of one query that one thread scores.
  struct Scan {
    size_t query = 0;
    std::vector<Stretch> stretches;
    std::vector<kernels::ScoredCandidate> best;
  };
  // A run of one query, as it was when the search began.
  struct Run {
    size_t query = 0;
    int64_t first = 0, count = 0;
    std::shared_ptr<const Kept> kept;
    std::vector<Stretch> stretches;  // to be scored
  };

  static void ChooseLists(kernels::OpContext& ctx, const LandmarkQuery& query, Run& run);
  static void Score(kernels::OpContext& ctx, const LandmarkQuery& query, Scan& scan);

  const std::shared_ptr<ComputeThreads> threads_;
  std::vector<Run> runs_;
  std::vector<Scan> scans_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
