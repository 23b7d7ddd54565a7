// The progress of an ingest: rules that all implementations of DocumentStore share. Pure functions;
// each implementation decides what it writes where.
#ifndef RECOLLECT_STORE_INGEST_STATE_H_
#define RECOLLECT_STORE_INGEST_STATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::store {

struct IngestState {
  IngestProgress progress;
  int64_t width = 0;        // of chunk states; 0 until the first chunk, and without states
  int64_t d_k = 0;          // of landmark keys, likewise
  int64_t chunk_bytes = 0;  // of chunk records so far
  int64_t put_bytes = 0;    // of state parts since the last commit; not durable
};

// Returns INVALID_ARGUMENT unless the id has 1 to 1024 bytes without NUL.
absl::Status CheckDocumentId(const std::string& id);

// Returns the ingest that DocumentStore::BeginIngest, or with `replaces` BeginRefresh, asks for.
IngestProgress AskedIngest(const std::string& id, const std::string& fingerprint, bool from_tokens,
                           const std::string& pattern, OwnerId replaces = {});
// Returns OK if `ingest` may continue as `asked`; otherwise FAILED_PRECONDITION, which names both
// fingerprints, kinds of input or patterns, or which of the two is a refresh.
absl::Status CheckResumable(const IngestProgress& ingest, const IngestProgress& asked);
// Returns OK if `document`, the catalog's entry for that id, is still the document `asked` that is
// to be read again; otherwise NOT_FOUND, or the entry's error.
absl::Status CheckReplaced(const absl::StatusOr<DocumentInfo>& document, const DocumentInfo& asked);
// Returns ABORTED: the document that PublishIngest was to replace has gone.
absl::Status ReplacedHasGone(const IngestProgress& ingest);

// Returns INVALID_ARGUMENT, which names chunk and values, unless rows are 1..64, the text range is
// in order and states fill [rows, width]. `width` 0 allows any width. A chunk without states has no
// tokens either.
absl::Status CheckChunk(const ChunkRecord& chunk, int64_t index, int64_t width);

// Returns the number of parts of a prefix's state of `bytes` bytes.
int64_t StateParts(int64_t bytes);

// Returns the state with part `index` put; INVALID_ARGUMENT unless it is part 0 or follows a full
// part.
absl::StatusOr<IngestState> PutPart(const IngestState& state, int64_t index, int64_t bytes);

// Returns the state after `batch`; INVALID_ARGUMENT if the batch contradicts itself or what was
// committed (row counts, widths, number of landmark keys, an offset that goes back, a state that
// was not put, chunks of a prefix, chunks with states beside others without).
absl::StatusOr<IngestState> Advance(const IngestState& state, const IngestBatch& batch);

// Returns the catalog entry of the finished ingest.
DocumentInfo MakeDocument(const IngestState& state, const std::string& sha256,
                          int64_t created_unix_ms);

// Returns milliseconds since 1970, by the system's clock.
int64_t UnixMillis();

// Return NOT_FOUND: no published document to put an index for; a document without an index.
absl::Status NoDocumentOf(OwnerId owner);
absl::Status NoIndex(OwnerId owner);

// Returns OUT_OF_RANGE, which names the range and the size, unless 0 <= begin <= end <= size.
absl::Status CheckRange(const char* kind, int64_t begin, int64_t end, int64_t size);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_INGEST_STATE_H_
