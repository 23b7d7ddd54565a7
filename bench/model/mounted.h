// Documents that sequences of a family with landmarks retrieve from: made-up landmark keys and
// memory of chunks, in the sizes of a model. Retrieval alone, as the engine does it with every
// chunk's memory at hand; what reading and storing chunks costs is engine_bench's.
#ifndef RECOLLECT_BENCH_MODEL_MOUNTED_H_
#define RECOLLECT_BENCH_MODEL_MOUNTED_H_

#include <cstdint>
#include <vector>

#include "base/bf16.h"
#include "kernels/cpu/op_context.h"
#include "model/cpu/cpu_model.h"

namespace recollect::bench {

// Not thread-safe; `model` must outlive it.
class Mounted {
 public:
  // `chunks` of `rows` tokens each.
  Mounted(const model::CpuModel& model, int64_t chunks, int rows);

  // What follows a landmark with the residual h[d] on entry to `group`: its query, the scores of
  // all chunks, and the n_ret best, with equal weights. Borrows from this object. Which chunks are
  // the best makes no difference to their cost: they are handed out in turn.
  model::Retrieved Retrieve(kernels::OpContext& ctx, int group, const float* h);

  int64_t chunks() const { return chunks_; }
  int rows() const { return rows_; }

 private:
  const model::CpuModel& model_;
  const int64_t chunks_;
  const int rows_;
  std::vector<Bf16> keys_;  // [chunks, d_r]
  std::vector<float> query_;
  std::vector<model::Memory> memory_;
  size_t next_ = 0;  // of memory_
};

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_MODEL_MOUNTED_H_
