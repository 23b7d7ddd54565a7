// Byte-level BPE: text becomes pre-tokens (pre_tokenizer.h), and in the bytes of each the pair of
// neighbours with the lowest rank is merged until none has one. The ids are those of Hugging Face's
// `tokenizers` for text without control tokens.
//
//   ASSIGN_OR_RETURN(BpeVocabulary vocabulary, BpeVocabulary::FromGguf(file.metadata()));
//   ASSIGN_OR_RETURN(const auto tokenizer, BpeTokenizer::Create(std::move(vocabulary)));
#ifndef RECOLLECT_MODEL_TEXT_BPE_TOKENIZER_H_
#define RECOLLECT_MODEL_TEXT_BPE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/bpe_vocabulary.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Thread-safe. A byte without a token is left out, as the library leaves it out; token_bytes counts
// it to the next token, and at the end of a text to none.
class BpeTokenizer : public Tokenizer {
 public:
  // INVALID_ARGUMENT names the token or merge that cannot be used and why: a normal token outside
  // the alphabet of bytes or there twice, a merge of what is no token or of what gives none.
  static absl::StatusOr<std::unique_ptr<BpeTokenizer>> Create(BpeVocabulary vocabulary);
  ~BpeTokenizer() override;

  absl::StatusOr<Encoded> EncodePrefix(std::string_view text, bool final,
                                       int64_t base_offset) const override;
  std::string_view TokenBytes(int32_t id) const override;
  int64_t vocab_size() const override;
  std::optional<int32_t> ControlToken(std::string_view name) const override;
  std::string_view ControlName(int32_t id) const override;
  // The vocabulary's `bos`.
  std::optional<int32_t> BeginToken() const override;

 private:
  BpeTokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_BPE_TOKENIZER_H_
