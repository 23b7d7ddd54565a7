#include "engine/save_text.h"

#include <algorithm>
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
constexpr int64_t kMaxAnswerBytes = int64_t{4} << 20;     // of a document's last answer

bool BeginsWith(absl::string_view text, const store::DocumentInfo& document) {
  const auto bytes = static_cast<size_t>(document.bytes);
  return bytes <= text.size() && Sha256Hex(text.substr(0, bytes)) == document.sha256;
}

// Whether the document is these turns with an answer to the last one: the same question was asked
// before, and perhaps its answer never arrived.
absl::StatusOr<bool> AnswersQuestion(Engine& engine, const store::DocumentInfo& document,
                                     absl::string_view question) {
  const auto begin = static_cast<int64_t>(question.size());
  if (begin == 0 || document.bytes < begin || document.bytes > begin + kMaxAnswerBytes)
    return false;
  ASSIGN_OR_RETURN(const std::string text, engine.ReadText(document.id, 0, document.bytes));
  absl::string_view rest = text;
  return absl::ConsumePrefix(&rest, question) && absl::ConsumePrefix(&rest, kAnswerOpening) &&
         !absl::StrContains(rest, absl::StrCat("\n", kQuestionOpening));
}

// What is written, and over what.
struct SavePlan {
  std::optional<Replacement> replacement = {};
  int64_t kept = 0;  // bytes of the document that is there, behind which the text goes on
};

// What follows may still complete a character that the known text ends within.
bool EndsWithinCharacter(absl::string_view text) { return absl::EndsWith(text, "\xef\xbf\xbd"); }

absl::StatusOr<SavePlan> PlanFor(Engine& engine, const SaveAs& as, const KnownText& known) {
  if (as.replace) return SavePlan{Replacement{}};
  const absl::StatusOr<store::DocumentInfo> there = engine.GetDocument(as.id);
  if (absl::IsNotFound(there.status())) return SavePlan{};
  RETURN_IF_ERROR(there.status());
  if (BeginsWith(known.text, *there)) {
    // The ingest compares it.
    if (known.is_all && there->bytes == std::ssize(known.text)) return SavePlan{};
    const bool appends = known.is_all || !EndsWithinCharacter(known.text);
    return SavePlan{Replacement{there->sha256, appends}, appends ? there->bytes : 0};
  }
  bool same = false;
  if (known.is_question) {
    ASSIGN_OR_RETURN(same, AnswersQuestion(engine, *there, known.text));
  }
  if (same) return SavePlan{Replacement{there->sha256}};
  return absl::AlreadyExistsError(absl::StrCat("document \"", as.id,
                                               "\" exists, and this text does not begin with "
                                               "its text (",
                                               there->bytes,
                                               " bytes): replace puts this one in its place"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<TextSave>> TextSave::Begin(Engine& engine, const SaveAs& as,
                                                          const Origin& origin,
                                                          const KnownText& known,
                                                          const BeginStream& begin) {
  ASSIGN_OR_RETURN(SavePlan plan, PlanFor(engine, as, known));
  const auto begin_stream = [&] {
    return begin != nullptr
               ? begin(as.id, origin, plan.replacement)
               : engine.BeginIngest(as.id, /*from_tokens=*/false, {}, origin, plan.replacement);
  };
  absl::StatusOr<std::unique_ptr<IngestStream>> begun = begin_stream();
  // A document of another model or of tokens, which takes no more text, is written anew.
  if (plan.kept > 0 && absl::IsFailedPrecondition(begun.status())) {
    plan = {Replacement{plan.replacement->sha256}};
    begun = begin_stream();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<IngestStream> stream, std::move(begun));
  if (const int64_t read = stream->status().committed_offset; read > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("an unfinished ingest of document \"", as.id, "\" has read ", read,
                     " bytes: finish it, delete it, or replace it"));
  }
  return std::shared_ptr<TextSave>(new TextSave(as.id, plan.kept, std::move(stream)));
}

TextSave::TextSave(std::string id, int64_t kept, std::unique_ptr<IngestStream> stream)
    : id_(std::move(id)), kept_(kept), stream_(std::move(stream)), ingest_(stream_->handle()) {}

void TextSave::Write(std::string text, Done done) {
  text_ = text.substr(std::min(static_cast<size_t>(kept_), text.size()));
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
