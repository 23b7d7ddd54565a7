// Landmark keys in RAM, searched by the compute threads. Many keys are kept with a sketch
// (kernels/landmark_topk/landmark_sketch.h), a fifth of them again in memory: a search then reads
// little more than that, and finds the same. Sketches are made in the background: until one is
// there all keys are read. A sketch grows with keys that are appended, 16 at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/sync/executor.h"
#include "base/sync/mutex.h"
#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/cpu/sketch_sums.h"
#include "engine/backend/landmark_index.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::engine {

class CpuLandmarks final : public LandmarkIndex {
 public:
  // Makes sketches for keys of this shape; without a shape, none. Outlives the keys it keeps.
  explicit CpuLandmarks(std::shared_ptr<ComputeThreads> threads, kernels::SketchShape shape = {})
      : threads_(std::move(threads)), shape_(shape), summer_(threads_) {}
  std::string name() const override { return "cpu"; }
  int64_t BytesOf(int64_t count, int64_t d_k) const override;
  int64_t sketched_keys() const override;
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(LargeVector<Bf16> keys) override;
  void Search(std::span<LandmarkQuery> queries) override;
  // Returns when sketches of all keys kept so far are made; for tests and benchmarks.
  void AwaitSketches();

 private:
  class KeysInRam;
  struct Kept;
  // Keys that lie together, and which candidates they are.
  struct Stretch {
    const Bf16* keys = nullptr;
    int64_t count = 0;
    int64_t first = 0;               // candidate of the run's first key
    const int32_t* order = nullptr;  // of these keys, added to `first`; null: 0, 1, 2, …
    const kernels::LandmarkSketch* sketch = nullptr;  // null: none
    int64_t sketch_first = 0;                         // place of the first of these keys in it
    const int32_t* sums = nullptr;                    // of the query over the sketch; null: unknown
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
    const kernels::LandmarkSketch* sketch = nullptr;   // of the kept keys; null: none yet
    std::shared_ptr<const std::vector<int32_t>> sums;  // over the sketch; null: unknown
    std::vector<Stretch> stretches;                    // to be scored
  };

  static void ChooseLists(kernels::OpContext& ctx, const LandmarkQuery& query, Run& run);
  // Sums over sketches that are known or that several queries share a pass for.
  void Sum(std::span<LandmarkQuery> queries);
  // Divides what is to be scored among the threads.
  void Divide(std::span<const LandmarkQuery> queries);
  void Score(kernels::OpContext& ctx, const LandmarkQuery& query, Scan& scan);

  bool WantsSketch(int64_t count) const;
  int64_t KeysIn(const Kept& kept) const;  // 0 where no sketches are made
  // Returns before the sketch is made.
  std::shared_ptr<Kept> MakeKept(LargeVector<Bf16> keys,
                                 std::shared_ptr<const LandmarkLists> lists);
  // Begins a sketch of all keys, once. They must stay where they are while `making`.
  void BeginSketch(const std::shared_ptr<Kept>& kept);
  void MakeSketch(Kept& kept, const Bf16* keys, int64_t count) const;
  // Begins the sketch of keys of which some were just appended, or lets it grow.
  void FollowKeys(const std::shared_ptr<Kept>& kept);

  const std::shared_ptr<ComputeThreads> threads_;
  const kernels::SketchShape shape_;
  SketchSummer summer_;
  std::vector<Run> runs_;
  std::vector<Scan> scans_;
  std::vector<kernels::SearchFloor> floors_;  // by query

  Mutex maker_mutex_;
  std::unique_ptr<Executor> maker_ ABSL_GUARDED_BY(maker_mutex_);  // null: nothing was made yet
};

}  // namespace recollect::engine
