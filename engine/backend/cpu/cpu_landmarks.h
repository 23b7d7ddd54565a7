// Landmark keys in RAM, searched by the threads of the pool.
#ifndef RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
#define RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/landmark_device.h"
#include "kernels/cpu/op_context.h"

namespace recollect::engine {

class CpuLandmarks final : public LandmarkDevice {
 public:
  CpuLandmarks(ThreadPool& pool, std::vector<kernels::OpContext>& contexts)
      : pool_(pool), contexts_(contexts) {}
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

  ThreadPool& pool_;
  std::vector<kernels::OpContext>& contexts_;
  std::vector<Scan> scans_;
  std::vector<std::vector<std::vector<kernels::ScoredCandidate>>> parts_;  // by query
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_CPU_CPU_LANDMARKS_H_
