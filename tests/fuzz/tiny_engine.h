// An engine of a very small model over a store in memory, made once per process.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "engine/backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/cpu/cpu_model.h"
#include "store/document_store.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/tiny_model.h"

namespace recollect::fuzz {

struct TinyEngine {
  std::shared_ptr<const model::CpuModel> model;
  store::DocumentStore* store;  // of the engine
  std::unique_ptr<engine::Engine> engine;
};

// Makes an engine whose states have some hundred bytes, and that commits after every block.
inline TinyEngine MakeTinyEngine(model::ModelConfig config) {
  config.heads = config.kv_heads = config.memory_kv_heads = 1;
  config.head_dim = 4;
  config.d = config.ffn = config.d_r = 8;
  TinyEngine tiny;
  const std::string directory = absl::StrCat(std::filesystem::temp_directory_path().string(),
                                             "/fuzz_", config.architecture, "_", getpid());
  WriteTinyModel(directory, config, /*seed=*/1);
  auto model = model::CpuModel::Load(directory);
  std::filesystem::remove_all(directory);
  RECOLLECT_CHECK(model.ok());
  tiny.model = *std::move(model);
  auto store = store::CreateMemoryStore();
  tiny.store = store.get();
  auto engine = engine::Engine::Create({.ingest_slice_tokens = 64, .commit_tokens = 64},
                                       engine::OnCpu(tiny.model, 1), std::move(store));
  RECOLLECT_CHECK(engine.ok());
  tiny.engine = *std::move(engine);
  return tiny;
}

inline const TinyEngine& TinyDrt() {
  static const TinyEngine& tiny = *new TinyEngine([] {
    model::ModelConfig config = TinyConfig();
    config.lexicon = {.d = 4, .reach = 8};
    config.local = model::LocalPattern{.window = 7, .dilation = 16, .initial = 0, .span = 64};
    return MakeTinyEngine(config);
  }());
  return tiny;
}

inline const TinyEngine& TinyRatPlus() {
  static const TinyEngine& tiny = *new TinyEngine(MakeTinyEngine(TinyRatPlusConfig()));
  return tiny;
}

// Waits for the one answer of `call(done)`.
template <typename T, typename Call>
absl::StatusOr<T> Await(const Call& call) {
  std::promise<absl::StatusOr<T>> answer;
  call([&](absl::StatusOr<T> result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

inline absl::StatusOr<engine::IngestStatus> Append(engine::IngestStream& stream, int64_t offset,
                                                   std::string text) {
  return Await<engine::IngestStatus>(
      [&](auto done) { stream.Append(offset, std::move(text), std::move(done)); });
}

inline absl::StatusOr<store::DocumentInfo> Finish(engine::IngestStream& stream) {
  return Await<store::DocumentInfo>([&](auto done) { stream.Finish(std::move(done)); });
}

}  // namespace recollect::fuzz
