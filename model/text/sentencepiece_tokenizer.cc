#include "model/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/io/file.h"
#include "base/status.h"

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
      : text_(text), pieces_(pieces), whole_text_(pieces.vocabulary().whole_text) {}

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

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model)
    : model_(std::move(model)) {
  for (const char c : kSpaceMark) mark_ids_.push_back(model_.ByteId(static_cast<uint8_t>(c)));
  for (const SentencePiece& piece : model_.vocabulary().pieces) {
    const bool named = piece.type == TokenType::kControl || piece.type == TokenType::kUnknown;
    AddToken(model_.Bytes(static_cast<int>(vocab_size())), named ? piece.text : "");
  }
  if (model_.vocabulary().bos >= 0) begin_ = model_.vocabulary().bos;
}

void SentencePieceTokenizer::EncodeSegment(std::string_view segment, std::vector<int>& ids) const {
  if (segment != kSpaceMark || model_.vocabulary().whole_text) return model_.Encode(segment, ids);
  ids.insert(ids.end(), mark_ids_.begin(), mark_ids_.end());
}

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> SentencePieceTokenizer::Create(
    SentencePieceVocabulary vocabulary) {
  ASSIGN_OR_RETURN(SentencePieceModel model, SentencePieceModel::Create(std::move(vocabulary)));
  return std::unique_ptr<SentencePieceTokenizer>(new SentencePieceTokenizer(std::move(model)));
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

absl::StatusOr<Tokenizer::Encoded> SentencePieceTokenizer::EncodeValid(std::string_view text,
                                                                       bool final,
                                                                       int64_t base_offset) const {
  Encoded result;
  Segmenter segmenter(text, model_);
  // The space before the text; it belongs to the first segment and covers nothing.
  bool prefix = model_.vocabulary().dummy_prefix && base_offset == 0;
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
      EncodeSegment(std::string(1, ' ').append(segment), ids);
      span.end = ids.size();
    } else if (const auto known = cache.find(segment); known != cache.end()) {
      span = known->second;
    } else {
      EncodeSegment(segment, ids);
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

std::string SentencePieceTokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text = Tokenizer::Decode(ids);
  if (model_.vocabulary().dummy_prefix && !text.empty() && text.front() == ' ') text.erase(0, 1);
  return text;
}

}  // namespace recollect::model
