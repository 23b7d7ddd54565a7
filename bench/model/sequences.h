// Sequences of one length that advance side by side through a model's layers, and what that takes.
// Local state only: layers with Grouped Cross-Attention have retrieved nothing.
#ifndef RECOLLECT_BENCH_MODEL_SEQUENCES_H_
#define RECOLLECT_BENCH_MODEL_SEQUENCES_H_

#include <cstdint>
#include <vector>

#include "kernels/op_context.h"
#include "model/model.h"

namespace recollect::bench {

// What positions cost, per token of one sequence.
struct PositionCost {
  double median_s = 0;  // thread CPU seconds
  double spread = 0;    // (third quartile - first) / median
  // Of the state, over all layers and heads: means over the positions timed.
  double entries = 0;
  double entries_formula = 0;
};

// Not thread-safe; `model` must outlive it.
class Sequences {
 public:
  // One empty sequence.
  Sequences(const model::Model& model, const model::LocalPatterns& patterns);

  // Appends made-up keys and values, straight to every layer's state, until the first sequence has
  // `length` positions: the same entries are kept, evicted and attended to as after a prompt of
  // that length, whose network only chooses their values. Recurrences and the sums of RAttention
  // stay as they are. REQUIRES: batch 1.
  void FillTo(int64_t length);
  // Copies of the first sequence, each with memory of its own.
  void SetBatch(int batch);

  // Runs `rows` new tokens of each sequence a call: at 1 with logits, as generation does, else
  // without, as prompts do. At least `samples` calls, then up to kMostSamples until `seconds` have
  // passed, after one outside the clock.
  static constexpr int64_t kMostSamples = 40;  // so that the length stays about the same
  PositionCost Measure(int64_t rows, int samples, double seconds);

  int64_t length() const { return states_[0].length(); }
  const model::LocalState& state() const { return states_[0]; }

 private:
  void Advance(int64_t rows);

  const model::Model& model_;
  kernels::OpContext ctx_;
  std::vector<model::LocalState> states_;
  std::vector<float> h_, logits_;
};

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_MODEL_SEQUENCES_H_
