// The lexical part of landmark keys and queries (docs/model-format.md, "Lexical keys and
// successors"): which words a chunk holds, as a sum of one learned vector a token. It depends on
// token ids alone, so the host computes it wherever the layers run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "model/config/config.h"

namespace recollect::model {

class TensorFile;

// Immutable; thread-safe. Sums are fp32, in the order given in docs/model-format.md.
class Lexicon {
 public:
  // Reads lexicon.weight and the groups' recency. REQUIRES: CheckTensors, and that
  // the config has a lexicon. INVALID_ARGUMENT: a number that is not finite.
  static absl::StatusOr<Lexicon> Load(const TensorFile& file, const ModelConfig& config);

  int64_t width() const { return width_; }  // d_x
  // The number of tokens before a landmark that a query reads.
  int64_t reach() const { return static_cast<int64_t>(recency_.front().size()); }

  int64_t bytes() const;  // in memory

  // κ_x [d_x] of the chunk with these tokens.
  std::vector<Bf16> Key(std::span<const int32_t> tokens) const;

  // u_x [d_x] of `group` at a landmark; `recent` ends with the last token before the landmark; only
  // its last reach() tokens are used.
  void Query(int group, std::span<const int32_t> recent, std::span<float> u) const;

 private:
  Lexicon() = default;

  int64_t width_ = 0;
  float norm_eps_ = 0;
  std::vector<float> rows_;                  // [vocab_size, d_x]
  std::vector<std::vector<float>> recency_;  // [group][reach], the last token's first
};

// b_g of each group, at most 0. REQUIRES: CheckTensors, and that the config has successors.
// INVALID_ARGUMENT: a bias above 0, naming it.
absl::StatusOr<std::vector<float>> LoadSuccessorBiases(const TensorFile& file,
                                                       const ModelConfig& config);

}  // namespace recollect::model
