// The errors that all implementations of DocumentStore return alike, with their messages.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/types.h"

namespace recollect::store {

// NOT_FOUND, of documents and owners.
absl::Status NoDocument(absl::string_view id);
absl::Status NoDocumentOf(OwnerId owner);  // none that is published
absl::Status NoOwner(OwnerId owner);
absl::Status WasRemoved(OwnerId owner);
absl::Status NoChunk(ChunkRef ref);
absl::Status NoSessionFor(ChunkRef ref);
absl::Status NoIndex(OwnerId owner);
absl::Status NoAppendPoint(OwnerId owner);
// NOT_FOUND, of ingests and imports.
absl::Status NoIngest(absl::string_view id);
absl::Status NoIngestOf(OwnerId owner);
absl::Status IngestHasEnded();
absl::Status ImportHasEnded();

// ALREADY_EXISTS: the document is published, or its ingest has begun.
absl::Status Exists(absl::string_view id);
absl::Status IsBeingIngested(absl::string_view id);

// FAILED_PRECONDITION: the owner cannot be freed.
absl::Status StillInUse(OwnerId owner);
absl::Status NotASession(OwnerId owner);

// DATA_LOSS: the record `what` is not there, or holds too few or other entries than it should.
absl::Status Missing(absl::string_view what);
absl::Status WrongCount(absl::string_view what, int64_t got, int64_t expected);
absl::Status WrongWidth(absl::string_view what, int64_t got, int64_t expected);

// Logs a warning, unless it is OK: for an error that nobody waits for.
void LogIfFailed(const absl::Status& status);

}  // namespace recollect::store
