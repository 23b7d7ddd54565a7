// A SentencePiece BPE model: reads its file and encodes by its rules, without the library (the .cc
// says why). Private to model/.
#ifndef RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_
#define RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

// SentencePiece writes a space inside a piece as this character (U+2581), so the character itself
// must go through byte pieces.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

// Immutable after Parse; thread-safe.
class SentencePieceModel {
 public:
  SentencePieceModel();
  ~SentencePieceModel();

  // Parses a file's bytes. Returns an empty string, or the problem of the file.
  std::string Parse(const std::string& file);

  // Whether a space belongs before every text, as in LLaMA's model. The caller adds it.
  bool dummy_prefix() const;
  // With dummy_prefix only: whether some piece contains these two characters next to each other. If
  // none does, no merge crosses this boundary, and a text may be cut there without changing its
  // ids.
  bool Joins(std::string_view a, std::string_view b) const;

  int Size() const;
  // Returns the text of piece `id`: one byte for byte pieces, nothing for control symbols and the
  // unknown piece.
  std::string Bytes(int id) const;
  // The name of a control symbol or of the unknown piece, empty for others.
  std::string_view ControlName(int id) const;
  // Id of the piece of one raw byte, or -1 when the model has none.
  int ByteId(uint8_t byte) const;
  // Appends the ids of `text` (valid UTF-8) to `ids`. Returns an empty string, or the error.
  std::string Encode(std::string_view text, std::vector<int>& ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_SENTENCEPIECE_MODEL_H_
