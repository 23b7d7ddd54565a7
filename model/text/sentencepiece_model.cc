#include "model/text/sentencepiece_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <queue>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace recollect::model {
namespace {

std::string Replaced(std::string_view text, absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{from, to}});
}

// The byte that a byte piece's text names, as "<0x41>", or -1.
int NamedByte(std::string_view text) {
  constexpr std::string_view kBefore = "<0x", kAfter = ">";
  if (text.size() != 6 || text.substr(0, 3) != kBefore || text.substr(5) != kAfter) return -1;
  uint8_t byte = 0;
  const char* const end = text.data() + 5;
  return std::from_chars(text.data() + 3, end, byte, 16).ptr == end ? byte : -1;
}

absl::Status PieceProblem(size_t id, const SentencePiece& piece, const char* what,
                          const char* expected) {
  constexpr size_t kMaxShown = 32;  // bytes
  return absl::InvalidArgumentError(absl::StrCat("piece ", id, " is ", what, " \"",
                                                 absl::CHexEscape(piece.text.substr(0, kMaxShown)),
                                                 "\", expected ", expected));
}

struct Merge {
  float score = 0;
  int left = 0, right = 0;
  size_t size = 0;  // of both; the merge is void when either has changed since

  // Highest score first, then the leftmost.
  bool operator<(const Merge& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

size_t CharacterSize(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text.front());
  const size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(size, text.size());
}

// Of one character of valid UTF-8. Malformed pieces give some number: they match no text anyway.
uint32_t CodePoint(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xffu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

}  // namespace

// A run of characters that may become a piece; a linked list by index.
struct SentencePieceModel::Symbol {
  std::string_view text;  // empty: merged into the one before
  int previous = -1, next = -1;
  bool fixed = false;  // a user-defined symbol: never merged
};

SentencePieceModel::SentencePieceModel(SentencePieceVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

absl::Status SentencePieceModel::AddPiece(size_t id) {
  const SentencePiece& piece = vocabulary_.pieces[id];
  const bool user = piece.type == TokenType::kUserDefined;
  if (piece.type == TokenType::kByte) {
    const int byte = NamedByte(piece.text);
    if (byte < 0) return PieceProblem(id, piece, "the byte", "two hex digits as in \"<0x41>\"");
    byte_ids_[static_cast<size_t>(byte)] = static_cast<int>(id);
  }
  if (!user && piece.type != TokenType::kNormal) return absl::OkStatus();
  // Numbers that cannot be ordered would make the order of merges depend on chance.
  if (std::isnan(piece.score)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the score of piece ", id, " is nan, expected a number"));
  }
  ids_.emplace(piece.text, static_cast<int>(id));
  if (!user) return absl::OkStatus();
  // Of one without text any text holds any number.
  if (piece.text.empty()) return PieceProblem(id, piece, "the user-defined symbol", "some text");
  user_defined_[static_cast<uint8_t>(piece.text.front())].push_back(piece.text);
  return absl::OkStatus();
}

absl::Status SentencePieceModel::Build() {
  byte_ids_.fill(-1);
  for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) RETURN_IF_ERROR(AddPiece(id));
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (byte_ids_[byte] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("no piece for byte ", byte, ", expected a model with byte fallback"));
  }
  for (auto& texts : user_defined_) {
    std::stable_sort(texts.begin(), texts.end(),
                     [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
  }
  if (vocabulary_.whole_text) CollectJoins();
  return absl::OkStatus();
}

absl::StatusOr<SentencePieceModel> SentencePieceModel::Create(SentencePieceVocabulary vocabulary) {
  SentencePieceModel model(std::move(vocabulary));
  RETURN_IF_ERROR(model.Build());
  return model;
}

void SentencePieceModel::CollectJoins() {
  for (const auto& [text, id] : ids_) {
    uint32_t previous = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t size = CharacterSize(text.substr(at));
      const uint32_t character = CodePoint(text.substr(at, size));
      if (at > 0) joins_.insert(uint64_t{previous} << 32 | character);
      previous = character;
      at += size;
    }
  }
}

std::string SentencePieceModel::Bytes(int id) const {
  const SentencePiece& piece = vocabulary_.pieces.at(static_cast<size_t>(id));
  switch (piece.type) {
    case TokenType::kNormal:
    case TokenType::kUserDefined:
      return Replaced(piece.text, kSpaceMarkBytes, " ");
    case TokenType::kByte:
      return std::string(1, static_cast<char>(NamedByte(piece.text)));
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUnused:
      break;
  }
  return "";
}

std::vector<SentencePieceModel::Symbol> SentencePieceModel::Split(std::string_view text) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const auto& fixed_texts = user_defined_[static_cast<uint8_t>(text.front())];
    const auto fixed = std::find_if(fixed_texts.begin(), fixed_texts.end(),
                                    [&](std::string_view s) { return text.starts_with(s); });
    Symbol symbol;
    symbol.fixed = fixed != fixed_texts.end();
    symbol.text = text.substr(0, symbol.fixed ? fixed->size() : CharacterSize(text));
    symbol.previous = static_cast<int>(symbols.size()) - 1;
    symbol.next = static_cast<int>(symbols.size()) + 1;
    text.remove_prefix(symbol.text.size());
    symbols.push_back(symbol);
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void SentencePieceModel::Merge(std::vector<Symbol>& symbols) const {
  std::priority_queue<struct Merge> agenda;
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0 || symbols[left].fixed || symbols[right].fixed) return;
    // Neighbours lie beside each other in the text.
    const std::string_view both(symbols[left].text.data(),
                                symbols[left].text.size() + symbols[right].text.size());
    if (const auto found = ids_.find(both); found != ids_.end()) {
      const float score = vocabulary_.pieces[static_cast<size_t>(found->second)].score;
      agenda.push({score, left, right, both.size()});
    }
  };
  for (size_t i = 1; i < symbols.size(); ++i)
    consider(static_cast<int>(i) - 1, static_cast<int>(i));
  while (!agenda.empty()) {
    const struct Merge top = agenda.top();
    agenda.pop();
    Symbol& left = symbols[top.left];
    Symbol& right = symbols[top.right];
    if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != top.size)
      continue;
    left.text = std::string_view(left.text.data(), top.size);
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = top.left;
    right.text = {};
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }
}

bool SentencePieceModel::Joins(std::string_view a, std::string_view b) const {
  const uint32_t left = CodePoint(a == " " ? kSpaceMark : a);
  const uint32_t right = CodePoint(b == " " ? kSpaceMark : b);
  return joins_.contains(uint64_t{left} << 32 | right);
}

void SentencePieceModel::Encode(std::string_view text, std::vector<int>& ids) const {
  const std::string escaped = Replaced(text, " ", kSpaceMarkBytes);
  std::vector<Symbol> symbols = Split(escaped);
  Merge(symbols);
  for (int i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next) {
    const auto found = ids_.find(symbols[i].text);
    if (found != ids_.end()) {
      ids.push_back(found->second);
      continue;
    }
    for (const char c : Replaced(symbols[i].text, kSpaceMarkBytes, " ")) {
      ids.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    }
  }
}

}  // namespace recollect::model
