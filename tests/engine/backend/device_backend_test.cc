// The engine with its layers on a device, which is the host, running the thread blocks of the CUDA
// operations: what it generates and stores, and what it does when the device fails.
#include "engine/backend/device/device_backend.h"

#include <gmock/gmock.h>

#include <array>
#include <memory>

#include "tests/engine/backend/device_backend_checks.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using kernels::HostDevice;

TEST(DeviceBackendTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  backend_checks::TheEngineGeneratesTheSameAsOnTheCpu(std::make_shared<HostDevice>());
}

TEST(DeviceBackendTest, PatternsByHeadAreThoseOfTheCpu) {
  backend_checks::PatternsByHeadAreThoseOfTheCpu(std::make_shared<HostDevice>());
}

TEST(DeviceBackendTest, TokensAreTheSameAloneTogetherAndCold) {
  backend_checks::TokensAreTheSameAloneTogetherAndCold(std::make_shared<HostDevice>());
}

TEST(DeviceBackendTest, ADocumentHasTheSameBytesInAnySlices) {
  backend_checks::ADocumentHasTheSameBytesInAnySlices(std::make_shared<HostDevice>());
}

TEST(DeviceBackendTest, BlocksThatEndWithSentencesAreThoseOfTheCpu) {
  backend_checks::BlocksThatEndWithSentencesAreThoseOfTheCpu(std::make_shared<HostDevice>());
}

TEST(DeviceBackendTest, AnIngestGoesOnInAnotherEngine) {
  backend_checks::AnIngestGoesOnInAnotherEngine(std::make_shared<HostDevice>());
}

// Caches in bf16, attention on tensor cores.
TEST(Bf16DeviceBackendTest, TokensAreTheSameAloneTogetherAndCold) {
  backend_checks::TokensAreTheSameAloneTogetherAndCold(std::make_shared<HostDevice>(),
                                                       backend_checks::Bf16Model());
}

TEST(Bf16DeviceBackendTest, ADocumentHasTheSameBytesInAnySlices) {
  backend_checks::ADocumentHasTheSameBytesInAnySlices(std::make_shared<HostDevice>(),
                                                      backend_checks::Bf16Model());
}

// Logits are [vocab_size] for each token: more than what comes down for landmarks and chunks
// beside.
TEST(DeviceBackendTest, OfAChoiceOneNumberComesDown) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
  const auto downloaded = [&](const Sampling& sampling) {
    const int64_t before = device->downloaded_bytes();
    GenerateRequest request = backend_checks::Ask();
    request.sampling = sampling;
    const Generated generated = Generate(*engine, request);
    EXPECT_EQ(generated.status, absl::OkStatus());
    EXPECT_EQ(generated.tokens.size(), 100u);
    return device->downloaded_bytes() - before;
  };
  const int64_t logits = 100 * engine->model().config().vocab_size * int64_t{sizeof(float)};
  const int64_t greedy = downloaded({});
  EXPECT_LT(greedy, logits);
  EXPECT_EQ(downloaded({.temperature = 1, .top_p = 0.9, .top_k = 40, .seed = 5}), greedy);
}

// Of every chunk that was not on the device, whether the host had it or the store: none waits for
// its turn among the operations.
TEST(DeviceBackendTest, StatesOfFetchedChunksGoUpBesideTheOperations) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
  const auto fetched_and_sent = [&] {
    const EngineStats before = engine->stats();
    const int64_t sent = device->async_uploads();
    EXPECT_EQ(Generate(*engine, backend_checks::Ask()).status, absl::OkStatus());
    const EngineStats after = engine->stats();
    EXPECT_EQ(after.staged_chunks - before.staged_chunks, device->async_uploads() - sent);
    return std::array{after.chunk_hits_store - before.chunk_hits_store,
                      after.chunk_hits_states - before.chunk_hits_states,
                      device->async_uploads() - sent};
  };
  engine->tiers_for_test().Drop();
  const auto [store, host, sent] = fetched_and_sent();
  EXPECT_GT(store, 0);
  EXPECT_EQ(sent, store + host);
  engine->tiers_for_test().DropMemory();
  const auto [store_again, host_again, sent_again] = fetched_and_sent();
  EXPECT_EQ(store_again, 0);
  EXPECT_GT(host_again, 0);
  EXPECT_EQ(sent_again, host_again);
}

// Of the stages of each step, lower layers and groups.
TEST(DeviceBackendTest, ADecodeRunsAsGraphs) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
  const int64_t before = device->launches();
  EXPECT_EQ(Generate(*engine, backend_checks::Ask()).tokens.size(), 100u);
  const auto stages = static_cast<int64_t>(100 * (1 + engine->model().config().groups.size()));
  std::printf("%d of %d stages\n", static_cast<int>(device->launches() - before),
              static_cast<int>(stages));
  EXPECT_GE(device->launches() - before, stages * 8 / 10);
  EXPECT_EQ(engine->stats().graph_launches, device->launches());
}

