// Checks for the engine with its layers on a device, run over the kernels' thread blocks on the
// host and over a GPU alike.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/device/device_backend.h"
#include "kernels/device/device.h"
#include "kernels/gemm/gemm.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine::backend_checks {

using ModelPointer = std::shared_ptr<const model::Model>;

// Loads the tiny model with the same weights in bf16, for use on a device only: this CPU may lack
// bf16.
inline ModelPointer Bf16Model() {
  (void)TinyModelForTest();  // writes it
  auto model = model::Model::Load(TinyModelDirectory(), DType::kBf16);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

inline std::shared_ptr<Backend> Open(const std::shared_ptr<kernels::Device>& device,
                                     const ModelPointer& model = TinyModelForTest()) {
  (void)TinyModelForTest();  // writes the weights, which all of them share
  auto backend = DeviceBackend::Create(device, *model);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

inline TestOptions On(const std::shared_ptr<kernels::Device>& device,
                      const ModelPointer& model = TinyModelForTest()) {
  TestOptions options = SmallOptions();
  options.backend = Open(device, model);
  return options;
}

inline std::unique_ptr<EngineImpl> WithDocuments(const TestOptions& options,
                                                 const ModelPointer& model = TinyModelForTest()) {
  auto engine = MakeEngine(options, nullptr, model);
  EXPECT_TRUE(IngestTokens(*engine, "a", SampleTokens(30 * 63, 1)).ok());
  EXPECT_TRUE(IngestTokens(*engine, "b", SampleTokens(500, 2)).ok());
  return engine;
}

// A request with a prompt in slices, blocks that close, and retrieval of its own chunks and those
// of two documents. Odd seeds sample their tokens, and every fourth has a penalty on repetition
// (DRY).
inline GenerateRequest Ask(uint64_t seed = 7) {
  GenerateRequest request = TokensRequest(SampleTokens(200, seed), 100, {"a", "b"});
  if (seed % 2 == 1) {
    request.sampling = {.temperature = 0.8, .top_p = 0.9, .top_k = 50, .seed = seed};
  }
  if (seed % 4 == 0) request.sampling.dry_multiplier = 0.8;
  return request;
}

inline void ExpectSame(const Generated& generated, const Generated& expected) {
  ASSERT_EQ(generated.status, absl::OkStatus());
  EXPECT_EQ(generated.tokens, expected.tokens);
  ASSERT_EQ(generated.retrievals.size(), expected.retrievals.size());
  for (size_t i = 0; i < expected.retrievals.size(); ++i) {
    const std::vector<Hit>&a = generated.retrievals[i].hits, &b = expected.retrievals[i].hits;
    ASSERT_EQ(a.size(), b.size());
    for (size_t j = 0; j < b.size(); ++j) {
      EXPECT_EQ(a[j].document, b[j].document);
      EXPECT_EQ(a[j].chunk, b[j].chunk);
      EXPECT_NEAR(a[j].score, b[j].score, 1e-4);
    }
  }
}

inline void TheEngineGeneratesTheSameAsOnTheCpu(const std::shared_ptr<kernels::Device>& device) {
  const auto cpu = WithDocuments(SmallOptions()), engine = WithDocuments(On(device));
  EXPECT_EQ(cpu->stats().backend, "cpu");
  EXPECT_EQ(engine->stats().backend, device->name());
  for (const uint64_t seed : {7, 8}) {
    ExpectSame(Generate(*engine, Ask(seed)), Generate(*cpu, Ask(seed)));
  }
}

// Checks heads with patterns of their own, and a context stretched beyond training.
inline void PatternsByHeadAreThoseOfTheCpu(const std::shared_ptr<kernels::Device>& device) {
  const auto cpu = WithDocuments(SmallOptions()), engine = WithDocuments(On(device));
  GenerateRequest request = Ask();
  request.session_options.layer_dilations = {{8, 16}, {16}, {32, 8}, {8}, {16, 32}};
  ExpectSame(Generate(*engine, request), Generate(*cpu, request));
}

inline void TokensAreTheSameAloneTogetherAndCold(const std::shared_ptr<kernels::Device>& device,
                                                 const ModelPointer& model = TinyModelForTest()) {
  std::vector<Generated> alone;
  {
    const auto engine = WithDocuments(On(device, model), model);
    for (uint64_t seed = 7; seed < 11; ++seed) alone.push_back(Generate(*engine, Ask(seed)));
    engine->tiers_for_test().Drop();
    ExpectSame(Generate(*engine, Ask(7)), alone[0]);
  }
  TestOptions options = On(device, model);
  options.memory_budget_bytes = 0;  // every chunk is projected anew
  options.prefill_slice_tokens = 37;
  const auto engine = WithDocuments(options, model);
  std::vector<std::shared_ptr<Collector>> together;
  for (uint64_t seed = 7; seed < 11; ++seed) {
    together.push_back(std::make_shared<Collector>());
    engine->Generate(Ask(seed), together.back());
  }
  for (size_t i = 0; i < alone.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(together[i]->Wait().tokens, alone[i].tokens);
  }
}

inline void ADocumentHasTheSameBytesInAnySlices(const std::shared_ptr<kernels::Device>& device,
                                                const ModelPointer& model = TinyModelForTest()) {
  const std::string text = SampleText(9000, 3);
  const int64_t d_r = TinyModelForTest()->config().key_width();
  std::string expected;
  for (const int64_t slice : {64, 300, 2048}) {
    std::shared_ptr<store::DocumentStore> kept = store::CreateMemoryStore();
    TestOptions options = On(device, model);
    options.ingest_slice_tokens = slice;
    const auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(kept), model);
    ASSERT_TRUE(Ingest(*engine, "a", text).ok());
    const std::string bytes = DumpDocument(*kept, "a", d_r);
    if (expected.empty()) expected = bytes;
    EXPECT_EQ(bytes, expected) << slice;
  }
}

// Checks blocks of any length that begin at any position.
inline void BlocksThatEndWithSentencesAreThoseOfTheCpu(
    const std::shared_ptr<kernels::Device>& device) {
  const ModelPointer model = TinyModelForTest(1, /*min_chunk_tokens=*/24);
  const std::string text = SampleText(9000, 3);
  const auto on_cpu = MakeEngine(SmallOptions(), nullptr, model);
  const auto engine = MakeEngine(On(device, model), nullptr, model);
  const absl::StatusOr<store::DocumentInfo> expected = Ingest(*on_cpu, "a", text);
  const absl::StatusOr<store::DocumentInfo> document = Ingest(*engine, "a", text);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->chunks, expected->chunks);
  EXPECT_GT(document->chunks, document->tokens / 63 + 1);
  const GenerateRequest request = TokensRequest(SampleTokens(200, 8), 40, {"a"});
  EXPECT_EQ(Generate(*engine, request).tokens, Generate(*on_cpu, request).tokens);
}

