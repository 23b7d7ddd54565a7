// A SentencePiece BPE model: encodes by its rules, without the library
// (docs/decisions/0004-own-sentencepiece-reader.md). Private to model/.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/sentencepiece_vocabulary.h"

namespace recollect::model {

// Immutable after Create; thread-safe.
class SentencePieceModel {
 public:
  // INVALID_ARGUMENT names the piece: a user-defined one without text, a byte piece whose name is
  // not of the form, a score that is no number, a byte without a piece.
  static absl::StatusOr<SentencePieceModel> Create(SentencePieceVocabulary vocabulary);
  // Tables are views of the pieces' texts, which a move leaves where they are.
  SentencePieceModel(SentencePieceModel&&) = default;

  const SentencePieceVocabulary& vocabulary() const { return vocabulary_; }
  // With whole_text only: whether some piece contains these two characters next to each other. If
  // none does, no merge crosses this boundary, and a text may be cut there without changing its
  // ids.
  bool Joins(std::string_view a, std::string_view b) const;
  // Returns the text of piece `id`: one byte for byte pieces, nothing for control symbols and the
  // unknown piece.
  std::string Bytes(int id) const;
  // Id of the piece of one raw byte.
  int ByteId(uint8_t byte) const { return byte_ids_[byte]; }
  // Appends the ids of `text` (valid UTF-8) to `ids`.
  void Encode(std::string_view text, std::vector<int>& ids) const;

 private:
  struct Symbol;

  explicit SentencePieceModel(SentencePieceVocabulary vocabulary);
  absl::Status AddPiece(size_t id);
  absl::Status Build();
  void CollectJoins();
  std::vector<Symbol> Split(std::string_view text) const;
  void Merge(std::vector<Symbol>& symbols) const;

  SentencePieceVocabulary vocabulary_;
  std::unordered_map<std::string_view, int> ids_;  // of normal and user-defined pieces
  // Texts of user-defined pieces by their first byte, the longest first.
  std::array<std::vector<std::string_view>, 256> user_defined_;
  std::array<int, 256> byte_ids_;
  std::unordered_set<uint64_t> joins_;  // pairs of code points, with whole_text only
};

}  // namespace recollect::model
