// Reads either kind of vocabulary from a GGUF file's metadata.
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "model/text/bpe_vocabulary.h"
#include "model/text/printable.h"
#include "model/text/sentencepiece_vocabulary.h"
#include "model/weights/gguf_metadata.h"

namespace recollect::model {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kBeginKey = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEndKey = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kEndOfTurnKey = "tokenizer.ggml.eot_token_id";
constexpr std::string_view kUnknownKey = "tokenizer.ggml.unknown_token_id";
constexpr std::string_view kAddBegin = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddSpace = "tokenizer.ggml.add_space_prefix";

// The begin token of a SentencePiece vocabulary whose file names none: LLaMA's, as llama.cpp has
// it.
constexpr int32_t kDefaultBegin = 1;

std::vector<std::string> Copies(const std::vector<std::string_view>& strings) {
  return {strings.begin(), strings.end()};
}

// `bytes`: whether the vocabulary may have byte tokens.
absl::StatusOr<TokenType> TypeOf(size_t token, int64_t type, bool bytes) {
  const auto last = static_cast<int64_t>(bytes ? TokenType::kByte : TokenType::kUnused);
  if (type >= 1 && type <= last) return static_cast<TokenType>(type);
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(kTypes), " of token ", token, " is ", type,
                   ", expected 1 normal, 2 unknown, 3 control, 4 user-defined",
                   bytes ? ", 5 unused or 6 byte" : " or 5 unused"));
}

// An id of the vocabulary, or -1 where the file names none.
absl::StatusOr<int32_t> IdOf(const GgufMetadata& metadata, std::string_view key, size_t tokens) {
  if (!metadata.Has(key)) return -1;
  ASSIGN_OR_RETURN(const int64_t id, metadata.GetInt(key));
  if (id < 0 || id >= static_cast<int64_t>(tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(key), " is ", id, ", expected one of the ", tokens, " tokens"));
  }
  return static_cast<int32_t>(id);
}

absl::StatusOr<bool> FlagOf(const GgufMetadata& metadata, std::string_view key, bool otherwise) {
  return metadata.Has(key) ? metadata.GetBool(key) : otherwise;
}

absl::Status CheckCount(std::string_view key, size_t count, size_t tokens) {
  if (count == tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(key), " has ", count,
                                                 " entries, expected one for each of the ", tokens,
                                                 " tokens"));
}

// With texts as SentencePiece has them: the spaces of user-defined tokens, which such a file may
// have as they are, become marks.
absl::Status ReadPieces(const GgufMetadata& metadata, std::vector<SentencePiece>& pieces) {
  ASSIGN_OR_RETURN(const auto tokens, metadata.GetStrings(kTokens));
  ASSIGN_OR_RETURN(const std::vector<float> scores, metadata.GetFloats(kScores));
  ASSIGN_OR_RETURN(const std::vector<int64_t> types, metadata.GetInts(kTypes));
  RETURN_IF_ERROR(CheckCount(kScores, scores.size(), tokens.size()));
  RETURN_IF_ERROR(CheckCount(kTypes, types.size(), tokens.size()));
  for (size_t id = 0; id < tokens.size(); ++id) {
    ASSIGN_OR_RETURN(const TokenType type, TypeOf(id, types[id], /*bytes=*/true));
    pieces.push_back({std::string(tokens[id]), scores[id], type});
    SentencePiece& piece = pieces.back();
    if (type == TokenType::kUserDefined) {
      absl::StrReplaceAll({{" ", {kSpaceMark.data(), kSpaceMark.size()}}}, &piece.text);
    }
  }
  return absl::OkStatus();
}

// Of a token that the file's own types give a text.
void MakeControl(SentencePiece& piece) {
  const bool text = piece.type == TokenType::kNormal || piece.type == TokenType::kUserDefined;
  if (text) piece.type = TokenType::kControl;
}

}  // namespace

absl::StatusOr<BpeVocabulary> BpeVocabulary::FromGguf(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const std::string_view model, metadata.GetString(kModel));
  if (model != "gpt2") {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(kModel), " is ", Quoted(model, 64),
                     ", expected \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece)"));
  }
  BpeVocabulary vocabulary;
  ASSIGN_OR_RETURN(const std::string_view pre, metadata.GetString(kPre));
  const absl::StatusOr<PreTokenizer> rule = PreTokenizerNamed(pre);
  if (!rule.ok()) return Annotate(rule.status(), std::string(kPre));
  vocabulary.pre = *rule;
  // The file has no key for it; the published models with this rule are so.
  vocabulary.ignore_merges = *rule == PreTokenizer::kLlamaBpe;
  ASSIGN_OR_RETURN(const auto tokens, metadata.GetStrings(kTokens));
  vocabulary.tokens = Copies(tokens);
  ASSIGN_OR_RETURN(const std::vector<int64_t> types, metadata.GetInts(kTypes));
  for (const int64_t type : types) {
    ASSIGN_OR_RETURN(vocabulary.types.emplace_back(),
                     TypeOf(vocabulary.types.size(), type, /*bytes=*/false));
  }
  ASSIGN_OR_RETURN(const auto merges, metadata.GetStrings(kMerges));
  vocabulary.merges = Copies(merges);
  const std::pair<std::string_view, int32_t&> ids[] = {
      {kBeginKey, vocabulary.bos}, {kEndKey, vocabulary.eos}, {kUnknownKey, vocabulary.unk}};
  for (const auto& [key, id] : ids) {
    ASSIGN_OR_RETURN(id, IdOf(metadata, key, vocabulary.tokens.size()));
  }
  ASSIGN_OR_RETURN(vocabulary.add_bos, FlagOf(metadata, kAddBegin, false));
  return vocabulary;
}

absl::StatusOr<SentencePieceVocabulary> SentencePieceVocabulary::FromGguf(
    const GgufMetadata& metadata) {
  SentencePieceVocabulary vocabulary;
  std::vector<SentencePiece>& pieces = vocabulary.pieces;
  RETURN_IF_ERROR(ReadPieces(metadata, pieces));
  const auto is_control = [&](int32_t id) {
    return static_cast<size_t>(id) < pieces.size() &&
           pieces[static_cast<size_t>(id)].type == TokenType::kControl;
  };
  for (SentencePiece& piece : pieces) {
    if (IsControlName(piece.text)) MakeControl(piece);
  }
  for (const std::string_view key : {kBeginKey, kEndKey, kEndOfTurnKey}) {
    ASSIGN_OR_RETURN(const int32_t id, IdOf(metadata, key, pieces.size()));
    if (id >= 0) MakeControl(pieces[static_cast<size_t>(id)]);
    if (key == kBeginKey) vocabulary.bos = id;
  }
  if (!metadata.Has(kBeginKey) && is_control(kDefaultBegin)) vocabulary.bos = kDefaultBegin;
  ASSIGN_OR_RETURN(vocabulary.add_bos, FlagOf(metadata, kAddBegin, true));
  ASSIGN_OR_RETURN(vocabulary.dummy_prefix, FlagOf(metadata, kAddSpace, true));
  return vocabulary;
}

bool IsControlName(std::string_view text) {
  constexpr std::string_view kMarks[] = {
      "<s>",   "</s>",  "<unk>",           "<pad>",         "<bos>",  "<eos>",
      "<EOT>", "<EOD>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]"};
  const bool marked = text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
  return marked || std::find(std::begin(kMarks), std::end(kMarks), text) != std::end(kMarks);
}

}  // namespace recollect::model
