// Reads the vocabulary from a GGUF file's metadata.
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/text/bpe_vocabulary.h"
#include "model/text/printable.h"
#include "model/weights/gguf_metadata.h"

namespace recollect::model {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kAddBegin = "tokenizer.ggml.add_bos_token";

std::vector<std::string> Copies(const std::vector<std::string_view>& strings) {
  return {strings.begin(), strings.end()};
}

absl::StatusOr<TokenType> TypeOf(size_t token, int64_t type) {
  switch (type) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      return static_cast<TokenType>(type);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(kTypes), " of token ", token, " is ", type,
                       ", expected 1 normal, 2 unknown, 3 control, 4 user-defined or 5 unused"));
  }
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

}  // namespace

absl::StatusOr<BpeVocabulary> BpeVocabulary::FromGguf(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const std::string_view model, metadata.GetString(kModel));
  if (model != "gpt2") {
    return absl::InvalidArgumentError(absl::StrCat(std::string(kModel), " is ", Quoted(model, 64),
                                                   ", expected \"gpt2\": byte-level BPE"));
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
    ASSIGN_OR_RETURN(vocabulary.types.emplace_back(), TypeOf(vocabulary.types.size(), type));
  }
  ASSIGN_OR_RETURN(const auto merges, metadata.GetStrings(kMerges));
  vocabulary.merges = Copies(merges);
  const std::pair<std::string_view, int32_t&> ids[] = {
      {"tokenizer.ggml.bos_token_id", vocabulary.bos},
      {"tokenizer.ggml.eos_token_id", vocabulary.eos},
      {"tokenizer.ggml.unknown_token_id", vocabulary.unk}};
  for (const auto& [key, id] : ids) {
    ASSIGN_OR_RETURN(id, IdOf(metadata, key, vocabulary.tokens.size()));
  }
  if (metadata.Has(kAddBegin)) {
    ASSIGN_OR_RETURN(vocabulary.add_bos, metadata.GetBool(kAddBegin));
  }
  return vocabulary;
}

}  // namespace recollect::model
