// Text to ids with a SentencePiece model. Its texts are first cut into segments
// (docs/tokenizers.md, "Tokenizer"); each is encoded on its own.
//
// Models of others (SentencePieceVocabulary::whole_text) encode texts as wholes instead, with the
// library's ids, and most put a space before every text ("dummy prefix", LLaMA's); cuts are then
// made only where they cannot change an id.
#ifndef RECOLLECT_MODEL_TEXT_SENTENCEPIECE_TOKENIZER_H_
#define RECOLLECT_MODEL_TEXT_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/sentencepiece_vocabulary.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Thread-safe.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // Reads a tokenizer.model: with a dummy prefix texts are wholes. INVALID_ARGUMENT: not a BPE
  // model with byte fallback that changes no text; the message names the file and the problem.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Load(const std::string& path);
  // INVALID_ARGUMENT as SentencePieceModel::Create.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Create(
      SentencePieceVocabulary vocabulary);
  ~SentencePieceTokenizer() override;

  absl::StatusOr<Encoded> EncodePrefix(std::string_view text, bool final,
                                       int64_t base_offset) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::string Decode(const std::vector<int32_t>& ids) const override;
  int64_t vocab_size() const override;
  std::optional<int32_t> ControlToken(std::string_view name) const override;
  std::string_view ControlName(int32_t id) const override;
  // The vocabulary's `bos`.
  std::optional<int32_t> BeginToken() const override;

 private:
  struct State;
  explicit SentencePieceTokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_SENTENCEPIECE_TOKENIZER_H_
