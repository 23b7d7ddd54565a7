// Texts that the reranker of a memory adapter reads (docs/llama.md, "Reranker") layer by layer, in
// slices that threads run side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/op_context.h"
#include "model/cpu/cpu_model.h"
#include "model/reranker.h"
#include "model/state/local_state.h"

namespace recollect::model {

// CpuModel::Rerank makes it. Each slice is run by one thread at a time.
class RerankerRun {
 public:
  // Borrows the model and its weights. REQUIRES: a reranker, and at least one text.
  RerankerRun(const CpuModel& model, const Weights& weights, std::span<const RerankerText> texts);

  int64_t slices() const { return static_cast<int64_t>(slices_.size()); }
  int64_t layers() const { return static_cast<int64_t>(states_.size()); }
  // Runs a layer on a slice, after the layer before it and after the same layer of the slice before
  // (ThreadPool::Wavefront).
  void RunLayer(kernels::OpContext& ctx, int64_t slice, int64_t layer);

  // Returns the scores of the lines of each text, after all layers of all slices: the larger, the
  // likelier the sentence answers the question; 0 is the score of no answer. Scores do not depend
  // on the other texts.
  std::vector<std::vector<float>> Scores() const;

 private:
  // Consecutive rows of one text, or of what all texts begin with, which is read once.
  struct Slice {
    size_t state = 0;  // of a layer: 0 for the beginning, 1 + i for text i
    bool begins_text = false;
    int64_t first_row = 0;
    int64_t rows = 0;
    std::vector<int64_t> ends;  // its rows that end a line
  };

  void AddRows(size_t state, int64_t rows);
  // The row of a text's token.
  int64_t RowOf(size_t text, size_t token) const;
  // h: the slice's rows in the last layer, before the FFN.
  void ScoreLines(kernels::OpContext& ctx, const Slice& slice, const float* h);

  const CpuModel& model_;
  const Weights& weights_;
  std::vector<std::vector<size_t>> ends_;  // RerankerText::ends
  int64_t shared_rows_ = 0;
  std::vector<int64_t> first_rows_;  // by text, of what the texts do not share
  std::vector<Slice> slices_;
  std::vector<std::vector<LayerState>> states_;  // by layer
  std::vector<float> h_;                         // [rows, d]
  std::vector<float> scores_;                    // [rows], of those that end a line
};

}  // namespace recollect::model
