// Documents that sequences of a family with landmarks retrieve from: made-up landmark keys and
// memory of chunks, in the sizes of a model. Covers retrieval alone, as the engine does it with
// every chunk's memory at hand; engine_bench measures what reading and storing chunks costs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/numeric/bf16.h"
#include "kernels/cpu/op_context.h"
#include "model/cpu/cpu_model.h"

namespace recollect::bench {

// Not thread-safe; `model` must outlive it.
class Mounted {
 public:
  // Makes `chunks` chunks of `rows` tokens each.
  Mounted(const model::CpuModel& model, int64_t chunks, int rows);

  // Retrieves for a landmark with the residual h[d] on entry to `group`: computes its query and the
  // scores of all chunks, and returns the n_ret best, with equal weights. The result borrows from
  // this object. Which chunks are best does not change their cost, so memory is handed out in turn.
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
