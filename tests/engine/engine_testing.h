// Helpers of the engine's tests: a tiny random model, text, blocking forms of the engine's calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "model/cpu/cpu_model.h"
#include "store/document_store.h"
#include "tests/support/reference_sequence.h"

namespace recollect::engine {

// Returns the tiny model, loaded once for the process. `seed` other than 1: another model of the
// same shape. With `min_chunk_tokens` the blocks of its documents end with sentences.
std::shared_ptr<const model::CpuModel> TinyModelForTest(uint64_t seed = 1,
                                                        int min_chunk_tokens = 0);
// Returns a tiny model without landmarks, whose documents are kept as text; also loaded once.
std::shared_ptr<const model::CpuModel> TextModelForTest(uint64_t seed = 1);
// Returns the tiny model of the family llama (tests/support/tiny_llama.h), loaded once for each
// context.
std::shared_ptr<const model::CpuModel> LlamaModelForTest(int64_t context = 128);
// Returns its directory, which is written the first time.
std::string LlamaDirectoryForTest(int64_t context = 128);
// Returns the golden model with a memory adapter (tests/support/tiny_adapter.h), loaded once for
// each context; 0: its own.
std::shared_ptr<const model::CpuModel> AdapterModelForTest(int64_t context = 0);
// Returns the directory of the tiny model with full blocks, once that has been loaded.
std::string TinyModelDirectory(uint64_t seed = 1);

// Returns words with punctuation, digits, line breaks and some characters outside ASCII; the same
// for equal arguments.
std::string SampleText(int64_t bytes, uint64_t seed);
// Returns tokens of such a text.
std::vector<int32_t> SampleTokens(int64_t count, uint64_t seed);

// An engine's options, and what it runs on.
struct TestOptions : EngineOptions {
  int threads = 2;                                // of the CPU
  std::shared_ptr<Backend> backend;               // null: the CPU's, of a CpuModel
  std::shared_ptr<LandmarkIndex> landmark_index;  // null: the CPU's
  std::shared_ptr<ListMaker> lists;               // null: none
  std::shared_ptr<SparseIndex> sparse;            // null: sparse keys are in RAM
};
TestOptions SmallOptions();     // small slices and commits
TestOptions OneSliceOptions();  // one slice of an ingest, and no commit before its end

std::unique_ptr<EngineImpl> MakeEngine(const TestOptions& options = SmallOptions(),
                                       std::unique_ptr<store::DocumentStore> store = nullptr,
                                       std::shared_ptr<const model::Model> model = nullptr);

struct Generated {
  absl::Status status;
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<Retrieval> retrievals;
  std::vector<ChosenLogprob> logprobs;
  std::vector<JudgedCandidates> candidates;
  FinishReason reason = FinishReason::kMaxTokens;
  Usage usage;
};

// Collects a generation and can be waited for. `on_tokens` runs on the engine's thread.
class Collector final : public GenerateEvents {
 public:
  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnRetrieval(const Retrieval& retrieval) override;
  void OnCandidates(const JudgedCandidates& candidates) override;
  void OnLogprobs(const ChosenLogprob& token) override;
  void OnDone(FinishReason reason, const Usage& usage) override;
  void OnError(const absl::Status& status) override;
  const Generated& Wait();

  std::function<void(int64_t tokens_so_far)> on_tokens;