TEST(DeviceBackendTest, MemoryComesBack) {
  const auto device = std::make_shared<HostDevice>();
  {
    const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
    EXPECT_EQ(Generate(*engine, backend_checks::Ask()).status, absl::OkStatus());
    const int64_t cached = engine->stats().memory_bytes;
    EXPECT_GT(cached, 0);
    EXPECT_GT(device->bytes(), cached);
  }
  EXPECT_EQ(device->buffers(), 0);
}

TEST(DeviceBackendTest, OutOfMemoryEndsWhatNeededItAndTheEngineGoesOn) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
  const Generated before = Generate(*engine, backend_checks::Ask());
  ASSERT_EQ(before.status, absl::OkStatus());
  engine->tiers_for_test().Drop();
  device->LimitBytes(0);  // what is there stays, and what goes makes no room
  const Generated full = Generate(*engine, backend_checks::Ask());
  EXPECT_THAT(full.status,
              StatusIs(absl::StatusCode::kResourceExhausted, "bytes of device memory"));
  EXPECT_EQ(IngestTokens(*engine, "c", SampleTokens(900, 5)).status().code(),
            absl::StatusCode::kResourceExhausted);
  device->LimitBytes(int64_t{1} << 30);
  const Generated after = Generate(*engine, backend_checks::Ask());
  ASSERT_EQ(after.status, absl::OkStatus());
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_TRUE(IngestTokens(*engine, "c", SampleTokens(900, 5)).ok());
}

TEST(DeviceBackendTest, ALostDeviceIsAStatusAndTheEngineStaysUp) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = backend_checks::WithDocuments(backend_checks::On(device));
  EXPECT_EQ(engine->health(), absl::OkStatus());
  device->LoseAfter(200);
  EXPECT_EQ(Generate(*engine, backend_checks::Ask()).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Generate(*engine, backend_checks::Ask()).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(IngestTokens(*engine, "c", SampleTokens(900, 5)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->health().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->ListDocuments("", 10)->size(), size_t{2});
}

TEST(DeviceBackendTest, AChoiceOfTooManyBlocksIsRefused) {
  const auto backend = backend_checks::Open(std::make_shared<HostDevice>());
  const model::LocalPatterns blocks = TinyModelForTest()->config().local.WithBlocks({.count = 258});
  for (const absl::Status& status :
       {backend->NewSequence(blocks).status(), backend->NewEncoder(blocks).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "top_k_blocks is 258, layers on a device allow 257"));
  }
}

TEST(DeviceBackendTest, AModelThatNoDeviceRunsIsRefused) {
  const std::string directory = ::testing::TempDir() + "/device_backend_wide";
  model::ModelConfig config = TinyConfig();
  config.head_dim = 130;
  WriteTinyModel(directory, config, 1);
  const auto model = model::CpuModel::Load(directory);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto backend = DeviceBackend::Create(std::make_shared<HostDevice>(), **model);
  EXPECT_THAT(backend.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "family drt on a device: heads of 130 channels, at most 128"));
}

// Tile attention has all heads of a key-value head in one tile.
TEST(DeviceBackendTest, TooManyHeadsOverOneAreRefusedInBf16) {
  model::ModelConfig config = TinyRatSwaConfig();
  config.heads = 72;
  config.kv_heads = 1;
  config.head_dim = 8;
  EXPECT_EQ(model::CheckDeviceConfig(config, DType::kFloat32), absl::OkStatus());
  EXPECT_THAT(model::CheckDeviceConfig(config, DType::kBf16),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "72 heads over each key-value head, at most 64"));
}

// ALiBi, landmarks at the end of their blocks that read what the one before them retrieved.
TEST(DeviceBackendTest, DrtAsPublishedIsThatOfTheCpu) {
  const std::string directory = ::testing::TempDir() + "/device_backend_paper";
  WriteTinyModel(directory, TinyDrtPaperConfig(), 1);
  auto loaded = model::CpuModel::Load(directory);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const backend_checks::ModelPointer model = *std::move(loaded);
  const auto device = std::make_shared<HostDevice>();
  TestOptions on_device = SmallOptions();
  on_device.backend = *DeviceBackend::Create(device, *model);
  const auto cpu = backend_checks::WithDocuments(SmallOptions(), model);
  const auto engine = backend_checks::WithDocuments(on_device, model);
  for (const uint64_t seed : {7, 8}) {
    backend_checks::ExpectSame(Generate(*engine, backend_checks::Ask(seed)),
                               Generate(*cpu, backend_checks::Ask(seed)));
  }
}

}  // namespace
}  // namespace recollect::engine
