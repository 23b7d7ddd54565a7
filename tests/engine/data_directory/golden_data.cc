#include "tests/engine/data_directory/golden_data.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sha256.h"
#include "engine/backend/devices.h"
#include "gtest/gtest.h"
#include "model/weights/safetensors.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;

Tokens ReadGenerated(const std::string& folder, const std::string& name) {
  const auto file = model::SafetensorsFile::Open(folder + "/case.safetensors");
  RECOLLECT_CHECK(file.ok());
  const model::TensorInfo& tensor = file->tensors().at(name);
  Tokens tokens(static_cast<size_t>(tensor.bytes) / sizeof(int32_t));
  std::memcpy(tokens.data(), tensor.data, static_cast<size_t>(tensor.bytes));
  return tokens;
}

LayerNumbers ByLayer(const json& numbers) {
  LayerNumbers out;
  for (const json& layer : numbers) out.push_back(layer.get<std::vector<int64_t>>());
  return out;
}

template <typename T>
std::string Sha256Of(const std::vector<T>& values) {
  Sha256 hash;
  hash.Update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  return hash.Hex();
}

std::string ChunksSha256(store::DocumentStore& store, const store::DocumentInfo& info) {
  Sha256 hash;
  std::vector<ChunkRef> refs;
  for (int64_t i = 0; i < info.chunks; ++i) refs.push_back({info.owner, i});
  for (const auto& chunk : store.ReadChunks(refs)) {
    if (!chunk.ok()) return chunk.status().ToString();
    const int64_t numbers[] = {chunk->rows, chunk->text_begin, chunk->text_end};
    hash.Update({reinterpret_cast<const char*>(numbers), sizeof(numbers)});
    hash.Update(Sha256Of(chunk->states));
    hash.Update(Sha256Of(chunk->tokens));
  }
  return hash.Hex();
}

std::string StateSha256(store::DocumentStore& store, OwnerId owner, int64_t bytes) {
  Sha256 hash;
  for (int64_t i = 0; i * store::kStatePartBytes < bytes; ++i) {
    const auto part = store.ReadStatePart(owner, i);
    if (!part.ok()) return part.status().ToString();
    hash.Update(*part);
  }
  return hash.Hex();
}

// The value, or why there is none.
json OrError(const absl::StatusOr<std::string>& text) {
  return text.ok() ? *text : text.status().ToString();
}
// On one line.
json Joined(const absl::StatusOr<Tokens>& tokens) {
  return tokens.ok() ? absl::StrJoin(*tokens, " ") : tokens.status().ToString();
}
template <typename T>
json Sha256OrError(const absl::StatusOr<std::vector<T>>& values) {
  return values.ok() ? Sha256Of(*values) : values.status().ToString();
}

}  // namespace

std::string GoldenPath(const std::string& name) {
  return absl::StrCat(SourceDir(), "/tests/golden/data_directory/", name);
}

std::string ShippedModel() { return SourceDir() + "/models/recollect-7m"; }

GoldenCase ChunksCase() {
  GoldenCase golden;
  golden.model = absl::StrCat(SourceDir(), "/tests/golden/", kChunksCase);
  const json input = json::parse(ReadFile(golden.model + "/case.json"));
  golden.documents = input["documents"].get<std::vector<Tokens>>();
  golden.events = input["events"];
  golden.generated = ReadGenerated(golden.model, "generated");
  return golden;
}

GoldenCase PrefixCase() {
  GoldenCase golden;
  golden.model = absl::StrCat(SourceDir(), "/tests/golden/", kPrefixCase);
  const json input = json::parse(ReadFile(golden.model + "/case.json"));
  const json& asked = input["cases"][kPrefixPattern];
  golden.session.layer_dilations = ByLayer(asked["dilation"]);
  golden.session.layer_windows = ByLayer(asked["window"]);
  golden.session.initial = asked["initial"];
  const auto tokens = input["tokens"].get<Tokens>();
  const auto middle = tokens.begin() + std::ssize(tokens) / 2;
  golden.documents = {Tokens(tokens.begin(), middle)};
  golden.events[0]["tokens"] = Tokens(middle, tokens.end());
  golden.generated = ReadGenerated(golden.model, absl::StrCat("generated.", kPrefixPattern));
  return golden;
}

