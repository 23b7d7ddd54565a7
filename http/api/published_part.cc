#include "http/api/published_part.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::http {

engine::IngestStatus PublishedPart::status() const {
  engine::IngestStatus status;
  status.committed_offset = status.accepted_offset = at_;
  status.bytes = document_.bytes;
  status.tokens = document_.tokens;
  status.chunks = document_.chunks;
  return status;
}

absl::Status PublishedPart::Other(const std::string& what) const {
  return absl::AlreadyExistsError(
      absl::StrCat("document \"", document_.id, "\" exists with other content: ", what));
}

absl::Status PublishedPart::Compare(const std::string& text) const {
  if (document_.from_tokens) return Other("it was ingested as token ids");
  const int64_t end = at_ + std::ssize(text);
  if (end > document_.bytes)
    return Other(absl::StrCat("it has ", document_.bytes, " bytes, the input at least ", end));
  const absl::StatusOr<std::string> stored = engine_.ReadText(document_.id, at_, end);
  const absl::StatusOr<store::DocumentInfo> now = engine_.GetDocument(document_.id);
  // As of an ingest whose document is deleted.
  if (absl::IsNotFound(now.status()) || (now.ok() && now->owner != document_.owner))
    return absl::FailedPreconditionError("the document was deleted");
  RETURN_IF_ERROR(stored.status());
  RETURN_IF_ERROR(now.status());
  const auto [mine, theirs] = std::mismatch(text.begin(), text.end(), stored->begin());
  if (mine == text.end()) return absl::OkStatus();
  return Other(absl::StrCat("first difference at offset ", at_ + (theirs - stored->begin())));
}

void PublishedPart::Append(int64_t offset, std::string text, AppendDone done) {
  if (offset != at_) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("input begins at offset ", offset, ", expected ", at_)));
  }
  const absl::Status compared = Compare(text);
  if (!compared.ok()) return done(compared);
  at_ += std::ssize(text);
  done(status());
}

void PublishedPart::AppendTokens(int64_t, std::vector<int32_t>, AppendDone done) {
  done(absl::InvalidArgumentError("this ingest takes text, not token ids"));
}

void PublishedPart::Commit(AppendDone done) { done(status()); }

void PublishedPart::Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  if (at_ == document_.bytes && metadata_.has_value()) {
    return done(engine_.SetMetadata(document_.id, *metadata_, engine::MetadataChange::kReplace));
  }
  if (at_ == document_.bytes) return done(document_);
  done(Other(absl::StrCat("it has ", document_.bytes, " bytes, the input ", at_)));
}

}  // namespace recollect::http
