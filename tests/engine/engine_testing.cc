#include "tests/engine/engine_testing.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/sampler.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {

std::string TinyModelDirectory(uint64_t seed) {
  return absl::StrCat(::testing::TempDir(), "/engine_tiny_", seed);
}

namespace {

// The model of a directory, loaded once for the process; `write` writes the directory before.
std::shared_ptr<const model::CpuModel> LoadedOnce(const std::string& directory,
                                                  absl::FunctionRef<void()> write) {
  static std::mutex mutex;
  static auto* const models = new std::map<std::string, std::shared_ptr<const model::CpuModel>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<const model::CpuModel>& slot = (*models)[directory];
  if (slot == nullptr) {
    write();
    absl::StatusOr<std::unique_ptr<model::CpuModel>> loaded = model::CpuModel::Load(directory);
    RECOLLECT_CHECK(loaded.ok());
    slot = *std::move(loaded);
  }
  return slot;
}

std::string LlamaDirectory(int64_t context) {
  return absl::StrCat(TinyModelDirectory(1), "_llama_", context);
}

}  // namespace

std::shared_ptr<const model::CpuModel> TinyModelForTest(uint64_t seed, int min_chunk_tokens) {
  std::string directory = TinyModelDirectory(seed);
  if (min_chunk_tokens > 0) absl::StrAppend(&directory, "_", min_chunk_tokens);
  return LoadedOnce(directory, [&] {
    model::ModelConfig config = TinyConfig();
    config.min_chunk_tokens = min_chunk_tokens;
    WriteTinyModel(directory, config, seed);
  });
}

std::shared_ptr<const model::CpuModel> TextModelForTest(uint64_t seed) {
  const std::string directory = absl::StrCat(TinyModelDirectory(seed), "_text");
  return LoadedOnce(directory, [&] {
    model::ModelConfig config = TinyRatSwaConfig();
    config.KeepText();
    WriteTinyModel(directory, config, seed);
  });
}

std::string LlamaDirectoryForTest(int64_t context) {
  LlamaModelForTest(context);
  return LlamaDirectory(context);
}

std::shared_ptr<const model::CpuModel> LlamaModelForTest(int64_t context) {
  return LoadedOnce(LlamaDirectory(context), [&] {
    nlohmann::json config = TinyLlamaConfig();
    config["max_position_embeddings"] = context;
    WriteTinyLlama(LlamaDirectory(context), config);
  });
}

std::shared_ptr<const model::CpuModel> AdapterModelForTest(int64_t context) {
  const std::string directory = absl::StrCat(TinyModelDirectory(1), "_adapter_", context);
  return LoadedOnce(directory, [&] {
    WriteTinyAdapter(directory);
    if (context == 0) return;
    const std::string path = directory + "/config.json";
    nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
    config["max_position_embeddings"] = context;
    std::ofstream(path) << config;
  });
}

std::string SampleText(int64_t bytes, uint64_t seed) {
  static constexpr const char* kWords[] = {
      "the",  "whale", "and",   "sea",  "of",      "captain", "Ahab", "ship",         "was",  "a",
      "long", "night", "under", "1851", "harpoon", "crew",    "in",   "caf\xc3\xa9",  "to",   "my",
      "soul", "white", "water", "42",   "said",    "he",      "that", "\xe2\x80\x94", "upon", "no"};
  std::string text;
  uint64_t index = 0;
  while (static_cast<int64_t>(text.size()) < bytes) {
    const double u = CounterUniform(seed, index++);
    text += kWords[static_cast<size_t>(u * std::size(kWords))];
    const double end = CounterUniform(seed + 1000, index);
    text += end < 0.02 ? "\n\n" : end < 0.1 ? ". " : end < 0.2 ? ", " : " ";
  }
  return text;
}

std::vector<int32_t> SampleTokens(int64_t count, uint64_t seed) {
  std::vector<int32_t> tokens =
      *TinyModelForTest()->tokenizer()->Encode(SampleText(count * 6, seed));
  RECOLLECT_CHECK(static_cast<int64_t>(tokens.size()) >= count);
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

TestOptions SmallOptions() {
  TestOptions options;
  options.ingest_slice_tokens = 256;
  options.prefill_slice_tokens = 128;
  options.commit_tokens = options.text_commit_tokens = 512;
  options.chunk_states_format = ChunkStatesFormat::kBf16;  // as the model's own chunks
  return options;
}

TestOptions OneSliceOptions() {
  TestOptions options = SmallOptions();
  options.ingest_slice_tokens = options.commit_tokens = 1 << 20;
  return options;
}

std::unique_ptr<EngineImpl> MakeEngine(const TestOptions& options,
                                       std::unique_ptr<store::DocumentStore> store,
                                       std::shared_ptr<const model::Model> model) {
  if (store == nullptr) store = store::CreateMemoryStore();
  if (model == nullptr) model = TinyModelForTest();
  const auto threads = std::make_shared<ComputeThreads>(options.threads);
  LoadedModel loaded{std::move(model),
                     options.backend,
                     options.landmark_index,
                     options.lists,
                     std::shared_ptr<ThreadPool>(threads, &threads->pool),
                     options.sparse};
  if (loaded.backend == nullptr) {
    auto on_cpu = std::dynamic_pointer_cast<const model::CpuModel>(loaded.model);
    RECOLLECT_CHECK(on_cpu != nullptr);
    loaded.backend = std::make_shared<CpuBackend>(std::move(on_cpu), threads);
  }
  if (loaded.landmarks == nullptr) loaded.landmarks = std::make_shared<CpuLandmarks>(threads);
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(options, std::move(loaded), std::move(store));
  RECOLLECT_CHECK(engine.ok());
  return std::unique_ptr<EngineImpl>(static_cast<EngineImpl*>(engine->release()));
}

void Collector::OnTokens(const std::vector<int32_t>& tokens, const std::string& text) {
  int64_t so_far;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_FALSE(ended_);
    result_.tokens.insert(result_.tokens.end(), tokens.begin(), tokens.end());
    result_.text += text;
    so_far = static_cast<int64_t>(result_.tokens.size());
  }
  if (on_tokens) on_tokens(so_far);
}

