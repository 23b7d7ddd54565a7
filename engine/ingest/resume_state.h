// The state from which a memory ingest resumes after a commit: the lower layers' state at a block's
// end, and tokens that were decided but not yet encoded. The store keeps it as opaque bytes.
#ifndef RECOLLECT_ENGINE_INGEST_RESUME_STATE_H_
#define RECOLLECT_ENGINE_INGEST_RESUME_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::engine {

struct ResumeState {
  int64_t tokens = 0;                // encoded tokens
  int64_t text_end = 0;              // bytes of text that they cover
  std::vector<int32_t> pending_ids;  // decided by the input before the commit's offset, not encoded
  std::vector<int32_t> pending_bytes;  // bytes of text of each
  std::string local_state;             // model::LocalState::Serialize; empty before the first token
};

std::string EncodeResumeState(const ResumeState& state);
// DATA_LOSS if malformed or of another version.
absl::StatusOr<ResumeState> DecodeResumeState(std::string_view bytes);
// DATA_LOSS unless it stands where the ingest's records do, and its tokens are of the vocabulary.
absl::Status CheckResumeState(const ResumeState& state, const store::IngestProgress& progress,
                              int64_t vocab_size);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_RESUME_STATE_H_
