#include "engine/save_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/turns_text.h"
#include "engine/engine.h"

namespace recollect::engine {
namespace {

constexpr int64_t kSavedPieceBytes = int64_t{256} << 10;  // sent at once
constexpr int64_t kMostAnswerBytes = int64_t{4} << 20;    // of a document's last answer

bool BeginsWith(absl::string_view text, const store::DocumentInfo& document) {
  const auto bytes = static_cast<size_t>(document.bytes);
  return bytes <= text.size() && Sha256Hex(text.substr(0, bytes)) == document.sha256;
}

// Whether the document is these turns with an answer to the last one: the same question was asked
// before, and perhaps its answer never arrived.
absl::StatusOr<bool> AnswersQuestion(Engine& engine, const store::DocumentInfo& document,
                                     absl::string_view question) {
  const auto begin = static_cast<int64_t>(question.size());
  if (begin == 0 || document.bytes < begin || document.bytes > begin + kMostAnswerBytes)
    return false;
  ASSIGN_OR_RETURN(const std::string text, engine.ReadText(document.id, 0, document.bytes));
  absl::string_view rest = text;
  return absl::ConsumePrefix(&rest, question) && absl::ConsumePrefix(&rest, kAnswerOpening) &&
         !absl::StrContains(rest, absl::StrCat("\n", kQuestionOpening));
}

absl::StatusOr<std::optional<Replacement>> ReplacementFor(Engine& engine, const SaveAs& as,
                                                          const KnownText& known) {
  if (as.replace) return Replacement{};
  const absl::StatusOr<store::DocumentInfo> there = engine.GetDocument(as.id);
  if (absl::IsNotFound(there.status())) return std::nullopt;
  RETURN_IF_ERROR(there.status());
  bool same = BeginsWith(known.text, *there);
  // The ingest compares it.
  if (same && known.is_all && there->bytes == std::ssize(known.text)) return std::nullopt;
  if (!same && known.is_question) {
    ASSIGN_OR_RETURN(same, AnswersQuestion(engine, *there, known.text));
  }
  if (same) return Replacement{there->sha256};
  return absl::AlreadyExistsError(absl::StrCat("document \"", as.id,
                                               "\" exists, and this text does not begin with "
                                               "its text (",
                                               there->bytes,
                                               " bytes): replace puts this one in its place"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<TextSave>> TextSave::Begin(Engine& engine, const SaveAs& as,
                                                          const Origin& origin,
                                                          const KnownText& known) {
  ASSIGN_OR_RETURN(const std::optional<Replacement> replacement, ReplacementFor(engine, as, known));
  ASSIGN_OR_RETURN(std::unique_ptr<IngestStream> stream,
                   engine.BeginIngest(as.id, /*from_tokens=*/false, {}, origin, replacement));
  if (const int64_t read = stream->status().committed_offset; read > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("an unfinished ingest of document \"", as.id, "\" has read ", read,
                     " bytes: finish it, delete it, or replace it"));
  }
  return std::shared_ptr<TextSave>(new TextSave(as.id, std::move(stream)));
}

TextSave::TextSave(std::string id, std::unique_ptr<IngestStream> stream)
    : id_(std::move(id)), stream_(std::move(stream)), ingest_(stream_->handle()) {}

void TextSave::Write(std::string text, Done done) {
  text_ = std::move(text);
  done_ = std::move(done);
  Send(0);
}

void TextSave::Cancel() {
  if (ingest_ != nullptr) ingest_->Cancel();
}

void TextSave::Send(int64_t offset) {
  const auto self = shared_from_this();
  if (offset == std::ssize(text_))
    return stream_->Finish([self](auto document) { self->End(std::move(document)); });
  std::string piece = text_.substr(static_cast<size_t>(offset), kSavedPieceBytes);
  const int64_t end = offset + std::ssize(piece);
  stream_->Append(offset, std::move(piece), [self, end](const absl::StatusOr<IngestStatus>& taken) {
    taken.ok() ? self->Send(end) : self->End(taken.status());
  });
}

// The stream stays until nobody is in it any more: this may be called before a call of it returns.
void TextSave::End(absl::StatusOr<store::DocumentInfo> result) {
  if (!result.ok()) result = Annotate(result.status(), absl::StrCat("saving \"", id_, "\""));
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace recollect::engine
