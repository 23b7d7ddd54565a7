// The state from which a memory ingest resumes after a commit: the lower layers' state at a block's
// end, and tokens that were decided but not yet encoded. The store keeps it as opaque bytes. And
// the place from which an append goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::engine {

struct ResumeState {
  int64_t tokens = 0;    // encoded tokens
  int64_t text_end = 0;  // bytes of text that they cover
  std::vector<int32_t> pending_ids =
      {};  // decided by the input before the commit's offset, not encoded
  std::vector<int32_t> pending_bytes = {};  // bytes of text of each
  std::string local_state = {};  // model::LocalState::Serialize; empty before the first token
};

// Where the reading of a document that is appended to goes on: a place near its end up to which no
// later text changes anything. The store keeps it with the document as opaque bytes.
struct AppendPoint {
  int64_t chunks = 0;
  int64_t bytes = 0;              // of text, as far as the resume state knows of it
  int64_t input_offset = 0;       // from which the document's input is read again
  std::string resume_state = {};  // EncodeResumeState of what an ingest committed there would have
};

std::string EncodeResumeState(const ResumeState& state);
// DATA_LOSS if malformed or of another version.
absl::StatusOr<ResumeState> DecodeResumeState(std::string_view bytes);
// DATA_LOSS unless it stands where the ingest's records do, and its tokens are of the vocabulary.
absl::Status CheckResumeState(const ResumeState& state, const store::IngestProgress& progress,
                              int64_t vocab_size);

std::string EncodeAppendPoint(const AppendPoint& point);
// DATA_LOSS if malformed, of another version, or not within the document.
absl::StatusOr<AppendPoint> DecodeAppendPoint(std::string_view bytes,
                                              const store::DocumentInfo& document);

}  // namespace recollect::engine