void Collector::OnRetrieval(const Retrieval& retrieval) {
  std::lock_guard<std::mutex> lock(mutex_);
  result_.retrievals.push_back(retrieval);
}

void Collector::OnCandidates(const JudgedCandidates& candidates) {
  std::lock_guard<std::mutex> lock(mutex_);
  result_.candidates.push_back(candidates);
}

void Collector::OnLogprobs(const ChosenLogprob& token) {
  std::lock_guard<std::mutex> lock(mutex_);
  result_.logprobs.push_back(token);
}

void Collector::OnDone(FinishReason reason, const Usage& usage) {
  std::lock_guard<std::mutex> lock(mutex_);
  result_.reason = reason;
  result_.usage = usage;
  End();
}

void Collector::OnError(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  result_.status = status;
  End();
}

void Collector::End() {
  EXPECT_FALSE(ended_) << "a generation ended twice";
  ended_ = true;
  ended_wakes_.notify_all();
}

const Generated& Collector::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_wakes_.wait(lock, [this] { return ended_; });
  return result_;
}

GenerateRequest TokensRequest(std::vector<int32_t> prompt, int64_t max_tokens,
                              std::vector<std::string> mounts) {
  GenerateRequest request;
  request.prompt.tokens = std::move(prompt);
  request.max_tokens = max_tokens;
  request.session_options.mounts = std::move(mounts);
  request.ignore_eos = true;
  request.with_retrievals = true;
  return request;
}

GenerateRequest TurnRequest(SessionId session, std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerateRequest request = TokensRequest(std::move(prompt), max_tokens);
  request.session = session;
  return request;
}

ScoreRequest ScoreOf(std::vector<int32_t> tokens, std::vector<std::string> mounts) {
  ScoreRequest request;
  request.session_options.mounts = std::move(mounts);
  request.prompt.tokens = std::move(tokens);
  return request;
}

RetrieveRequest RetrieveOf(std::vector<int32_t> query, std::vector<std::string> mounts) {
  RetrieveRequest request;
  request.session_options.mounts = std::move(mounts);
  request.query.tokens = std::move(query);
  return request;
}

std::vector<int32_t> GreedyTokens(const model::Model& model, const ReferenceResult& reference,
                                  const SequenceLayout& layout, size_t count) {
  std::vector<int32_t> tokens;
  const int64_t vocab = model.config().vocab_size;
  for (size_t i = layout.predictors().size() - count; i < layout.predictors().size(); ++i) {
    tokens.push_back(
        Argmax(model.config(),
               std::span(reference.logits).subspan(layout.predictors()[i] * vocab, vocab)));
  }
  return tokens;
}

Generated Generate(Engine& engine, GenerateRequest request) {
  auto collector = std::make_shared<Collector>();
  engine.Generate(std::move(request), collector);
  return collector->Wait();
}

