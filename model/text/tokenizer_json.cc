// Reads the Hugging Face layout's tokenizer.json.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status.h"
#include "model/text/bpe_vocabulary.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

using nlohmann::json;

// The published expressions of the rules, as such files hold them.
constexpr struct {
  PreTokenizer rule;
  std::string_view expression;
} kExpressions[] = {
    {PreTokenizer::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kLlamaBpe,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

// What a message shows of a value, at a length that can be read.
std::string Shown(const json& value) {
  constexpr size_t kMaxShown = 100;  // bytes
  return Shortened(value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace),
                   kMaxShown);
}

absl::Status Unexpected(absl::string_view part, const json& value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(part, " is ", Shown(value), ", expected ", expected));
}

// A member, or null: also of what is no object.
const json& At(const json& object, const char* key) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::string_view Text(const json& value) {
  return value.is_string() ? std::string_view(value.get_ref<const std::string&>())
                           : std::string_view();
}

bool Flag(const json& value, bool otherwise) {
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

bool IsByteLevel(const json& part, bool with_expression) {
  return Text(At(part, "type")) == "ByteLevel" && !Flag(At(part, "add_prefix_space"), true) &&
         Flag(At(part, "use_regex"), true) == with_expression;
}

absl::StatusOr<PreTokenizer> RuleOf(const json& part) {
  if (IsByteLevel(part, /*with_expression=*/true)) return PreTokenizer::kGpt2;
  const json& parts = At(part, "pretokenizers");
  if (Text(At(part, "type")) == "Sequence" && parts.is_array() && parts.size() == 2) {
    const json &first = parts[0], &second = parts[1];
    if (Text(At(first, "type")) == "Digits" && Flag(At(first, "individual_digits"), false) &&
        IsByteLevel(second, /*with_expression=*/true)) {
      return PreTokenizer::kSmollm;
    }
    const bool split = Text(At(first, "type")) == "Split" &&
                       Text(At(first, "behavior")) == "Isolated" &&
                       !Flag(At(first, "invert"), false);
    if (split && IsByteLevel(second, /*with_expression=*/false)) {
      for (const auto& known : kExpressions) {
        if (Text(At(At(first, "pattern"), "Regex")) == known.expression) return known.rule;
      }
    }
  }
  return Unexpected("pre_tokenizer", part, "the rule gpt-2, smollm, llama-bpe or qwen2");
}

// Puts a token at its id. Ids may come in any order; those below `limit` become places.
absl::Status Place(const std::string& token, const json& id, TokenType type, size_t limit,
                   BpeVocabulary& vocabulary) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit) {
    return Unexpected(absl::StrCat("the id of token ", Shown(json(token))), id,
                      absl::StrCat("less than the ", limit, " tokens"));
  }
  const size_t at = id.get<size_t>();
  if (vocabulary.types[at] != TokenType::kUnused && vocabulary.tokens[at] != token) {
    return absl::InvalidArgumentError(absl::StrCat("id ", at, " is of token ",
                                                   Shown(json(vocabulary.tokens[at])), " and of ",
                                                   Shown(json(token))));
  }
  vocabulary.tokens[at] = token;
  vocabulary.types[at] = type;
  return absl::OkStatus();
}

absl::Status ReadTokens(const json& words, const json& added, BpeVocabulary& vocabulary) {
  if (!words.is_object()) return Unexpected("model.vocab", words, "an object of tokens and ids");
  if (!added.is_array() && !added.is_null()) return Unexpected("added_tokens", added, "a list");
  // Added tokens may be among the words too: then the last places stay unused.
  const size_t limit = words.size() + added.size();
  vocabulary.tokens.resize(limit);
  vocabulary.types.resize(limit, TokenType::kUnused);
  for (const auto& [token, id] : words.items()) {
    RETURN_IF_ERROR(Place(token, id, TokenType::kNormal, limit, vocabulary));
  }
  for (const json& token : added) {
    const json& content = At(token, "content");
    if (!content.is_string()) return Unexpected("an entry of added_tokens", token, "its content");
    TokenType type = TokenType::kUserDefined;
    if (Flag(At(token, "special"), false)) {
      type = TokenType::kControl;
    } else if (words.contains(content.get_ref<const std::string&>())) {
      type = TokenType::kNormal;  // as its merges make it
    }
    RETURN_IF_ERROR(
        Place(content.get_ref<const std::string&>(), At(token, "id"), type, limit, vocabulary));
  }
  const auto last = std::find_if(vocabulary.types.rbegin(), vocabulary.types.rend(),
                                 [](TokenType type) { return type != TokenType::kUnused; });
  const auto size = static_cast<size_t>(vocabulary.types.rend() - last);
  vocabulary.tokens.resize(size);
  vocabulary.types.resize(size);
  return absl::OkStatus();
}

absl::Status ReadMerges(const json& merges, BpeVocabulary& vocabulary) {
  if (!merges.is_array()) return Unexpected("model.merges", merges, "a list");
  vocabulary.merges.reserve(merges.size());
  for (const json& merge : merges) {
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair && !merge.is_string()) {
      return Unexpected(absl::StrCat("merge ", vocabulary.merges.size()), merge, "two tokens");
    }
    vocabulary.merges.push_back(
        pair ? absl::StrCat(std::string(Text(merge[0])), " ", std::string(Text(merge[1])))
             : merge.get<std::string>());
  }
  return absl::OkStatus();
}

// What would make other tokens of the same text.
absl::Status CheckModel(const json& file, const json& model) {
  const json& type = At(model, "type");
  if (!type.is_null() && Text(type) != "BPE") return Unexpected("model.type", type, "\"BPE\"");
  if (!model.is_object()) return Unexpected("model", model, "a BPE");
  if (Flag(At(model, "byte_fallback"), false)) {
    return Unexpected("model.byte_fallback", At(model, "byte_fallback"),
                      "false: this is a vocabulary of SentencePiece, which is read from "
                      "tokenizer.model; get that file from where the model comes from and put it "
                      "beside tokenizer.json, or use a GGUF file of the model");
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = At(model, key);
    const bool nothing = value.is_null() || (value.is_string() && Text(value).empty()) ||
                         (value.is_number() && value.get<double>() == 0);
    if (!nothing) return Unexpected(absl::StrCat("model.", key), value, "null");
  }
  // Text is kept as it is, so that it comes back byte for byte: NFC, where the file asks for it, is
  // the caller's (docs/tokenizers.md).
  const json& normalizer = At(file, "normalizer");
  if (!normalizer.is_null() && Text(At(normalizer, "type")) != "NFC") {
    return Unexpected("normalizer", normalizer, "null or NFC");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeVocabulary> BpeVocabulary::FromTokenizerJson(std::string_view text) {
  ASSIGN_OR_RETURN(const json file, ParseJson({text.data(), text.size()}, EqualKeys::kRefused));
  const json& model = At(file, "model");
  RETURN_IF_ERROR(CheckModel(file, model));
  BpeVocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.pre, RuleOf(At(file, "pre_tokenizer")));
  vocabulary.ignore_merges = Flag(At(model, "ignore_merges"), false);
  RETURN_IF_ERROR(ReadTokens(At(model, "vocab"), At(file, "added_tokens"), vocabulary));
  RETURN_IF_ERROR(ReadMerges(At(model, "merges"), vocabulary));
  return vocabulary;
}

}  // namespace recollect::model
