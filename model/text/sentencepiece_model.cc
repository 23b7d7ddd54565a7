// Reads SentencePiece's model files and encodes by its BPE rules. Not by its library: Debian's
// exports a protobuf 3.14 of its own, and a program that also links gRPC's protobuf does not start
// (docs/tokenizers.md).
#include "model/text/sentencepiece_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "model/text/protobuf_reader.h"

namespace recollect::model {
namespace {

// Field numbers and values of sentencepiece_model.proto.
enum class PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};
constexpr uint64_t kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3;
constexpr uint64_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr uint64_t kTrainerModelType = 3, kTrainerSpaceAsSuffix = 24;
constexpr uint64_t kNormalizerRules = 2, kNormalizerDummyPrefix = 3, kNormalizerRemoveSpaces = 4,
                   kNormalizerEscapeSpaces = 5;
constexpr uint64_t kBpe = 2;

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  while (true) {
    const size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

bool ParsePiece(std::string_view message, Piece* piece) {
  FieldReader fields(message);
  while (fields.Next()) {
    if (fields.number == kPieceText) piece->text = std::string(fields.bytes);
    if (fields.number == kPieceScore && fields.bytes.size() == sizeof(float)) {
      std::memcpy(&piece->score, fields.bytes.data(), sizeof(float));
    }
    if (fields.number == kPieceType) piece->type = static_cast<PieceType>(fields.value);
  }
  return fields.ok();
}

// The byte that a byte piece's text names, as "<0x41>", or -1.
int NamedByte(std::string_view text) {
  constexpr std::string_view kBefore = "<0x", kAfter = ">";
  if (text.size() != 6 || text.substr(0, 3) != kBefore || text.substr(5) != kAfter) return -1;
  uint8_t byte = 0;
  const char* const end = text.data() + 5;
  return std::from_chars(text.data() + 3, end, byte, 16).ptr == end ? byte : -1;
}

std::string PieceProblem(size_t id, const Piece& piece, const char* what, const char* expected) {
  constexpr size_t kMaxShown = 32;  // bytes
  return absl::StrCat("piece ", id, " is ", what, " \"",
                      absl::CHexEscape(piece.text.substr(0, kMaxShown)), "\", expected ", expected);
}

// A run of characters that may become a piece; a linked list by index.
struct Symbol {
  std::string_view text;  // empty: merged into the one before
  int previous = -1, next = -1;
  bool fixed = false;  // a user-defined symbol: never merged
};

struct Merge {
  float score = 0;
  int left = 0, right = 0;
  size_t size = 0;  // of both; the merge is void when either has changed since

  // Highest score first, then the leftmost.
  bool operator<(const Merge& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

// What the file's normaliser would do; the format's defaults.
struct Normalizer {
  bool rules = false;
  bool dummy_prefix = true;
  bool remove_spaces = true;
  bool escape_spaces = true;
};

bool ParseNormalizer(std::string_view message, Normalizer* normalizer) {
  FieldReader fields(message);
  while (fields.Next()) {
    if (fields.number == kNormalizerRules) normalizer->rules = !fields.bytes.empty();
    if (fields.number == kNormalizerDummyPrefix) normalizer->dummy_prefix = fields.value != 0;
    if (fields.number == kNormalizerRemoveSpaces) normalizer->remove_spaces = fields.value != 0;
    if (fields.number == kNormalizerEscapeSpaces) normalizer->escape_spaces = fields.value != 0;
  }
  return fields.ok();
}

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

struct SentencePieceModel::State {
  std::vector<Piece> pieces;
  std::unordered_map<std::string_view, int>
      ids;                                // normal and user-defined pieces; views into `pieces`
  std::vector<std::string> user_defined;  // longest first
  std::array<int, 256> byte_ids;
  bool dummy_prefix = false;
  std::unordered_set<uint64_t> joins;  // pairs of code points, with dummy_prefix only

  void CollectJoins();
  std::string Parse(std::string_view file);
  std::vector<Symbol> Split(std::string_view text) const;
  void Merge(std::vector<Symbol>& symbols) const;
};

SentencePieceModel::SentencePieceModel() : state_(std::make_unique<State>()) {}
SentencePieceModel::~SentencePieceModel() = default;

std::string SentencePieceModel::State::Parse(std::string_view file) {
  byte_ids.fill(-1);
  uint64_t model_type = 0;
  bool space_as_suffix = false;
  Normalizer normalizer;
  FieldReader fields(file);
  while (fields.Next()) {
    if (fields.number == kModelPieces && !ParsePiece(fields.bytes, &pieces.emplace_back()))
      return "damaged piece";
    if (fields.number == kModelNormalizer && !ParseNormalizer(fields.bytes, &normalizer))
      return "damaged normaliser options";
    if (fields.number != kModelTrainer) continue;
    FieldReader trainer(fields.bytes);
    while (trainer.Next()) {
      if (trainer.number == kTrainerModelType) model_type = trainer.value;
      if (trainer.number == kTrainerSpaceAsSuffix) space_as_suffix = trainer.value != 0;
    }
    if (!trainer.ok()) return "damaged trainer options";
  }
  if (!fields.ok() || pieces.empty()) return "not a SentencePiece model";
  if (model_type != kBpe) return "model type " + std::to_string(model_type) + ", expected 2 (BPE)";
  if (normalizer.rules || normalizer.remove_spaces || !normalizer.escape_spaces ||
      space_as_suffix) {
    return "the model changes text; expected identity normalisation, no removal of whitespace, and "
           "spaces written as U+2581 before a word";
  }
  dummy_prefix = normalizer.dummy_prefix;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.type == PieceType::kUnused) return "unused pieces are not supported";
    if (piece.type == PieceType::kUserDefined) {
      // Of one without text any text holds any number.
      if (piece.text.empty()) return PieceProblem(i, piece, "the user-defined symbol", "some text");
      user_defined.push_back(piece.text);
    }
    if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) {
      ids.emplace(piece.text, static_cast<int>(i));
    }
    if (piece.type == PieceType::kByte) {
      const int byte = NamedByte(piece.text);
      if (byte < 0) return PieceProblem(i, piece, "the byte", "two hex digits as in \"<0x41>\"");
      byte_ids[static_cast<size_t>(byte)] = static_cast<int>(i);
    }
  }
  std::sort(user_defined.begin(), user_defined.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  if (dummy_prefix) CollectJoins();
  return "";
}

void SentencePieceModel::State::CollectJoins() {
  for (const auto& [text, id] : ids) {
    uint32_t previous = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t size = CharacterSize(text.substr(at));
      const uint32_t character = CodePoint(text.substr(at, size));
      if (at > 0) joins.insert(uint64_t{previous} << 32 | character);
      previous = character;
      at += size;
    }
  }
}

std::string SentencePieceModel::Parse(const std::string& file) { return state_->Parse(file); }

int SentencePieceModel::Size() const { return static_cast<int>(state_->pieces.size()); }

std::string SentencePieceModel::Bytes(int id) const {
  const Piece& piece = state_->pieces.at(static_cast<size_t>(id));
  switch (piece.type) {
    case PieceType::kNormal:
    case PieceType::kUserDefined:
      return Replaced(piece.text, kSpaceMark, " ");
    case PieceType::kByte:
      return std::string(1, static_cast<char>(NamedByte(piece.text)));
    case PieceType::kUnknown:
    case PieceType::kControl:
    case PieceType::kUnused:
      break;
  }
  return "";
}

std::string_view SentencePieceModel::ControlName(int id) const {
  const Piece& piece = state_->pieces.at(static_cast<size_t>(id));
  const bool control = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
  return control ? std::string_view(piece.text) : std::string_view();
}

int SentencePieceModel::ByteId(uint8_t byte) const { return state_->byte_ids[byte]; }

std::vector<Symbol> SentencePieceModel::State::Split(std::string_view text) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const auto fixed =
        std::find_if(user_defined.begin(), user_defined.end(),
                     [&](const std::string& s) { return text.substr(0, s.size()) == s; });
    Symbol symbol;
    symbol.fixed = fixed != user_defined.end();
    symbol.text = text.substr(0, symbol.fixed ? fixed->size() : CharacterSize(text));
    symbol.previous = static_cast<int>(symbols.size()) - 1;
    symbol.next = static_cast<int>(symbols.size()) + 1;
    text.remove_prefix(symbol.text.size());
    symbols.push_back(symbol);
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void SentencePieceModel::State::Merge(std::vector<Symbol>& symbols) const {
  std::priority_queue<struct Merge> agenda;
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0 || symbols[left].fixed || symbols[right].fixed) return;
    // Neighbours lie beside each other in the text.
    const std::string_view both(symbols[left].text.data(),
                                symbols[left].text.size() + symbols[right].text.size());
    if (const auto found = ids.find(both); found != ids.end()) {
      agenda.push({pieces[static_cast<size_t>(found->second)].score, left, right, both.size()});
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

bool SentencePieceModel::dummy_prefix() const { return state_->dummy_prefix; }

bool SentencePieceModel::Joins(std::string_view a, std::string_view b) const {
  const uint32_t left = CodePoint(a == " " ? kSpaceMark : a);
  const uint32_t right = CodePoint(b == " " ? kSpaceMark : b);
  return state_->joins.contains(uint64_t{left} << 32 | right);
}

std::string SentencePieceModel::Encode(std::string_view text, std::vector<int>& ids) const {
  const std::string escaped = Replaced(text, " ", kSpaceMark);
  std::vector<Symbol> symbols = state_->Split(escaped);
  state_->Merge(symbols);
  for (int i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next) {
    const auto found = state_->ids.find(symbols[i].text);
    if (found != state_->ids.end()) {
      ids.push_back(found->second);
      continue;
    }
    for (const char c : Replaced(symbols[i].text, kSpaceMark, " ")) {
      const int id = state_->byte_ids[static_cast<uint8_t>(c)];
      if (id < 0) return "no piece for a byte";
      ids.push_back(id);
    }
  }
  return "";
}

}  // namespace recollect::model
