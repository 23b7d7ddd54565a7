// The pointer head (docs/model-format.md, "Pointer head"): it predicts a token of a retrieved
// chunk, scored by how far the tokens before it equal the end of the sequence. The scores depend on
// token ids alone, so the host computes them wherever the layers run;
// kernels/pointer_mix/pointer_mix.h mixes them into the logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "model/config/config.h"

namespace recollect::model {

class TensorFile;

// Tokens to which the pointer may point: those of one chunk, with the chunk's retrieval weight.
struct PointerChunk {
  // The chunk's tokens, preceded by Pointer::reach() tokens (or all there are) before it in its
  // document or session. Borrowed.
  std::span<const int32_t> tokens;
  int rows = 0;  // how many of them are the chunk's own
  float weight = 0;
};

// Immutable; thread-safe. Scores are fp32, in the order given in docs/model-format.md.
class Pointer {
 public:
  // Reads pointer.run, pointer.overlap and pointer.rarity. REQUIRES: CheckTensors,
  // and that the config has a pointer. INVALID_ARGUMENT: a number that is not finite.
  static absl::StatusOr<Pointer> Load(const TensorFile& file, const ModelConfig& config);

  // The number of tokens before a place that are compared.
  int64_t reach() const { return static_cast<int64_t>(run_.size()); }
  int64_t bytes() const;  // in memory

  // The tokens with which the chunks, retrieved by the last group, continue where they match the
  // end of the sequence: each once, in the order in which they are found. `recent` ends with the
  // sequence's last token, landmarks omitted; only its last reach() tokens are used. Ids are in [0,
  // vocab_size).
  std::vector<kernels::PointedToken> Point(std::span<const int32_t> recent,
                                           std::span<const PointerChunk> chunks) const;

 private:
  Pointer() = default;

  // Scores of an equal token, the j + 1st before the place: run_[j] if all tokens between are equal
  // as well, overlap_[j] in any case.
  std::vector<float> run_, overlap_;  // [reach]
  std::vector<float> rarity_;         // [vocab_size], a factor of both
};

}  // namespace recollect::model