 private:
  void End();
  std::mutex mutex_;
  std::condition_variable ended_wakes_;
  bool ended_ = false;
  Generated result_;
};

// A request to continue `prompt` that reports retrieved chunks and ends at `max_tokens` only.
GenerateRequest TokensRequest(std::vector<int32_t> prompt, int64_t max_tokens,
                              std::vector<std::string> mounts = {});
// The same as the next turn of an open session.
GenerateRequest TurnRequest(SessionId session, std::vector<int32_t> prompt, int64_t max_tokens);
ScoreRequest ScoreOf(std::vector<int32_t> tokens, std::vector<std::string> mounts = {});
RetrieveRequest RetrieveOf(std::vector<int32_t> query, std::vector<std::string> mounts = {});
// Returns the greedy choices of the model run over the whole sequence, at the positions that
// predict the last `count` tokens.
std::vector<int32_t> GreedyTokens(const model::Model& model, const ReferenceResult& reference,
                                  const SequenceLayout& layout, size_t count);

Generated Generate(Engine& engine, GenerateRequest request);
absl::StatusOr<ScoreResult> Score(Engine& engine, ScoreRequest request);
// Scores tokens in an open session, in pieces of these sizes; returns the numbers of all pieces,
// without ScoreResult::top.
ScoreResult ScorePieces(Engine& engine, SessionId session, const std::vector<int32_t>& tokens,
                        const std::vector<int64_t>& sizes);
absl::StatusOr<std::vector<Retrieval>> Retrieve(Engine& engine, RetrieveRequest request);
absl::StatusOr<Embedding> Embed(Engine& engine, EmbedRequest request);

// Send one piece and wait for the answer.
absl::StatusOr<IngestStatus> Append(IngestStream& stream, int64_t offset, std::string text);
absl::StatusOr<IngestStatus> AppendTokens(IngestStream& stream, int64_t offset,
                                          std::vector<int32_t> tokens);
absl::StatusOr<IngestStatus> Commit(IngestStream& stream);
absl::StatusOr<store::DocumentInfo> Finish(IngestStream& stream);
// Returns once the engine has done what earlier calls left to its background thread: closed
// sessions and deleted documents are freed.
void AwaitBackground(Engine& engine);
// Sends what the stream still lacks of `text` in messages of `message_bytes`, and finishes.
absl::StatusOr<store::DocumentInfo> SendText(IngestStream& stream, const std::string& text,
                                             int64_t message_bytes);
absl::StatusOr<store::DocumentInfo> Ingest(Engine& engine, const std::string& id,
                                           const std::string& text, int64_t message_bytes = 4096,
                                           const SessionOptions& session = {});
absl::StatusOr<store::DocumentInfo> IngestTokens(Engine& engine, const std::string& id,
                                                 const std::vector<int32_t>& tokens,
                                                 const SessionOptions& session = {});

// Returns the turns of an ingest of `tokens` and of a stream that begins before it and ends after
// it, from the ingest's first slice to its last: 'i' a slice that ends, 'p' one that comes to rest
// for steps, 's' a step, 't' a token of the stream. How many steps and rests come between two
// slices depends on the time that these took; the slices
// are the same at any speed of any thread if the engine's options let no commit come between. Shuts
// the engine down.
std::string TurnsBesideAStream(EngineImpl& engine, std::vector<int32_t> tokens);

// Ingests "beside" beside a stream, and calls `paused` whenever the ingest comes to rest for steps.
absl::Status IngestBesideAStream(EngineImpl& engine, const std::vector<int32_t>& tokens,
                                 std::function<void(IngestStream&)> paused);

// Returns all records of a document as one string, for byte-for-byte comparison.
std::string DumpDocument(store::DocumentStore& store, const std::string& id, int64_t d_r);

// Forwards all calls to a store that is kept elsewhere; tests override those that they want to fail
// or watch.
class ForwardingStore : public store::DocumentStore {
 public:
  explicit ForwardingStore(std::shared_ptr<store::DocumentStore> to) : to_(std::move(to)) {}
  absl::StatusOr<store::DocumentInfo> Get(const std::string& id) override { return to_->Get(id); }
  absl::StatusOr<std::vector<store::DocumentInfo>> List(const std::string& after,
                                                        int64_t limit) override {
    return to_->List(after, limit);
  }
  absl::StatusOr<store::DocumentInfo> Remove(const std::string& id) override {
    return to_->Remove(id);
  }
  absl::StatusOr<store::DocumentInfo> ChangeMetadata(const std::string& id,
                                                     const MetadataChange& change) override {
    return to_->ChangeMetadata(id, change);
  }
  absl::Status Free(OwnerId owner) override { return to_->Free(owner); }
  absl::StatusOr<store::IngestProgress> Begin(const store::IngestProgress& asked) override {
    return to_->Begin(asked);
  }
  absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() override {
    return to_->ListIngests();
  }
  absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) override {
    return to_->PutStatePart(owner, index, bytes);
  }
  absl::Status CommitIngest(OwnerId owner, const store::IngestBatch& batch) override {
    return to_->CommitIngest(owner, batch);
  }
  absl::StatusOr<store::DocumentInfo> PublishIngest(OwnerId owner,
                                                    const store::IngestBatch& last) override {
    return to_->PublishIngest(owner, last);
  }
  absl::Status AbandonIngest(const std::string& id) override { return to_->AbandonIngest(id); }
  absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin, int64_t end,
                                                         int64_t d_r) override {
    return to_->ReadLandmarkKeyRange(owner, begin, end, d_r);
  }
  absl::StatusOr<OwnerId> BeginImport(const store::DocumentInfo& document) override {
    return to_->BeginImport(document);
  }
  absl::Status AbandonImport(OwnerId owner) override { return to_->AbandonImport(owner); }
  std::vector<absl::StatusOr<store::ChunkRecord>> ReadChunks(
      std::span<const ChunkRef> refs) override {
    return to_->ReadChunks(refs);
  }
  absl::StatusOr<std::string> ReadText(OwnerId owner, int64_t begin, int64_t end) override {
    return to_->ReadText(owner, begin, end);
  }
  absl::StatusOr<std::vector<int32_t>> ReadTokens(OwnerId owner, int64_t begin,
                                                  int64_t end) override {
    return to_->ReadTokens(owner, begin, end);
  }
  absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) override {
    return to_->ReadStatePart(owner, index);
  }
  absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) override {
    return to_->ReadAppendPoint(owner);
  }
  absl::Status PutIndex(OwnerId owner, absl::string_view bytes) override {
    return to_->PutIndex(owner, bytes);
  }
  absl::StatusOr<std::string> ReadIndex(OwnerId owner) override { return to_->ReadIndex(owner); }
  absl::StatusOr<OwnerId> NewSessionOwner() override { return to_->NewSessionOwner(); }
  absl::Status PutSessionChunk(ChunkRef ref, const store::ChunkRecord& chunk) override {
    return to_->PutSessionChunk(ref, chunk);
  }
  absl::Status FreeSession(OwnerId owner) override { return to_->FreeSession(owner); }
  store::StoreState state() override { return to_->state(); }

 protected:
  const std::shared_ptr<store::DocumentStore> to_;
};

}  // namespace recollect::engine