namespace {

// What a callback that `call` is given is called with.
template <typename T, typename Call>
absl::StatusOr<T> Await(const Call& call) {
  std::promise<absl::StatusOr<T>> answer;
  call([&](absl::StatusOr<T> result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

}  // namespace

absl::StatusOr<ScoreResult> Score(Engine& engine, ScoreRequest request) {
  return Await<ScoreResult>([&](auto done) { engine.Score(std::move(request), done); });
}

ScoreResult ScorePieces(Engine& engine, SessionId session, const std::vector<int32_t>& tokens,
                        const std::vector<int64_t>& sizes) {
  ScoreResult all;
  const auto append = [](auto& to, const auto& of) { to.insert(to.end(), of.begin(), of.end()); };
  auto from = tokens.begin();
  for (const int64_t size : sizes) {
    ScoreRequest request;
    request.session = session;
    request.prompt.tokens.assign(from, from + size);
    from += size;
    const absl::StatusOr<ScoreResult> piece = Score(engine, request);
    EXPECT_TRUE(piece.ok()) << piece.status();
    if (!piece.ok()) return all;
    append(all.tokens, piece->tokens);
    append(all.logprobs, piece->logprobs);
    append(all.argmax, piece->argmax);
    append(all.argmax_logprobs, piece->argmax_logprobs);
    all.text_bytes += piece->text_bytes;
  }
  EXPECT_EQ(from, tokens.end());
  return all;
}

absl::StatusOr<std::vector<Retrieval>> Retrieve(Engine& engine, RetrieveRequest request) {
  return Await<std::vector<Retrieval>>(
      [&](auto done) { engine.Retrieve(std::move(request), done); });
}

absl::StatusOr<Embedding> Embed(Engine& engine, EmbedRequest request) {
  return Await<Embedding>([&](auto done) { engine.Embed(std::move(request), done); });
}

absl::StatusOr<IngestStatus> Append(IngestStream& stream, int64_t offset, std::string text) {
  return Await<IngestStatus>([&](auto done) { stream.Append(offset, std::move(text), done); });
}

absl::StatusOr<IngestStatus> AppendTokens(IngestStream& stream, int64_t offset,
                                          std::vector<int32_t> tokens) {
  return Await<IngestStatus>(
      [&](auto done) { stream.AppendTokens(offset, std::move(tokens), done); });
}

absl::StatusOr<IngestStatus> Commit(IngestStream& stream) {
  return Await<IngestStatus>([&](auto done) { stream.Commit(done); });
}

absl::StatusOr<store::DocumentInfo> Finish(IngestStream& stream) {
  return Await<store::DocumentInfo>([&](auto done) { stream.Finish(done); });
}

void AwaitBackground(Engine& engine) {
  // Requests are prepared there in the order of the calls. Twice, since a session that is freed may
  // leave a document to be freed.
  ScoreRequest late;
  late.prompt.tokens = {10};
  late.deadline = absl::InfinitePast();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(absl::IsDeadlineExceeded(Score(engine, late).status()));
}

absl::StatusOr<store::DocumentInfo> SendText(IngestStream& stream, const std::string& text,
                                             int64_t message_bytes) {
  int64_t offset = stream.status().committed_offset;
  while (offset < std::ssize(text)) {
    const std::string message =
        text.substr(static_cast<size_t>(offset), static_cast<size_t>(message_bytes));
    if (const auto appended = Append(stream, offset, message); !appended.ok()) {
      return appended.status();
    }
    offset += std::ssize(message);
  }
  return Finish(stream);
}

absl::StatusOr<store::DocumentInfo> Ingest(Engine& engine, const std::string& id,
                                           const std::string& text, int64_t message_bytes,
                                           const SessionOptions& session) {
  absl::StatusOr<std::unique_ptr<IngestStream>> stream = engine.BeginIngest(id, false, session);
  if (!stream.ok()) return stream.status();
  return SendText(**stream, text, message_bytes);
}

absl::StatusOr<store::DocumentInfo> IngestTokens(Engine& engine, const std::string& id,
                                                 const std::vector<int32_t>& tokens,
                                                 const SessionOptions& session) {
  absl::StatusOr<std::unique_ptr<IngestStream>> stream = engine.BeginIngest(id, true, session);
  if (!stream.ok()) return stream.status();
  std::promise<absl::Status> appended;
  const int64_t offset = (*stream)->status().committed_offset;
  (*stream)->AppendTokens(offset, {tokens.begin() + offset, tokens.end()},
                          [&](absl::StatusOr<IngestStatus> s) { appended.set_value(s.status()); });
  absl::StatusOr<store::DocumentInfo> info = Finish(**stream);
  const absl::Status status = appended.get_future().get();
  if (!status.ok()) return status;
  return info;
}

std::string DumpDocument(store::DocumentStore& store, const std::string& id, int64_t d_r) {
  const store::DocumentInfo info = *store.Get(id);
  std::string dump = absl::StrCat(info.id, "|", info.fingerprint, "|", info.bytes, "|", info.tokens,
                                  "|", info.chunks, "|", info.sha256, "\n");
  dump += *store.ReadText(info.owner, 0, info.bytes);
  const auto put = [&dump](const void* data, size_t bytes) {
    dump.append(static_cast<const char*>(data), bytes);
  };
  const std::vector<int32_t> tokens = *store.ReadTokens(info.owner, 0, info.tokens);
  put(tokens.data(), tokens.size() * sizeof(tokens[0]));
  if (d_r > 0) {
    const std::vector<Bf16> keys = *store.ReadLandmarkKeys(info.owner, info.chunks, d_r);
    put(keys.data(), keys.size() * sizeof(keys[0]));
  }
  std::vector<ChunkRef> refs;
  for (int64_t i = 0; i < info.chunks; ++i) refs.push_back({info.owner, i});
  for (const absl::StatusOr<store::ChunkRecord>& chunk : store.ReadChunks(refs)) {
    dump += absl::StrCat("|", chunk->rows, ",", chunk->text_begin, ",", chunk->text_end, "|");
    put(chunk->states.data(), chunk->states.size() * sizeof(chunk->states[0]));
  }
  for (int64_t i = 0; i * store::kStatePartBytes < info.state_bytes; ++i) {
    dump += *store.ReadStatePart(info.owner, i);
  }
  return dump;
}

}  // namespace recollect::engine
