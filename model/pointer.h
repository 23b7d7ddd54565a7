// The scores of the pointer head (docs/model-format.md, "Pointer head"): which token of a retrieved
// chunk comes next, by how far the tokens before it are those that the sequence ends with. It
// depends on token ids alone, so the host computes it wherever the layers run; what it adds to the
// logits is kernels/pointer_mix.h.
#ifndef RECOLLECT_MODEL_POINTER_H_
#define RECOLLECT_MODEL_POINTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/pointer_mix.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace recollect::model {

// Where it may point to: the tokens of one chunk, and the weight of its retrieval.
struct PointerChunk {
  // Those of the chunk, behind the tokens before it in its document or session: Pointer::reach() of
  // them, or all. Borrowed.
  std::span<const int32_t> tokens;
  int rows = 0;  // of them, the chunk's own
  float weight = 0;
};

// Immutable; thread-safe. Scores are fp32, in the order of the page.
class Pointer {
 public:
  // Reads pointer.run, pointer.overlap and pointer.rarity. REQUIRES: CheckTensors(file, config),
  // and that the config has a pointer. INVALID_ARGUMENT: a number that is not finite.
  static absl::StatusOr<Pointer> Load(const SafetensorsFile& file, const ModelConfig& config);

  // How many tokens before a place it compares.
  int64_t reach() const { return static_cast<int64_t>(run_.size()); }
  int64_t bytes() const;  // in memory

  // The tokens that the chunks, which the last group retrieved, go on with where they are like the
  // sequence: each once, in the order in which they are found. `recent` ends with the sequence's
  // last token, landmarks left out; of more than reach() tokens the last ones count. Ids are in
  // [0, vocab_size).
  std::vector<kernels::PointedToken> Point(std::span<const int32_t> recent,
                                           std::span<const PointerChunk> chunks) const;

 private:
  Pointer() = default;

  // Of an equal token j before the last one: where all behind it are equal as well, and in any
  // case.
  std::vector<float> run_, overlap_;  // [reach]
  std::vector<float> rarity_;         // [vocab_size], a factor of both
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_POINTER_H_
