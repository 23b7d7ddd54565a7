// Cuts a document's tokens into slices of whole blocks, and makes of each block the record of a
// chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/memory_encoder.h"
#include "engine/ingest/ingest_context.h"
#include "engine/ingest/ingest_input.h"
#include "engine/ingest/resume_state.h"
#include "engine/session/state_budget.h"
#include "store/document_store.h"

namespace recollect::engine {

// The tokens to encode next: their number in each block, and how many leave the queue.
struct IngestSlice {
  std::vector<int64_t> blocks;
  int64_t tokens = 0;
  // Set by Fill.
  std::vector<int32_t> ids, bytes;  // [tokens]
  int64_t text_begin = 0;

  void Fill(const TokenQueue& queue);
};

// Tokens at the document's end that are not encoded: a prefix's last one runs in the session that
// mounts it, so that it can predict the next token.
int64_t HeldBack(const model::Model& model);

// As many whole blocks of the document's first `end` tokens as `most_tokens` allow, at least one,
// if the end of any is decided. `final`: the document ends there.
IngestSlice WholeBlocks(const model::Model& model, const TokenQueue& queue, int64_t end, bool final,
                        int64_t most_tokens);

// The next of all that are decided. `final`: the queue has all tokens that are left. `pause`: what
// later input could not change ends there, and is encoded before the rest.
IngestSlice NextSlice(const model::Model& model, const TokenQueue& queue, bool final,
                      std::optional<int64_t> pause, int64_t most_tokens);

struct EncodedSlice {
  std::vector<store::ChunkRecord> chunks;
  std::vector<Bf16> landmark_keys;
};

// Used by one thread at a time: the one that encodes; while a prefix is committed, by the commit.
class SliceEncoder {
 public:
  // Continues from `progress`, whose resume state says `state`. DATA_LOSS or FAILED_PRECONDITION if
  // it cannot be continued, RESOURCE_EXHAUSTED if the state so far does not fit in the budget.
  static absl::StatusOr<std::unique_ptr<SliceEncoder>> Create(
      const IngestContext& context, const model::LocalPatterns& pattern, const ResumeState& state,
      const store::IngestProgress& progress);

  // Calls `pause`, if there is one, as MemoryEncoder::Encode does. After an error the encoder can
  // only be destroyed.
  absl::StatusOr<EncodedSlice> Encode(const IngestSlice& slice,
                                      const ThreadPool::Pause& pause = nullptr);
  bool pauses() const { return encoder_ != nullptr && encoder_->pauses(); }

  // The state of the layers, where a resumed ingest needs it; else empty.
  absl::StatusOr<std::string> LocalState() const;
  // Writes the state of a prefix and notes its size in `batch`. Blocks on the disk.
  absl::Status WriteState(store::IngestBatch& batch) const;

 private:
  SliceEncoder(const IngestContext& context, OwnerId owner)
      : context_(context), owner_(owner), kind_(context.model.config().documents()) {}
  absl::Status Restore(const ResumeState& state, const store::IngestProgress& progress);
  absl::StatusOr<std::vector<model::EncodedChunk>> EncodeBlocks(const std::vector<Block>& blocks,
                                                                const ThreadPool::Pause& pause);
  absl::Status RunOpenSegment(const ThreadPool::Pause& pause);
  // Makes the record of a chunk, except for its text range.
  store::ChunkRecord MakeRecord(Block block, model::EncodedChunk& chunk);

  const IngestContext context_;
  const OwnerId owner_;
  const DocumentKind kind_;
  std::unique_ptr<MemoryEncoder> encoder_;  // null: the document is kept as text
  StateCharge charge_;
  std::vector<int32_t> before_;  // the last tokens that are encoded, as far as the pointer reaches
  // The tokens of an adapter's open segment that an earlier stream has committed: the store has
  // their chunks, but not the state of the layers, which run over them again. A segment is short.
  std::vector<int32_t> open_segment_;
};

}  // namespace recollect::engine
