// Text to ids with a SentencePiece model. Its texts are first cut into segments
// (docs/tokenizers.md, "Tokenizer"); each is encoded on its own.
//
// Models of others (SentencePieceVocabulary::whole_text) encode texts as wholes instead, with the
// library's ids, and most put a space before every text ("dummy prefix", LLaMA's); cuts are then
// made only where they cannot change an id.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/sentencepiece_model.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Thread-safe.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Reads a tokenizer.model: with a dummy prefix texts are wholes. INVALID_ARGUMENT: not a BPE
  // model with byte fallback that changes no text; the message names the file and the problem.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Load(const std::string& path);
  // INVALID_ARGUMENT as SentencePieceModel::Create.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Create(
      SentencePieceVocabulary vocabulary);

  const char* kind() const override { return "SentencePiece"; }
  std::string Decode(const std::vector<int32_t>& ids) const override;

 private:
  explicit SentencePieceTokenizer(SentencePieceModel model);
  absl::StatusOr<Encoded> EncodeValid(std::string_view text, bool final,
                                      int64_t base_offset) const override;
  void EncodeSegment(std::string_view segment, std::vector<int>& ids) const;

  SentencePieceModel model_;
  std::vector<int> mark_ids_;  // the byte pieces of kSpaceMark
};

}  // namespace recollect::model
