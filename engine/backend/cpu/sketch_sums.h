// Computes sums of queries over the 4-bit codes of sketches: of several queries in one pass over
// the codes, also of queries of which only the last numbers are known yet.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/landmark_index.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::engine {

// The sums of a query over a sketch. Immutable once they are made.
struct SumsOfSketch {
  std::shared_ptr<const void> kept;  // owns the sketch
  const kernels::LandmarkSketch* sketch = nullptr;
  int64_t count = 0;  // keys that the sketch covered
  std::vector<int8_t> weights;
  std::shared_ptr<std::vector<int32_t>> sums;
};

// The work that a search did for a later one: sums over the sketches of its runs.
struct SumsAhead final : SearchAhead {
  std::vector<SumsOfSketch> of;
  // Returns the sums over all of `sketch` made with the weights of `query`; null: there are none.
  const SumsOfSketch* Find(const kernels::LandmarkSketch& sketch,
                           std::span<const float> query) const;
};

// Makes sums. Reuses buffers: some megabytes of newly allocated memory would take as long as the
// sums. Thread-safe except for Make.
class SketchSummer {
 public:
  explicit SketchSummer(std::shared_ptr<ComputeThreads> threads) : threads_(std::move(threads)) {}
  // Returns a query's sums over a sketch, which Make computes; `query_end`: its last numbers.
  SumsOfSketch Plan(std::shared_ptr<const void> kept, const kernels::LandmarkSketch& sketch,
                    std::span<const float> query_end);
  // Makes all `planned` sums, those over one sketch in one pass.
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
