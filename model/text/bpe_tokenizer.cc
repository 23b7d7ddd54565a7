#include "model/text/bpe_tokenizer.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "model/text/bpe_merges.h"
#include "model/text/byte_alphabet.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

using TokenIds = absl::flat_hash_map<std::string_view, int32_t>;

// A short word in place, so that finding it touches no other memory.
constexpr size_t kShortWord = 15;  // bytes
using ShortWord = std::array<uint64_t, 2>;

ShortWord PackedWord(std::string_view word) {
  std::array<char, kShortWord + 1> bytes{};
  std::memcpy(bytes.data(), word.data(), word.size());
  bytes.back() = static_cast<char>(word.size());
  return std::bit_cast<ShortWord>(bytes);
}

bool HasName(TokenType type) { return type == TokenType::kControl || type == TokenType::kUnknown; }

// Of a file, as a message may show it.
std::string Shown(std::string_view text) {
  constexpr size_t kMaxShown = 64;  // bytes
  return Quoted(text, kMaxShown);
}

}  // namespace

struct BpeTokenizer::State {
  explicit State(PreTokenSplitter rule) : splitter(std::move(rule)) {}

  PreTokenSplitter splitter;
  std::vector<std::string> bytes;  // by id; empty for what has no text
  std::vector<std::string> names;  // by id; of control tokens
  TokenIds controls;               // by name
  std::array<int32_t, 256> byte_ids;
  BpeMerges merges;
  // What is one token as a whole pre-token: most of any text, found without merging.
  absl::flat_hash_map<ShortWord, int32_t> short_words;
  TokenIds long_words;
  std::optional<int32_t> begin;

  absl::Status AddTokens(BpeVocabulary& vocabulary, TokenIds& texts);
  absl::Status AddMerges(const std::vector<std::string>& pairs, const TokenIds& texts);
  void AddWords(const TokenIds& texts, bool ignore_merges);

  // The token that a whole pre-token is, or -1.
  int32_t Word(std::string_view pre_token) const;
  // Appends the tokens of one pre-token. A byte without one counts to the next token of the
  // pre-token, or else to the last one.
  void Encode(std::string_view pre_token, std::vector<BpeSymbol>& word) const;
  void Merge(std::string_view pre_token, std::vector<BpeSymbol>& word) const;
};

// `texts` gets the normal tokens by their bytes, as views into `bytes`.
absl::Status BpeTokenizer::State::AddTokens(BpeVocabulary& vocabulary, TokenIds& texts) {
  if (vocabulary.types.size() != vocabulary.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat(vocabulary.tokens.size(), " tokens, ",
                                                   vocabulary.types.size(),
                                                   " token types, expected as many"));
  }
  bytes.resize(vocabulary.tokens.size());
  names.resize(vocabulary.tokens.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string& token = vocabulary.tokens[i];
    const int32_t id = static_cast<int32_t>(i);
    if (HasName(vocabulary.types[i])) {
      names[i] = std::move(token);
      controls.emplace(names[i], id);
    } else if (vocabulary.types[i] == TokenType::kUserDefined) {
      bytes[i] = std::move(token);
    } else if (vocabulary.types[i] == TokenType::kNormal) {
      std::optional<std::string> text = FromByteAlphabet(token);
      if (!text.has_value() || text->empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "token ", i, " is ", Shown(token), ", expected characters of the alphabet of bytes"));
      }
      bytes[i] = *std::move(text);
      if (const auto [same, added] = texts.emplace(bytes[i], id); !added) {
        return absl::InvalidArgumentError(
            absl::StrCat("tokens ", same->second, " and ", i, " are both ", Shown(token)));
      }
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = texts.find(std::string_view(&text, 1));
    byte_ids[static_cast<size_t>(byte)] = found == texts.end() ? -1 : found->second;
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::State::AddMerges(const std::vector<std::string>& pairs,
                                            const TokenIds& texts) {
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
    merges.Add(ids[0], ids[1], ids[2]);
  }
  return absl::OkStatus();
}

