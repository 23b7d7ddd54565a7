// Sums of queries over the 4-bit codes of sketches: several queries in one pass over the codes, and
// sums for queries of which no more than their last numbers is known yet.
#ifndef RECOLLECT_ENGINE_BACKEND_CPU_SKETCH_SUMS_H_
#define RECOLLECT_ENGINE_BACKEND_CPU_SKETCH_SUMS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/landmark_index.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::engine {

// One query's sums over one sketch. Immutable once they are made.
struct SumsOfSketch {
  std::shared_ptr<const void> kept;  // owns the sketch
  const kernels::LandmarkSketch* sketch = nullptr;
  std::vector<int8_t> weights;
  std::shared_ptr<std::vector<int32_t>> sums;
};

// What a search did for a later one: sums over the sketches of its runs.
struct SumsAhead final : SearchAhead {
  std::vector<SumsOfSketch> of;
  // The sums over this sketch, made with the weights of this query; null: there are none.
  const SumsOfSketch* Find(const kernels::LandmarkSketch& sketch,
                           std::span<const float> query) const;
};

// Makes sums. Buffers are used again: some megabytes that are new to the process would take as long
// as the sums. Thread-safe except for Make.
class SketchSummer {
 public:
  explicit SketchSummer(std::shared_ptr<ComputeThreads> threads) : threads_(std::move(threads)) {}
  // A query's sums over a sketch, to be made; its last numbers are given.
  SumsOfSketch Plan(std::shared_ptr<const void> kept, const kernels::LandmarkSketch& sketch,
                    std::span<const float> query_end);
  // Makes all of them, those of one sketch together.
  void Make(const std::deque<SumsOfSketch>& planned);

 private:
  struct Buffers {
    Mutex mutex;
    std::vector<std::unique_ptr<std::vector<int32_t>>> unused ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<std::vector<int32_t>> Buffer(size_t size);

  const std::shared_ptr<ComputeThreads> threads_;
  const std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_CPU_SKETCH_SUMS_H_
