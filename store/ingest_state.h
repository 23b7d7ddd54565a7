// The progress of an ingest: rules that all implementations of DocumentStore share. Pure functions;
// each implementation decides what it writes where.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// Returns the ingest that IngestWriter::BeginIngest, or with `replaces` BeginRefresh, asks for.
IngestProgress AskedIngest(const std::string& id, const std::string& fingerprint, bool from_tokens,
                           const std::string& pattern, OwnerId replaces = {});
// Returns OK if `ingest` may continue as `asked`; otherwise FAILED_PRECONDITION, which names both
// fingerprints, kinds of input or patterns, or which of the two is a refresh.
absl::Status CheckResumable(const IngestProgress& ingest, const IngestProgress& asked);
// Returns OK if an ingest may begin, or end, as `asked` beside `published`, the catalog's answer
// for that id: ALREADY_EXISTS if it has a document; of a refresh NOT_FOUND if it has another one
// than is to be replaced. Otherwise the catalog's error.
absl::Status CheckBegins(const absl::StatusOr<DocumentInfo>& published,
                         const IngestProgress& asked);
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

// Returns the catalog entry of the finished ingest, but for what Describe gives it.
DocumentInfo MakeDocument(const IngestState& state, const std::string& sha256 = "");
// Gives it its time of creation and the metadata of its last batch. From the document that it
// replaces, if any, it takes that time, and the metadata if the batch has none.
void Describe(const IngestBatch& last, const DocumentInfo* replaced, DocumentInfo* info);
// Returns the entry that List and Remove give for what the catalog has of an id.
DocumentInfo Listed(absl::string_view id, const absl::StatusOr<DocumentInfo>& info);

// Returns OUT_OF_RANGE, which names the range and the size, unless 0 <= begin <= end <= size.
absl::Status CheckRange(const char* kind, int64_t begin, int64_t end, int64_t size);

}  // namespace recollect::store