// Checks that the state of what was committed comes back from the store.
inline void AnIngestGoesOnInAnotherEngine(const std::shared_ptr<kernels::Device>& device,
                                          const ModelPointer& model = TinyModelForTest()) {
  const std::vector<int32_t> tokens = SampleTokens(40 * 63 + 20, 4);
  const int64_t d_r = TinyModelForTest()->config().key_width();
  std::shared_ptr<store::DocumentStore> whole = store::CreateMemoryStore();
  std::shared_ptr<store::DocumentStore> parts = store::CreateMemoryStore();
  {
    const auto engine =
        MakeEngine(On(device, model), std::make_unique<ForwardingStore>(whole), model);
    ASSERT_TRUE(IngestTokens(*engine, "a", tokens).ok());
  }
  {
    const auto engine =
        MakeEngine(On(device, model), std::make_unique<ForwardingStore>(parts), model);
    auto stream = engine->BeginIngest("a", /*from_tokens=*/true, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    (*stream)->AppendTokens(0, {tokens.begin(), tokens.begin() + 25 * 63}, [](auto) {});
    engine->Shutdown(absl::Now() + absl::Seconds(20));
  }
  const auto engine =
      MakeEngine(On(device, model), std::make_unique<ForwardingStore>(parts), model);
  ASSERT_TRUE(IngestTokens(*engine, "a", tokens).ok());
  EXPECT_EQ(DumpDocument(*parts, "a", d_r), DumpDocument(*whole, "a", d_r));
}

}  // namespace recollect::engine::backend_checks
