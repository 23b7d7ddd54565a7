// Sequences of one length that advance side by side through a model's layers, and their cost.
// Without mounts it is the cost of local state only: layers with Grouped Cross-Attention retrieve
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/model/mounted.h"
#include "bench/model/touched.h"
#include "kernels/cpu/op_context.h"
#include "model/cpu/cpu_model.h"

namespace recollect::bench {

// The cost of positions, per token of one sequence.
struct PositionCost {
  double median_s = 0;       // thread CPU seconds
  double spread = 0;         // (third quartile - first) / median
  Touched counted, formula;  // means over what was timed
};

// Not thread-safe; `model` must outlive it.
class Sequences {
 public:
  // Begins with one empty sequence.
  Sequences(const model::CpuModel& model, const model::LocalPatterns& patterns);

  // Appends made-up keys and values directly to every layer's state until the first sequence has
  // `length` positions: the same entries are kept, evicted and attended to as after a prompt of
  // that length, since the network only chooses their values. Recurrences and the sums of
  // RAttention stay as they are. REQUIRES: batch 1.
  void FillTo(int64_t length);
  // Makes each sequence retrieve from `mounted`, which must outlive this, from here on.
  void Mount(Mounted& mounted) { mounted_ = &mounted; }
  // Makes all sequences copies of the first, each with memory of its own.
  void SetBatch(int batch);

  // Runs `rows` new tokens of each sequence per call: at 1 with logits, as generation does, else
  // without, as prompts do. With mounts a sample is a block, row by row or in one call: a landmark,
  // which retrieves, and its tokens, among which all costs are divided. After one call outside the
  // clock, takes at least `samples` samples, then more until `seconds` have passed, up to
  // kMaxSamples.
  static constexpr int64_t kMaxSamples = 40;  // so that the length stays about the same
  PositionCost Measure(int64_t rows, int samples, double seconds);

  int64_t length() const { return states_[0].length(); }
  const model::LocalState& state() const { return states_[0]; }

 private:
  // Runs the next `rows` rows of each sequence. With `landmark` the first row is a landmark.
  void Advance(int64_t rows, bool landmark);
  // Adds what the first sequence's latest position reads.
  void AddTouched(PositionCost& cost) const;

  const model::CpuModel& model_;
  kernels::OpContext ctx_;
  Mounted* mounted_ = nullptr;
  std::vector<model::LocalState> states_;
  std::vector<std::vector<model::Retrieved>> retrieved_;  // by sequence and group
  std::vector<float> h_, logits_;
};

}  // namespace recollect::bench
