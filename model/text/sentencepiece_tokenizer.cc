#include "model/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/io/file.h"
#include "base/status.h"
#include "model/text/sentencepiece_model.h"

namespace recollect::model {
namespace {

constexpr int64_t kMaxSegmentBytes = 256;
// Of text in which no two neighbours can be parted, such as one letter over and over. Far longer
// than any word; it bounds what a stream has to hold back.
constexpr int64_t kMaxRunBytes = 65536;
// Words repeat: looking one up costs a fraction of encoding it. Per call, so nothing is shared
// between threads.
constexpr size_t kCacheEntries = 1 << 16;

// Walks over the segments of valid UTF-8 text by one of the two rules of docs/tokenizers.md.
class Segmenter {
 public:
  Segmenter(std::string_view text, const SentencePieceModel& pieces)
      : text_(text), pieces_(pieces), whole_text_(pieces.whole_text()) {}

  // The next segment whose end no later text can move; with `final`, the rest counts as one. Empty:
  // none left.
  std::string_view Next(bool final) {
    std::string_view previous;
    size_t i = start_;
    while (i < text_.size()) {
      const uint8_t lead = static_cast<uint8_t>(text_[i]);
      const size_t width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      // A character that is still arriving decides nothing yet.
      if (i + width > text_.size()) break;
      const std::string_view character = text_.substr(i, width);
      if (i > start_ && CutBetween(previous, character, i + width - start_)) return Take(i);
      previous = character;
      i += width;
    }
    return final ? Take(i) : std::string_view();
  }

  size_t consumed() const { return start_; }

 private:
  static bool IsSpace(std::string_view c) {
    return c == " " || c == "\t" || c == "\n" || c == "\r";
  }

  // `size`: of the segment with `right` in it.
  bool CutBetween(std::string_view left, std::string_view right, size_t size) const {
    if (whole_text_) {
      return size > static_cast<size_t>(kMaxRunBytes) || !pieces_.Joins(left, right);
    }
    return (IsSpace(right) && !IsSpace(left)) || right == kSpaceMark || left == kSpaceMark ||
           size > static_cast<size_t>(kMaxSegmentBytes);
  }

  std::string_view Take(size_t end) {
    const std::string_view segment = text_.substr(start_, end - start_);
    start_ = end;
    return segment;
  }

  std::string_view text_;
  const SentencePieceModel& pieces_;
  const bool whole_text_;
  size_t start_ = 0;
};

// How much of `text` a piece's bytes stand for. In a whole text a space of a piece may be a space
// or a U+2581, or the one that was put before the text (`prefix`, which is then used up).
size_t CoveredBytes(std::string_view piece, std::string_view text, bool& prefix) {
  size_t covered = 0;
  for (const char c : piece) {
    if (c == ' ' && prefix) {
      prefix = false;
    } else {
      covered +=
          c == ' ' && text.substr(std::min(covered, text.size()), kSpaceMark.size()) == kSpaceMark
              ? kSpaceMark.size()
              : 1;
    }
  }
  return covered;
}

}  // namespace

struct SentencePieceTokenizer::State {
  SentencePieceModel pieces;
  std::vector<std::string> bytes;                     // by id
  std::unordered_map<std::string, int32_t> controls;  // by name
  std::vector<int> mark_ids;                          // the byte pieces of kSpaceMark
  std::optional<int32_t> begin;

