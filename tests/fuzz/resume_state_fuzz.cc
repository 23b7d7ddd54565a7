// The input is the state that an unfinished ingest left in the store, which an engine resumes from.
#include <numeric>

#include "engine/ingest/resume_state.h"
#include "model/state/local_state.h"
#include "tests/fuzz/tiny_engine.h"

namespace {

using namespace recollect;  // NOLINT

constexpr auto kBroken = {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition};

void CheckLocalState(const model::ModelConfig& config, std::string_view bytes) {
  const auto read = [&](std::string_view from) {
    return model::LocalState::Deserialize(config, config.local, config.n_low, from);
  };
  const auto state = read(bytes);
  if (!state.ok()) return fuzz::CheckRefusal(state.status(), kBroken);
  // The head may say equal patterns one by one; written again, it says them once.
  const std::string written = state->Serialize();
  RECOLLECT_CHECK(written.size() <= bytes.size());
  const auto again = read(written);
  RECOLLECT_CHECK(again.ok() && again->Serialize() == written);
}

// Goes on with a document of as many tokens and bytes as the state says, up to some hundred.
void Resume(const fuzz::TinyEngine& tiny, const engine::ResumeState& state, std::string bytes) {
  constexpr char kId[] = "document";
  if (state.tokens > 512 || state.text_end > 4096) return;
  int64_t text_bytes = state.text_end;
  for (const int32_t pending : state.pending_bytes) text_bytes += pending;
  if (text_bytes < 0 || text_bytes > 8192) text_bytes = state.text_end;
  const auto progress =
      tiny.store->BeginIngest(kId, tiny.model->fingerprint(), /*from_tokens=*/false, "");
  RECOLLECT_CHECK(progress.ok());
  store::IngestBatch batch;
  batch.tokens.assign(static_cast<size_t>(state.tokens), 70);
  batch.text.assign(static_cast<size_t>(text_bytes), 'a');
  batch.input_offset = text_bytes;
  batch.resume_state = std::move(bytes);
  const int64_t blocks = state.tokens / kChunkTokens;
  store::ChunkRecord chunk;
  chunk.rows = 1;
  chunk.states.resize(8);
  batch.chunks.resize(static_cast<size_t>(blocks), chunk);
  batch.landmark_keys.resize(static_cast<size_t>(blocks * tiny.model->config().key_width()));
  RECOLLECT_CHECK(tiny.store->CommitIngest(progress->owner, batch).ok());
  {
    const auto stream = tiny.engine->BeginIngest(kId, /*from_tokens=*/false, {});
    if (stream.ok()) {
      const std::string text = " and the sea was long, and the night was white. ";
      const auto status = fuzz::Append(**stream, text_bytes, text);
      RECOLLECT_CHECK(status.ok());
      const auto info = fuzz::Finish(**stream);
      RECOLLECT_CHECK(info.ok() && info->bytes == text_bytes + std::ssize(text));
    } else {
      fuzz::CheckRefusal(stream.status(), kBroken);
    }
  }
  // One that had committed nothing is gone already.
  const absl::Status deleted = tiny.engine->DeleteDocument(kId);
  RECOLLECT_CHECK(deleted.ok() || (absl::IsNotFound(deleted) && text_bytes == 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::AsText(data, size);
  const auto state = engine::DecodeResumeState(bytes);
  if (!state.ok()) {
    fuzz::CheckRefusal(state.status(), {absl::StatusCode::kDataLoss});
    return 0;
  }
  RECOLLECT_CHECK(engine::EncodeResumeState(*state) == bytes);
  const fuzz::TinyEngine& tiny = fuzz::TinyDrt();
  CheckLocalState(tiny.model->config(), state->local_state);
  Resume(tiny, *state, std::string(bytes));
  return 0;
}
