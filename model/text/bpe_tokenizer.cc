#include "model/text/bpe_tokenizer.h"

#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/text/byte_alphabet.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

constexpr size_t kShortWord = 15;  // bytes

bool HasName(TokenType type) { return type == TokenType::kControl || type == TokenType::kUnknown; }

// Of a file, as a message may show it.
std::string Shown(std::string_view text) {
  constexpr size_t kMaxShown = 64;  // bytes
  return Quoted(text, kMaxShown);
}

}  // namespace

BpeTokenizer::ShortWord BpeTokenizer::Packed(std::string_view word) {
  std::array<char, kShortWord + 1> bytes{};
  std::memcpy(bytes.data(), word.data(), word.size());
  bytes.back() = static_cast<char>(word.size());
  return std::bit_cast<ShortWord>(bytes);
}

absl::Status BpeTokenizer::AddTokens(BpeVocabulary& vocabulary, TokenIds& texts) {
  if (vocabulary.types.size() != vocabulary.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat(vocabulary.tokens.size(), " tokens, ",
                                                   vocabulary.types.size(),
                                                   " token types, expected as many"));
  }
  ReserveTokens(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    std::string& token = vocabulary.tokens[i];
    const TokenType type = vocabulary.types[i];
    if (type != TokenType::kNormal) {
      const bool text = type == TokenType::kUserDefined;
      AddToken(text ? std::move(token) : "", HasName(type) ? std::move(token) : "");
      continue;
    }
    std::optional<std::string> text = FromByteAlphabet(token);
    if (!text.has_value() || text->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", i, " is ", Shown(token), ", expected characters of the alphabet of bytes"));
    }
    const int32_t id = static_cast<int32_t>(i);
    AddToken(*std::move(text), "");
    if (const auto [same, added] = texts.emplace(TokenBytes(id), id); !added) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", same->second, " and ", i, " are both ", Shown(token)));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = texts.find(std::string_view(&text, 1));
    byte_ids_[static_cast<size_t>(byte)] = found == texts.end() ? -1 : found->second;
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::AddMerges(const std::vector<std::string>& pairs, const TokenIds& texts) {
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string_view pair = pairs[i];
    const size_t space = pair.find(' ');
    const auto problem = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", i, " is ", Shown(pair), ", ", what));
    };
    if (space == pair.npos) return problem("expected two tokens with a space between them");
    std::optional<std::string> left = FromByteAlphabet(pair.substr(0, space));
    std::optional<std::string> right = FromByteAlphabet(pair.substr(space + 1));
    if (!left.has_value() || !right.has_value()) {
      return problem("expected characters of the alphabet of bytes");
    }
    std::array<int32_t, 3> ids{};
    const std::string texts_of[] = {*left, *right, *left + *right};
    for (size_t k = 0; k < ids.size(); ++k) {
      const auto found = texts.find(texts_of[k]);
      if (found == texts.end()) {
        return problem(absl::StrCat("but no token for text is ", Shown(texts_of[k])));
      }
      ids[k] = found->second;
    }
    merges_.Add(ids[0], ids[1], ids[2]);
  }
  return absl::OkStatus();
}

void BpeTokenizer::AddWords(const TokenIds& texts, bool ignore_merges) {
  std::vector<BpeSymbol> word;
  for (const auto& [text, id] : texts) {
    word.clear();
    if (!ignore_merges) Merge(text, word);
    if (!ignore_merges && (word.size() != 1 || word[0].id != id)) continue;
    if (text.size() <= kShortWord) {
      short_words_.emplace(Packed(text), id);
    } else {
      long_words_.emplace(text, id);
    }
  }
}

int32_t BpeTokenizer::Word(std::string_view pre_token) const {
  if (pre_token.size() <= kShortWord) {
    const auto found = short_words_.find(Packed(pre_token));
    return found == short_words_.end() ? -1 : found->second;
  }
  const auto found = long_words_.find(pre_token);
  return found == long_words_.end() ? -1 : found->second;
}

void BpeTokenizer::EncodeWord(std::string_view pre_token, std::vector<BpeSymbol>& word) const {
  if (const int32_t id = Word(pre_token); id >= 0) {
    word.push_back({id, static_cast<int32_t>(pre_token.size())});
  } else {
    Merge(pre_token, word);
  }
}

void BpeTokenizer::Merge(std::string_view pre_token, std::vector<BpeSymbol>& word) const {
  int32_t skipped = 0;
  for (const char c : pre_token) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id < 0) {
      ++skipped;
    } else {
      word.push_back({id, 1 + std::exchange(skipped, 0)});
    }
  }
  if (word.empty()) return;
  word.back().bytes += skipped;
  merges_.Apply(word);
}

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(BpeVocabulary vocabulary) {
  ASSIGN_OR_RETURN(PreTokenSplitter splitter, PreTokenSplitter::Create(vocabulary.pre));
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(splitter)));
  TokenIds texts;
  RETURN_IF_ERROR(tokenizer->AddTokens(vocabulary, texts));
  if (texts.empty()) return absl::InvalidArgumentError("the vocabulary has no tokens for text");
  RETURN_IF_ERROR(tokenizer->AddMerges(vocabulary.merges, texts));
  tokenizer->AddWords(texts, vocabulary.ignore_merges);
  if (vocabulary.bos >= 0) {
    if (vocabulary.bos >= tokenizer->vocab_size()) {
      return absl::InvalidArgumentError(absl::StrCat("the begin token is ", vocabulary.bos, " of ",
                                                     tokenizer->vocab_size(), " tokens"));
    }
    tokenizer->begin_ = vocabulary.bos;
  }
  return tokenizer;
}

absl::StatusOr<Tokenizer::Encoded> BpeTokenizer::EncodeValid(std::string_view text, bool final,
                                                             int64_t /*base_offset*/) const {
  Encoded result;
  PreTokenSplitter::Walk walk(splitter_, text, final);
  std::vector<BpeSymbol> word;
  int64_t waiting = 0;  // bytes of pre-tokens without a token
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view pre_token, walk.Next());
    if (pre_token.empty()) break;
    const int64_t size = std::ssize(pre_token);
    word.clear();
    EncodeWord(pre_token, word);
    // They count to the token after them, as long as a stream can keep them.
    if (word.empty() && waiting + size < kMaxPreTokenBytes) {
      waiting += size;
      continue;
    }
    for (const BpeSymbol& symbol : word) {
      result.ids.push_back(symbol.id);
      result.token_bytes.push_back(symbol.bytes + static_cast<int32_t>(std::exchange(waiting, 0)));
    }
    result.consumed = pre_token.data() + size - text.data();
    waiting = 0;
  }
  if (final) result.consumed = std::ssize(text);
  return result;
}

}  // namespace recollect::model
