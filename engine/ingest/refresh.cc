#include "engine/ingest/refresh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

// Of text, read from the store and sent at once: what a client sends, too.
constexpr int64_t kPieceBytes = int64_t{256} << 10;

}  // namespace

absl::Status CheckRefresh(const store::DocumentInfo& document) {
  if (!document.from_tokens) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "document \"", document.id, "\" was ingested as token ids of the model with fingerprint ",
      document.fingerprint, ": there is no text to read again"));
}

void Refresh::Start() { Send(work_.stream->status().committed_offset); }

void Refresh::Cancel() {
  if (ingest_ != nullptr) ingest_->Cancel();
}

void Refresh::Send(int64_t offset) {
  post_([self = shared_from_this(), offset] {
    const absl::Status read = OrExhausted("a refresh", [&] {
      self->Read(offset);
      return absl::OkStatus();
    });
    if (!read.ok()) self->End(read);
  });
}

void Refresh::Read(int64_t offset) {
  const store::DocumentInfo& document = work_.document->info();
  if (offset >= document.bytes) {
    return work_.stream->Finish([self = shared_from_this()](auto info) { self->End(info); });
  }
  absl::StatusOr<std::string> text =
      store_.ReadText(document.owner, offset, std::min(offset + kPieceBytes, document.bytes));
  if (!text.ok()) return End(text.status());
  const int64_t end = offset + std::ssize(*text);
  work_.stream->Append(offset, *std::move(text),
                       [self = shared_from_this(), end](absl::StatusOr<IngestStatus> status) {
                         if (!status.ok()) return self->End(status.status());
                         if (self->work_.progress != nullptr) self->work_.progress(*status);
                         self->Send(end);
                       });
}

// Lets go of the old document first: once the caller knows, it is freed.
void Refresh::End(absl::StatusOr<store::DocumentInfo> result) {
  const std::string what = absl::StrCat("refresh of document \"", work_.document->info().id, "\"");
  work_.document = nullptr;
  if (!result.ok()) result = Annotate(result.status(), what);
  work_.done(std::move(result));
}

}  // namespace recollect::engine