std::unique_ptr<Engine> OpenEngine(const std::string& model, const std::string& directory) {
  auto loaded = LoadModel("cpu", model, DType::kFloat32, 2);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  store::RocksOptions options;
  options.directory = directory;
  auto store = store::OpenRocksStore(options);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!loaded.ok() || !store.ok()) return nullptr;
  auto engine = Engine::Create({}, *std::move(loaded), *std::move(store));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

std::vector<int32_t> RunSession(Engine& engine, const GoldenCase& golden,
                                const std::vector<std::string>& mounts) {
  SessionOptions options = golden.session;
  options.mounts = mounts;
  const auto session = engine.OpenSession(options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  Generated result;
  for (size_t i = 0; i < golden.events.size(); ++i) {
    const json& event = golden.events[i];
    const bool last = i + 1 == golden.events.size();
    GenerateRequest turn;
    turn.session = *session;
    turn.flush = event.contains("flush") || last;
    turn.ignore_eos = true;
    turn.max_tokens = last ? std::ssize(golden.generated) : 0;
    if (event.contains("tokens")) turn.prompt.tokens = event["tokens"].get<Tokens>();
    result = Generate(engine, turn);
    EXPECT_TRUE(result.status.ok()) << result.status;
  }
  return result.tokens;
}

std::string Answer(Engine& engine, const std::string& document) {
  GenerateRequest request;
  request.session_options.mounts = {document};
  request.prompt.text = kQuestion;
  request.max_tokens = 6;
  const Generated result = Generate(engine, request);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.text;
}

json Contents(store::DocumentStore& store, const json& widths) {
  json documents = json::array();
  const auto listed = store.List("", 100);
  if (!listed.ok()) return listed.status().ToString();
  for (const store::DocumentInfo& info : *listed) {
    const int64_t width = widths.value(info.fingerprint, 0);
    documents.push_back({{"id", info.id},
                         {"fingerprint", info.fingerprint},
                         {"from_tokens", info.from_tokens},
                         {"bytes", info.bytes},
                         {"tokens", info.tokens},
                         {"chunks", info.chunks},
                         {"created_unix_ms", info.created_unix_ms},
                         {"stored_bytes", info.stored_bytes},
                         {"sha256", info.sha256},
                         {"pattern", info.pattern},
                         {"state_bytes", info.state_bytes},
                         {"text", OrError(store.ReadText(info.owner, 0, info.bytes))},
                         {"token_ids", Joined(store.ReadTokens(info.owner, 0, info.tokens))},
                         {"landmark_keys_sha256",
                          Sha256OrError(store.ReadLandmarkKeys(info.owner, info.chunks, width))},
                         {"chunk_states_sha256", ChunksSha256(store, info)},
                         {"state_sha256", StateSha256(store, info.owner, info.state_bytes)}});
  }
  json ingests = json::array();
  const auto unfinished = store.ListIngests();
  if (!unfinished.ok()) return unfinished.status().ToString();
  for (const store::IngestProgress& listed_ingest : *unfinished) {
    // As whoever resumes it.
    const auto ingest = store.BeginIngest(listed_ingest.id, listed_ingest.fingerprint,
                                          listed_ingest.from_tokens, listed_ingest.pattern);
    if (!ingest.ok()) return ingest.status().ToString();
    Sha256 resume;
    resume.Update(ingest->resume_state);
    ingests.push_back({{"id", ingest->id},
                       {"fingerprint", ingest->fingerprint},
                       {"from_tokens", ingest->from_tokens},
                       {"input_offset", ingest->input_offset},
                       {"tokens", ingest->tokens},
                       {"chunks", ingest->chunks},
                       {"token_ids", Joined(store.ReadTokens(ingest->owner, 0, ingest->tokens))},
                       {"resume_state_sha256", resume.Hex()}});
  }
  return {{"documents", documents}, {"ingests", ingests}};
}

}  // namespace recollect::engine