  State(SentencePieceModel model, int32_t bos);
  void EncodeSegment(std::string_view segment, std::vector<int>& ids) const {
    if (segment != kSpaceMark || pieces.whole_text()) return pieces.Encode(segment, ids);
    ids.insert(ids.end(), mark_ids.begin(), mark_ids.end());
  }
};

SentencePieceTokenizer::State::State(SentencePieceModel model, int32_t bos)
    : pieces(std::move(model)) {
  for (const char c : kSpaceMark) mark_ids.push_back(pieces.ByteId(static_cast<uint8_t>(c)));
  for (int id = 0; id < pieces.Size(); ++id) {
    bytes.push_back(pieces.Bytes(id));
    const std::string_view name = pieces.ControlName(id);
    if (!name.empty()) controls.emplace(name, id);
  }
  if (bos >= 0) begin = bos;
}

SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> SentencePieceTokenizer::Create(
    SentencePieceVocabulary vocabulary) {
  const int32_t bos = vocabulary.bos;
  ASSIGN_OR_RETURN(SentencePieceModel model, SentencePieceModel::Create(std::move(vocabulary)));
  auto state = std::make_unique<State>(std::move(model), bos);
  return std::unique_ptr<SentencePieceTokenizer>(new SentencePieceTokenizer(std::move(state)));
}

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> SentencePieceTokenizer::Load(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  absl::StatusOr<SentencePieceVocabulary> vocabulary = SentencePieceVocabulary::FromModelFile(file);
  if (!vocabulary.ok()) return Annotate(vocabulary.status(), path);
  vocabulary->whole_text = vocabulary->dummy_prefix;
  auto tokenizer = Create(*std::move(vocabulary));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path);
  return tokenizer;
}

absl::StatusOr<Tokenizer::Encoded> SentencePieceTokenizer::EncodePrefix(std::string_view text,
                                                                        bool final,
                                                                        int64_t base_offset) const {
  const int64_t invalid = FindInvalidUtf8(text, /*allow_partial_end=*/!final);
  if (invalid >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not valid UTF-8 at byte ", base_offset + invalid));
  }
  Encoded result;
  Segmenter segmenter(text, state_->pieces);
  // The space before the text; it belongs to the first segment and covers nothing.
  bool prefix = state_->pieces.dummy_prefix() && base_offset == 0;
  struct Span {
    size_t begin, end;
  };
  std::vector<int> ids;  // of all segments seen first, spans point into it
  std::unordered_map<std::string_view, Span> cache;
  while (true) {
    const std::string_view segment = segmenter.Next(final);
    if (segment.empty()) break;
    Span span{ids.size(), ids.size()};
    if (prefix) {
      state_->EncodeSegment(std::string(1, ' ').append(segment), ids);
      span.end = ids.size();
    } else if (const auto known = cache.find(segment); known != cache.end()) {
      span = known->second;
    } else {
      state_->EncodeSegment(segment, ids);
      span.end = ids.size();
      if (cache.size() < kCacheEntries) cache.emplace(segment, span);
    }
    size_t covered = 0;
    for (size_t i = span.begin; i < span.end; ++i) {
      const size_t size = CoveredBytes(TokenBytes(ids[i]), segment.substr(covered), prefix);
      covered += size;
      if (covered > segment.size()) break;
      result.ids.push_back(ids[i]);
      result.token_bytes.push_back(static_cast<int32_t>(size));
    }
    if (covered != segment.size()) {
      return absl::InternalError(absl::StrCat("the tokenizer covers ", covered, " of ",
                                              segment.size(), " bytes of a segment"));
    }
  }
  result.consumed = static_cast<int64_t>(segmenter.consumed());
  return result;
}

std::string_view SentencePieceTokenizer::TokenBytes(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && static_cast<size_t>(id) < state_->bytes.size());
  return state_->bytes[static_cast<size_t>(id)];
}

std::string SentencePieceTokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text = Tokenizer::Decode(ids);
  if (state_->pieces.dummy_prefix() && !text.empty() && text.front() == ' ') text.erase(0, 1);
  return text;
}

int64_t SentencePieceTokenizer::vocab_size() const {
  return static_cast<int64_t>(state_->bytes.size());
}

std::optional<int32_t> SentencePieceTokenizer::ControlToken(std::string_view name) const {
  const auto found = state_->controls.find(std::string(name));
  if (found == state_->controls.end()) return std::nullopt;
  return found->second;
}

std::string_view SentencePieceTokenizer::ControlName(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && id < vocab_size());
  return state_->pieces.ControlName(id);
}

std::optional<int32_t> SentencePieceTokenizer::BeginToken() const { return state_->begin; }

}  // namespace recollect::model
