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

// INVALID_ARGUMENT unless 1 to 1024 bytes without NUL.
absl::Status CheckDocumentId(const std::string& id);

// What DocumentStore::BeginIngest, and with `replaces` BeginRefresh, ask for.
IngestProgress AskedIngest(const std::string& id, const std::string& fingerprint, bool from_tokens,
                           const std::string& pattern, OwnerId replaces = {});
// OK if `ingest` may continue as what is asked for; otherwise FAILED_PRECONDITION naming both
// fingerprints, kinds of input or patterns, or saying that one of the two is a refresh.
absl::Status CheckResumable(const IngestProgress& ingest, const IngestProgress& asked);
// OK if `document`, which the catalog has under the id of what is to be read again, is still the
// one that this is asked of; otherwise NOT_FOUND.
absl::Status CheckReplaced(const absl::StatusOr<DocumentInfo>& document, const DocumentInfo& asked);
// ABORTED: what PublishIngest was to replace has gone.
absl::Status ReplacedHasGone(const IngestProgress& ingest);

// INVALID_ARGUMENT naming chunk and values unless rows are 1..64, states fill [rows, width] and the
// text range is in order. `width` 0 allows any width. Without states there are no tokens either.
absl::Status CheckChunk(const ChunkRecord& chunk, int64_t index, int64_t width);

// The number of parts of a prefix's state of `bytes` bytes.
int64_t StateParts(int64_t bytes);

// The state with part `index` put; INVALID_ARGUMENT unless it is part 0 or follows a full one.
absl::StatusOr<IngestState> PutPart(const IngestState& state, int64_t index, int64_t bytes);

// The state after `batch`; INVALID_ARGUMENT if the batch contradicts itself or what was committed
// (row counts, widths, number of landmark keys, an offset that goes back, a state that was not put,
// chunks of a prefix, chunks with states beside others without).
absl::StatusOr<IngestState> Advance(const IngestState& state, const IngestBatch& batch);

// The catalog entry of the finished ingest.
DocumentInfo MakeDocument(const IngestState& state, const std::string& sha256,
                          int64_t created_unix_ms);

// Milliseconds since 1970, of the system's clock.
int64_t UnixMillis();

// NOT_FOUND: an index is put for an owner that is not a published document; a document has none.
absl::Status NoDocumentOf(OwnerId owner);
absl::Status NoIndex(OwnerId owner);

// OUT_OF_RANGE naming the range and the size unless 0 <= begin <= end <= size.
absl::Status CheckRange(const char* kind, int64_t begin, int64_t end, int64_t size);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_INGEST_STATE_H_
