#include "model/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/status.h"
#include "model/sentencepiece_model.h"

namespace recollect::model {
namespace {

constexpr int64_t kMaxSegmentBytes = 256;
// U+2581. SentencePiece writes a space as this character, so the character itself must go through
// byte pieces.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
// Words repeat: looking one up costs a fraction of encoding it. Per call, so nothing is shared
// between threads.
constexpr size_t kCacheEntries = 1 << 16;

// Walks over the segments of valid UTF-8 text by the rule of docs/model-format.md.
class Segmenter {
 public:
  explicit Segmenter(std::string_view text) : text_(text) {}

  // The next segment whose end no later text can move; with `final`, the rest counts as one. Empty:
  // none left.
  std::string_view Next(bool final) {
    bool previous_space = true;
    bool previous_mark = false;
    size_t i = start_;
    while (i < text_.size()) {
      const uint8_t lead = static_cast<uint8_t>(text_[i]);
      const size_t width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      // A character that is still arriving decides nothing yet.
      if (i + width > text_.size()) break;
      const bool space = lead == ' ' || lead == '\t' || lead == '\n' || lead == '\r';
      const bool mark = width == 3 && text_.compare(i, 3, kSpaceMark) == 0;
      if (i > start_ && ((space && !previous_space) || mark || previous_mark ||
                         i + width - start_ > static_cast<size_t>(kMaxSegmentBytes))) {
        return Take(i);
      }
      previous_space = space;
      previous_mark = mark;
      i += width;
    }
    return final ? Take(i) : std::string_view();
  }

  size_t consumed() const { return start_; }

 private:
  std::string_view Take(size_t end) {
    const std::string_view segment = text_.substr(start_, end - start_);
    start_ = end;
    return segment;
  }

  std::string_view text_;
  size_t start_ = 0;
};

}  // namespace

struct Tokenizer::State {
  SentencePieceModel pieces;
  std::vector<std::string> bytes;  // by id
  std::vector<int> mark_ids;       // the byte pieces of kSpaceMark

  std::string EncodeSegment(std::string_view segment, std::vector<int>& ids) const {
    if (segment != kSpaceMark) return pieces.Encode(segment, ids);
    ids.insert(ids.end(), mark_ids.begin(), mark_ids.end());
    return "";
  }
};

Tokenizer::Tokenizer() : state_(std::make_unique<State>()) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  State& state = *tokenizer->state_;
  if (const std::string error = state.pieces.Load(path); !error.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (state.pieces.ByteId(static_cast<uint8_t>(byte)) < 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no piece for byte ", byte,
                                                     ", expected a model with byte fallback"));
    }
  }
  for (const char c : kSpaceMark) {
    state.mark_ids.push_back(state.pieces.ByteId(static_cast<uint8_t>(c)));
  }
  for (int id = 0; id < state.pieces.Size(); ++id) state.bytes.push_back(state.pieces.Bytes(id));
  // The file's normalisation rules are part of the file; only a model that changes nothing can be
  // used.
  const std::string probe = "  A\u00a0 \ufb01 b\t\n\n c  ";
  const absl::StatusOr<std::vector<int32_t>> ids = tokenizer->Encode(probe);
  if (!ids.ok() || tokenizer->Decode(*ids) != probe) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": the model changes text; expected identity normalisation, no dummy "
                     "prefix, no whitespace removal"));
  }
  return tokenizer;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text) const {
  ASSIGN_OR_RETURN(Encoded encoded, EncodePrefix(text, /*final=*/true, /*base_offset=*/0));
  return std::move(encoded.ids);
}

absl::StatusOr<Tokenizer::Encoded> Tokenizer::EncodePrefix(std::string_view text, bool final,
                                                           int64_t base_offset) const {
  const int64_t invalid = FindInvalidUtf8(text, /*allow_partial_end=*/!final);
  if (invalid >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not valid UTF-8 at byte ", base_offset + invalid));
  }
  Encoded result;
  Segmenter segmenter(text);
  struct Span {
    size_t begin, end;
  };
  std::vector<int> ids;  // of all segments seen first, spans point into it
  std::unordered_map<std::string_view, Span> cache;
  while (true) {
    const std::string_view segment = segmenter.Next(final);
    if (segment.empty()) break;
    Span span{ids.size(), ids.size()};
    const auto known = cache.find(segment);
    if (known != cache.end()) {
      span = known->second;
    } else {
      const std::string error = state_->EncodeSegment(segment, ids);
      span.end = ids.size();
      size_t covered = 0;
      for (size_t i = span.begin; i < span.end; ++i) covered += TokenBytes(ids[i]).size();
      if (!error.empty() || covered != segment.size()) {
        return absl::InternalError(
            absl::StrCat("the tokenizer covers ", covered, " of ", segment.size(),
                         " bytes of a segment; its model must not normalise ", error));
      }
      if (cache.size() < kCacheEntries) cache.emplace(segment, span);
    }
    for (size_t i = span.begin; i < span.end; ++i) {
      result.ids.push_back(ids[i]);
      result.token_bytes.push_back(static_cast<int32_t>(TokenBytes(ids[i]).size()));
    }
  }
  result.consumed = static_cast<int64_t>(segmenter.consumed());
  return result;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && static_cast<size_t>(id) < state_->bytes.size());
  return state_->bytes[static_cast<size_t>(id)];
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += TokenBytes(id);
  return text;
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(state_->bytes.size()); }

}  // namespace recollect::model
