// How an ingest moves on: the rules that every implementation of DocumentStore shares. Pure
// functions; what is written where is the implementation's matter.
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
  int64_t width = 0;        // of chunk states; 0 until the first chunk
  int64_t d_r = 0;          // of landmark keys; 0 until the first chunk
  int64_t chunk_bytes = 0;  // of the chunk records so far
  int64_t put_bytes = 0;    // of state parts since the last commit; not durable
};

// INVALID_ARGUMENT unless 1 to 1024 bytes without NUL.
absl::Status CheckDocumentId(const std::string& id);

// Whether `ingest` may go on as an ingest of this fingerprint, kind and pattern:
// FAILED_PRECONDITION naming both values otherwise.
absl::Status CheckResumable(const IngestProgress& ingest, const std::string& fingerprint,
                            bool from_tokens, const std::string& pattern);

// INVALID_ARGUMENT naming chunk and values unless rows are 1..64, states fill [rows, width] and the
// text range is in order. `width` 0: any.
absl::Status CheckChunk(const ChunkRecord& chunk, int64_t index, int64_t width);

// How many parts a prefix's state of so many bytes has.
int64_t StateParts(int64_t bytes);

// The state with part `index` put; INVALID_ARGUMENT unless it is part 0 or follows a full one.
absl::StatusOr<IngestState> PutPart(const IngestState& state, int64_t index, int64_t bytes);

// The state after `batch`; INVALID_ARGUMENT when the batch contradicts itself or what is committed
// (row counts, widths, number of landmark keys, an offset that goes back, a state that was not put,
// chunks of a prefix).
absl::StatusOr<IngestState> Advance(const IngestState& state, const IngestBatch& batch);

// What the finished ingest becomes in the catalog.
DocumentInfo MakeDocument(const IngestState& state, const std::string& sha256,
                          int64_t created_unix_ms);

// Milliseconds since 1970, of the system's clock.
int64_t UnixMillis();

// OUT_OF_RANGE naming the range and the size unless 0 <= begin <= end <= size.
absl::Status CheckRange(const char* kind, int64_t begin, int64_t end, int64_t size);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_INGEST_STATE_H_
