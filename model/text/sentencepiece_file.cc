// Reads SentencePiece's model files, protobuf messages, without its library
// (docs/decisions/0004-own-sentencepiece-reader.md).
#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "model/text/protobuf_reader.h"
#include "model/text/sentencepiece_vocabulary.h"

namespace recollect::model {
namespace {

// Field numbers and values of sentencepiece_model.proto.
constexpr uint64_t kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3;
constexpr uint64_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr uint64_t kTrainerModelType = 3, kTrainerSpaceAsSuffix = 24;
constexpr uint64_t kNormalizerRules = 2, kNormalizerDummyPrefix = 3, kNormalizerRemoveSpaces = 4,
                   kNormalizerEscapeSpaces = 5;
constexpr uint64_t kBpe = 2;

// What of a file says how it encodes; the format's defaults.
struct SentencePieceOptions {
  uint64_t model_type = 0;
  bool space_as_suffix = false;
  bool rules = false;  // of the normaliser, as the rest
  bool dummy_prefix = true;
  bool remove_spaces = true;
  bool escape_spaces = true;
};

bool ParsePiece(std::string_view message, SentencePiece& piece) {
  FieldReader fields(message);
  while (fields.Next()) {
    if (fields.number == kPieceText) piece.text = std::string(fields.bytes);
    if (fields.number == kPieceScore && fields.bytes.size() == sizeof(float)) {
      std::memcpy(&piece.score, fields.bytes.data(), sizeof(float));
    }
    if (fields.number == kPieceType) piece.type = static_cast<TokenType>(fields.value);
  }
  return fields.ok();
}

bool ParseTrainer(std::string_view message, SentencePieceOptions& options) {
  FieldReader fields(message);
  while (fields.Next()) {
    if (fields.number == kTrainerModelType) options.model_type = fields.value;
    if (fields.number == kTrainerSpaceAsSuffix) options.space_as_suffix = fields.value != 0;
  }
  return fields.ok();
}

bool ParseNormalizer(std::string_view message, SentencePieceOptions& options) {
  FieldReader fields(message);
  while (fields.Next()) {
    if (fields.number == kNormalizerRules) options.rules = !fields.bytes.empty();
    if (fields.number == kNormalizerDummyPrefix) options.dummy_prefix = fields.value != 0;
    if (fields.number == kNormalizerRemoveSpaces) options.remove_spaces = fields.value != 0;
    if (fields.number == kNormalizerEscapeSpaces) options.escape_spaces = fields.value != 0;
  }
  return fields.ok();
}

absl::Status ParseFile(std::string_view file, std::vector<SentencePiece>& pieces,
                       SentencePieceOptions& options) {
  FieldReader fields(file);
  while (fields.Next()) {
    if (fields.number == kModelPieces && !ParsePiece(fields.bytes, pieces.emplace_back())) {
      return absl::InvalidArgumentError("damaged piece");
    }
    if (fields.number == kModelNormalizer && !ParseNormalizer(fields.bytes, options)) {
      return absl::InvalidArgumentError("damaged normaliser options");
    }
    if (fields.number == kModelTrainer && !ParseTrainer(fields.bytes, options)) {
      return absl::InvalidArgumentError("damaged trainer options");
    }
  }
  if (fields.ok() && !pieces.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("not a SentencePiece model");
}

absl::Status CheckOptions(const SentencePieceOptions& options) {
  if (options.model_type != kBpe) {
    return absl::InvalidArgumentError(
        absl::StrCat("model type ", options.model_type, ", expected 2 (BPE)"));
  }
  if (options.rules || options.remove_spaces || !options.escape_spaces || options.space_as_suffix) {
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
    std::string_view file) {
  SentencePieceVocabulary vocabulary;
  SentencePieceOptions options;
  if (absl::Status status = ParseFile(file, vocabulary.pieces, options); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  for (const SentencePiece& piece : vocabulary.pieces) {
    if (piece.type == TokenType::kUnused) {
      return absl::InvalidArgumentError("unused pieces are not supported");
    }
  }
  vocabulary.dummy_prefix = options.dummy_prefix;
  vocabulary.bos = ControlNamed(vocabulary.pieces, "<s>");
  if (vocabulary.bos < 0) vocabulary.bos = ControlNamed(vocabulary.pieces, "<bos>");
  return vocabulary;
}

}  // namespace recollect::model
