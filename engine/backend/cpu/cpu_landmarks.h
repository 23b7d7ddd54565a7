// Landmark keys in RAM, searched by the compute threads.
#ifndef RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
#define RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_

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
  // A range of one query's candidates.
  struct Scan {
    size_t query = 0;
    size_t part = 0;
    int64_t begin = 0, end = 0;
  };

  const std::shared_ptr<ComputeThreads> threads_;
  std::vector<Scan> scans_;
  std::vector<std::vector<std::vector<kernels::ScoredCandidate>>> parts_;  // by query
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
