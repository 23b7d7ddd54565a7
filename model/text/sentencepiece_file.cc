// Reads SentencePiece's model files, protobuf messages, without its library
// (docs/decisions/0004-own-sentencepiece-reader.md).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/text/sentencepiece_file.pb.h"
#include "model/text/sentencepiece_vocabulary.h"

namespace recollect::model {
namespace {

constexpr int kBpe = 2;

absl::Status CheckOptions(const sentencepiece::ModelFile& file) {
  if (const int type = file.trainer().model_type(); type != kBpe) {
    return absl::InvalidArgumentError(absl::StrCat("model type ", type, ", expected 2 (BPE)"));
  }
  const sentencepiece::Normalizer& normalizer = file.normalizer();
  if (!normalizer.rules().empty() || normalizer.remove_spaces() || !normalizer.escape_spaces() ||
      file.trainer().space_as_suffix()) {
    return absl::InvalidArgumentError(
        "the model changes text; expected identity normalisation, no removal of whitespace, and "
        "spaces written as U+2581 before a word");
  }
  return absl::OkStatus();
}

int32_t ControlNamed(const std::vector<SentencePiece>& pieces, std::string_view name) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const SentencePiece& piece) {
    return piece.type == TokenType::kControl && piece.text == name;
  });
  return found == pieces.end() ? -1 : static_cast<int32_t>(found - pieces.begin());
}

}  // namespace

absl::StatusOr<SentencePieceVocabulary> SentencePieceVocabulary::FromModelFile(
    std::string_view bytes) {
  sentencepiece::ModelFile file;
  if (!std::in_range<int>(bytes.size()) ||
      !file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || file.pieces().empty()) {
    return absl::InvalidArgumentError("not a SentencePiece model");
  }
  RETURN_IF_ERROR(CheckOptions(file));
  SentencePieceVocabulary vocabulary;
  for (sentencepiece::Piece& piece : *file.mutable_pieces()) {
    const auto type = static_cast<TokenType>(piece.type());
    if (type == TokenType::kUnused) {
      return absl::InvalidArgumentError("unused pieces are not supported");
    }
    vocabulary.pieces.push_back({std::move(*piece.mutable_text()), piece.score(), type});
  }
  vocabulary.dummy_prefix = file.normalizer().dummy_prefix();
  vocabulary.bos = ControlNamed(vocabulary.pieces, "<s>");
  if (vocabulary.bos < 0) vocabulary.bos = ControlNamed(vocabulary.pieces, "<bos>");
  return vocabulary;
}

}  // namespace recollect::model