void BpeTokenizer::State::AddWords(const TokenIds& texts, bool ignore_merges) {
  std::vector<BpeSymbol> word;
  for (const auto& [text, id] : texts) {
    word.clear();
    if (!ignore_merges) Merge(text, word);
    if (!ignore_merges && (word.size() != 1 || word[0].id != id)) continue;
    if (text.size() <= kShortWord) {
      short_words.emplace(PackedWord(text), id);
    } else {
      long_words.emplace(text, id);
    }
  }
}

int32_t BpeTokenizer::State::Word(std::string_view pre_token) const {
  if (pre_token.size() <= kShortWord) {
    const auto found = short_words.find(PackedWord(pre_token));
    return found == short_words.end() ? -1 : found->second;
  }
  const auto found = long_words.find(pre_token);
  return found == long_words.end() ? -1 : found->second;
}

void BpeTokenizer::State::Encode(std::string_view pre_token, std::vector<BpeSymbol>& word) const {
  if (const int32_t id = Word(pre_token); id >= 0) {
    word.push_back({id, static_cast<int32_t>(pre_token.size())});
  } else {
    Merge(pre_token, word);
  }
}

void BpeTokenizer::State::Merge(std::string_view pre_token, std::vector<BpeSymbol>& word) const {
  int32_t skipped = 0;
  for (const char c : pre_token) {
    const int32_t id = byte_ids[static_cast<uint8_t>(c)];
    if (id < 0) {
      ++skipped;
    } else {
      word.push_back({id, 1 + std::exchange(skipped, 0)});
    }
  }
  if (word.empty()) return;
  word.back().bytes += skipped;
  merges.Apply(word);
}

BpeTokenizer::BpeTokenizer() = default;
BpeTokenizer::~BpeTokenizer() = default;

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(BpeVocabulary vocabulary) {
  ASSIGN_OR_RETURN(PreTokenSplitter splitter, PreTokenSplitter::Create(vocabulary.pre));
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer);
  tokenizer->state_ = std::make_unique<State>(std::move(splitter));
  State& state = *tokenizer->state_;
  TokenIds texts;
  RETURN_IF_ERROR(state.AddTokens(vocabulary, texts));
  if (texts.empty()) return absl::InvalidArgumentError("the vocabulary has no tokens for text");
  RETURN_IF_ERROR(state.AddMerges(vocabulary.merges, texts));
  state.AddWords(texts, vocabulary.ignore_merges);
  if (vocabulary.bos >= 0) {
    if (vocabulary.bos >= tokenizer->vocab_size()) {
      return absl::InvalidArgumentError(absl::StrCat("the begin token is ", vocabulary.bos, " of ",
                                                     tokenizer->vocab_size(), " tokens"));
    }
    state.begin = vocabulary.bos;
  }
  return tokenizer;
}

absl::StatusOr<Tokenizer::Encoded> BpeTokenizer::EncodePrefix(std::string_view text, bool final,
                                                              int64_t base_offset) const {
  const int64_t invalid = FindInvalidUtf8(text, /*allow_partial_end=*/!final);
  if (invalid >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not valid UTF-8 at byte ", base_offset + invalid));
  }
  Encoded result;
  PreTokenSplitter::Walk walk(state_->splitter, text, final);
  std::vector<BpeSymbol> word;
  int64_t waiting = 0;  // bytes of pre-tokens without a token
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view pre_token, walk.Next());
    if (pre_token.empty()) break;
    const int64_t size = std::ssize(pre_token);
    word.clear();
    state_->Encode(pre_token, word);
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

std::string_view BpeTokenizer::TokenBytes(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && id < vocab_size());
  return state_->bytes[static_cast<size_t>(id)];
}

int64_t BpeTokenizer::vocab_size() const { return std::ssize(state_->bytes); }

std::optional<int32_t> BpeTokenizer::ControlToken(std::string_view name) const {
  const auto found = state_->controls.find(name);
  if (found == state_->controls.end()) return std::nullopt;
  return found->second;
}

std::string_view BpeTokenizer::ControlName(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && id < vocab_size());
  return state_->names[static_cast<size_t>(id)];
}

std::optional<int32_t> BpeTokenizer::BeginToken() const { return state_->begin; }

}  // namespace recollect::model
