// A SentencePiece BPE model: encodes by its rules, without the library
// (docs/decisions/0004-own-sentencepiece-reader.md). Private to model/.
#ifndef RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_
#define RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/sentencepiece_vocabulary.h"

namespace recollect::model {

// Immutable after Create; thread-safe.
class SentencePieceModel {
 public:
  // INVALID_ARGUMENT names the piece: a user-defined one without text, a byte piece whose name is
  // not of the form, a score that is no number, a byte without a piece.
  static absl::StatusOr<SentencePieceModel> Create(SentencePieceVocabulary vocabulary);
  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) noexcept;

  // The vocabulary's. The caller adds the space and makes the segments.
  bool dummy_prefix() const;
  bool whole_text() const;
  // With whole_text only: whether some piece contains these two characters next to each other. If
  // none does, no merge crosses this boundary, and a text may be cut there without changing its
  // ids.
  bool Joins(std::string_view a, std::string_view b) const;

  int Size() const;
  // Returns the text of piece `id`: one byte for byte pieces, nothing for control symbols and the
  // unknown piece.
  std::string Bytes(int id) const;
  // The name of a control symbol or of the unknown piece, empty for others.
  std::string_view ControlName(int id) const;
  // Id of the piece of one raw byte.
  int ByteId(uint8_t byte) const;
  // Appends the ids of `text` (valid UTF-8) to `ids`.
  void Encode(std::string_view text, std::vector<int>& ids) const;

 private:
  SentencePieceModel();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_
