// Byte-level BPE: text becomes pre-tokens (pre_tokenizer.h), and in the bytes of each the pair of
// neighbours with the lowest rank is merged until none has one. The ids are those of Hugging Face's
// `tokenizers` for text without control tokens.
//
//   ASSIGN_OR_RETURN(BpeVocabulary vocabulary, BpeVocabulary::FromGguf(file.metadata()));
//   ASSIGN_OR_RETURN(const auto tokenizer, BpeTokenizer::Create(std::move(vocabulary)));
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/bpe_merges.h"
#include "model/text/bpe_vocabulary.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Thread-safe. A byte without a token is left out, as the library leaves it out; token_bytes counts
// it to the next token, and at the end of a text to none.
class BpeTokenizer final : public Tokenizer {
 public:
  // INVALID_ARGUMENT names the token or merge that cannot be used and why: a normal token outside
  // the alphabet of bytes or there twice, a merge of what is no token or of what gives none.
  static absl::StatusOr<std::unique_ptr<BpeTokenizer>> Create(BpeVocabulary vocabulary);

  const char* kind() const override { return "ByteLevelBPE"; }

 private:
  // A short word in place, so that finding it touches no other memory.
  using ShortWord = std::array<uint64_t, 2>;
  using TokenIds = absl::flat_hash_map<std::string_view, int32_t>;  // keys are of TokenBytes

  explicit BpeTokenizer(PreTokenSplitter rule) : splitter_(std::move(rule)) {}

  absl::StatusOr<Encoded> EncodeValid(std::string_view text, bool final,
                                      int64_t base_offset) const override;
  // `texts`: the normal tokens by their bytes.
  absl::Status AddTokens(BpeVocabulary& vocabulary, TokenIds& texts);
  absl::Status AddMerges(const std::vector<std::string>& pairs, const TokenIds& texts);
  void AddWords(const TokenIds& texts, bool ignore_merges);
  static ShortWord Packed(std::string_view word);
  // The token that a whole pre-token is, or -1.
  int32_t Word(std::string_view pre_token) const;
  // Appends the tokens of one pre-token. A byte without one counts to the next token of the
  // pre-token, or else to the last one.
  void EncodeWord(std::string_view pre_token, std::vector<BpeSymbol>& word) const;
  void Merge(std::string_view pre_token, std::vector<BpeSymbol>& word) const;

  PreTokenSplitter splitter_;
  std::array<int32_t, 256> byte_ids_;
  BpeMerges merges_;
  // Words that are one token as a whole pre-token: most of any text, found without merging.
  absl::flat_hash_map<ShortWord, int32_t> short_words_;
  TokenIds long_words_;
};

}  // namespace recollect::model
