#include "store/store_errors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "store/keys.h"

namespace recollect::store {
namespace {

absl::Status None(absl::string_view what) { return absl::NotFoundError(absl::StrCat("no ", what)); }

}  // namespace

absl::Status NoDocument(absl::string_view id) { return None(DocumentName(id)); }
absl::Status NoDocumentOf(OwnerId owner) {
  return None(absl::StrCat("published document of ", OwnerName(owner)));
}
absl::Status NoOwner(OwnerId owner) { return None(OwnerName(owner)); }
absl::Status WasRemoved(OwnerId owner) {
  return absl::NotFoundError(absl::StrCat(OwnerName(owner), " was removed"));
}
absl::Status NoChunk(ChunkRef ref) { return None(PieceName("chunk", ref.owner, ref.index)); }
absl::Status NoSessionFor(ChunkRef ref) {
  return None(PieceName("session for chunk", ref.owner, ref.index));
}
absl::Status NoIndex(OwnerId owner) {
  return None(absl::StrCat("index over the landmark keys of ", OwnerName(owner)));
}
absl::Status NoAppendPoint(OwnerId owner) {
  return None(absl::StrCat("append point of ", OwnerName(owner)));
}
absl::Status NoIngest(absl::string_view id) {
  return None(absl::StrCat("unfinished ingest of '", id, "'"));
}
absl::Status NoIngestOf(OwnerId owner) {
  return None(absl::StrCat("unfinished ingest of ", OwnerName(owner)));
}
absl::Status IngestHasEnded() { return absl::NotFoundError("the ingest has ended"); }
absl::Status ImportHasEnded() { return absl::NotFoundError("the import has ended"); }

absl::Status Exists(absl::string_view id) {
  return absl::AlreadyExistsError(absl::StrCat(DocumentName(id), " exists"));
}
absl::Status IsBeingIngested(absl::string_view id) {
  return absl::AlreadyExistsError(
      absl::StrCat(DocumentName(id), ": an ingest of that id has begun and is not finished"));
}

absl::Status StillInUse(OwnerId owner) {
  return absl::FailedPreconditionError(absl::StrCat(OwnerName(owner), " is still in use"));
}
absl::Status NotASession(OwnerId owner) {
  return absl::FailedPreconditionError(absl::StrCat(OwnerName(owner), " is not a session"));
}

absl::Status Missing(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, ": missing"));
}
absl::Status WrongCount(absl::string_view what, int64_t got, int64_t expected) {
  return absl::DataLossError(absl::StrCat(what, ": ", got, " entries, expected ", expected));
}
absl::Status WrongWidth(absl::string_view what, int64_t got, int64_t expected) {
  return absl::DataLossError(absl::StrCat(what, ": width ", got, ", expected ", expected));
}

void LogIfFailed(const absl::Status& status) {
  if (!status.ok()) LogWarning("{}", std::string(status.message()));
}

}  // namespace recollect::store
