// A model, a store and what else an ingest's parts work on, without any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/ingest/ingest_commit.h"
#include "engine/ingest/ingest_context.h"
#include "engine/ingest/ingest_encode.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {

struct IngestParts {
  explicit IngestParts(std::shared_ptr<const model::CpuModel> model_in = TinyModelForTest(),
                       std::shared_ptr<store::DocumentStore> store_in = store::CreateMemoryStore())
      : model(std::move(model_in)),
        backend(model, std::make_shared<ComputeThreads>(1)),
        store(std::move(store_in)) {}

  store::IngestProgress Begin(bool from_tokens = true) {
    return *store->BeginIngest("doc", model->fingerprint(), from_tokens, "");
  }
  // A queue with these tokens, each of one byte of text.
  static TokenQueue QueueOf(const std::vector<int32_t>& tokens) {
    TokenQueue queue(/*from_tokens=*/true, 0, 0, 0, {});
    queue.Push({tokens, std::vector<int32_t>(tokens.size(), 1), std::string(tokens.size(), 'x'),
                std::ssize(tokens)});
    return queue;
  }
  std::unique_ptr<SliceEncoder> Encoder(const store::IngestProgress& progress,
                                        const ResumeState& state = {}) {
    return *SliceEncoder::Create(context, model->config().local, state, progress);
  }
  // Encodes the next slice of the queue, which has all tokens of the document.
  EncodedSlice Encode(SliceEncoder& encoder, TokenQueue& queue, int64_t most_tokens) {
    IngestSlice slice = NextSlice(*model, queue, /*final=*/true, std::nullopt, most_tokens);
    slice.Fill(queue);
    absl::StatusOr<EncodedSlice> encoded = encoder.Encode(slice);
    EXPECT_THAT(encoded, IsOk());
    queue.MarkEncoded(slice.tokens);
    return *std::move(encoded);
  }

  const std::shared_ptr<const model::CpuModel> model;
  CpuBackend backend;
  const std::shared_ptr<store::DocumentStore> store;
  Counters counters;
  StateBudget state_budget{int64_t{1} << 30};
  IngestContext context{.model = *model,
                        .backend = backend,
                        .catalog = *store,
                        .writer = *store,
                        .reader = *store,
                        .thread = nullptr,
                        .counters = counters,
                        .state_budget = state_budget,
                        .wake = nullptr,
                        .chunk_states_format = ChunkStatesFormat::kBf16,
                        .commit_tokens = 256,
                        .text_commit_tokens = 1024,
                        .max_ingests = 1,
                        .published = nullptr};
};

}  // namespace recollect::engine
