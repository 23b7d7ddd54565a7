// Mounts, budgets, deletion, damaged records.
#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/eventually.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Counts what is freed, and damages chunks when told to.
class FaultyStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::Status Free(OwnerId owner) override {
    ++freed;
    return ForwardingStore::Free(owner);
  }
  absl::Status FreeSession(OwnerId owner) override {
    ++freed_sessions;
    return ForwardingStore::FreeSession(owner);
  }
  std::vector<absl::StatusOr<store::ChunkRecord>> ReadChunks(
      std::span<const ChunkRef> refs) override {
    auto records = ForwardingStore::ReadChunks(refs);
    if (damaged && !records.empty()) {
      records.back() = absl::DataLossError("chunk 3: checksum differs");
    }
    return records;
  }
  absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin, int64_t end,
                                                         int64_t d_r) override {
    if (damaged_keys) return absl::DataLossError("landmark keys 0: checksum differs");
    return ForwardingStore::ReadLandmarkKeyRange(owner, begin, end, d_r);
  }
  absl::StatusOr<std::string> ReadText(OwnerId owner, int64_t begin, int64_t end) override {
    if (damaged) return absl::DataLossError("text piece 0: checksum differs");
    return ForwardingStore::ReadText(owner, begin, end);
  }
  absl::Status CommitIngest(OwnerId owner, const store::IngestBatch& batch) override {
    if (full) return absl::ResourceExhaustedError("the disk is full");
    return ForwardingStore::CommitIngest(owner, batch);
  }
  absl::Status PutSessionChunk(ChunkRef ref, const store::ChunkRecord& chunk) override {
    if (full) return absl::ResourceExhaustedError("the disk is full");
    return ForwardingStore::PutSessionChunk(ref, chunk);
  }
  std::atomic<int> freed{0}, freed_sessions{0};
  std::atomic<bool> damaged{false}, damaged_keys{false}, full{false};
};

struct Fixture {
  explicit Fixture(TestOptions options = SmallOptions()) {
    auto owned = std::make_unique<FaultyStore>(
        std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore()));
    store = owned.get();
    engine = MakeEngine(options, std::move(owned));
  }
  FaultyStore* store;
  std::unique_ptr<EngineImpl> engine;
};

GenerateRequest Ask(std::vector<std::string> mounts, int64_t max_tokens = 5) {
  GenerateRequest request;
  request.session_options.mounts = std::move(mounts);
  request.prompt.text = "where is the whale?";
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.with_retrievals = true;
  return request;
}

TEST(DocumentsTest, ADocumentOfOneTokenCanBeMounted) {
  Fixture f;
  ASSERT_TRUE(IngestTokens(*f.engine, "one", {10}).ok());
  const Generated generated = Generate(*f.engine, Ask({"one"}));
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_EQ(generated.retrievals[0].hits[0].document, "one");
  EXPECT_EQ(generated.retrievals[0].hits[0].weight, 1);
}

TEST(DocumentsTest, LandmarkBudgetNamesBothSizesAndForgetsUnmountedKeys) {
  TestOptions options = SmallOptions();
  const int64_t key_bytes = TinyModelForTest()->config().key_width() * 2;
  options.landmark_budget_bytes = 12 * key_bytes;
  Fixture f(options);
  ASSERT_TRUE(IngestTokens(*f.engine, "a", SampleTokens(10 * 63, 1)).ok());
  ASSERT_TRUE(IngestTokens(*f.engine, "b", SampleTokens(10 * 63, 2)).ok());
  ASSERT_TRUE(IngestTokens(*f.engine, "big", SampleTokens(13 * 63, 3)).ok());
  const auto a = f.engine->OpenSession({.mounts = {"a"}});
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(f.engine->stats().landmark_bytes, 10 * key_bytes);
  const absl::Status full = f.engine->OpenSession({.mounts = {"b"}}).status();
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, std::to_string(10 * key_bytes)));
  EXPECT_THAT(std::string(full.message()), HasSubstr(std::to_string(12 * key_bytes)));
  const auto shared = f.engine->OpenSession({.mounts = {"a"}});
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(f.engine->stats().landmark_bytes, 10 * key_bytes);
  ASSERT_TRUE(f.engine->CloseSession(*a).ok());
  ASSERT_TRUE(f.engine->CloseSession(*shared).ok());
  AwaitBackground(*f.engine);
  EXPECT_TRUE(f.engine->OpenSession({.mounts = {"b"}}).ok())
      << "an unmounted document's keys make room";
  EXPECT_EQ(f.engine->OpenSession({.mounts = {"big"}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(DocumentsTest, ADeletedDocumentStaysWithItsSessions) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(5000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*f.engine, Ask({"doc"}, 100)).tokens;
  const SessionId session = *f.engine->OpenSession({.mounts = {"doc"}});
  f.engine->tiers_for_test().Drop();
  ASSERT_TRUE(f.engine->DeleteDocument("doc").ok());
  EXPECT_EQ(f.engine->OpenSession({.mounts = {"doc"}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(f.engine->GetDocument("doc").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(f.engine->ReadText("doc", 0, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(f.engine->DeleteDocument("doc").code(), absl::StatusCode::kNotFound);
  GenerateRequest request = Ask({}, 100);
  request.session = session;
  EXPECT_EQ(Generate(*f.engine, request).tokens, expected);
  EXPECT_EQ(f.store->freed, 0);
  // The id is free for another document at once.
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(700, 2)).ok());
  ASSERT_TRUE(f.engine->CloseSession(session).ok());
  AwaitBackground(*f.engine);
  EXPECT_EQ(f.store->freed, 1);
  EXPECT_TRUE(f.engine->DeleteDocument("doc").ok());
  AwaitBackground(*f.engine);
  EXPECT_EQ(f.store->freed, 2);
}

TEST(DocumentsTest, DamagedChunksEndTheRequestAndAreCounted) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(5000, 1)).ok());
  const SessionId session = *f.engine->OpenSession({.mounts = {"doc"}});
  f.store->damaged = true;
  GenerateRequest request = Ask({});
  request.session = session;
  const Generated generated = Generate(*f.engine, request);
  EXPECT_EQ(generated.status.code(), absl::StatusCode::kDataLoss) << generated.status;
  EXPECT_TRUE(generated.tokens.empty());
  EXPECT_EQ(f.engine->stats().data_loss_errors, 1);
  f.store->damaged = false;
  EXPECT_EQ(Generate(*f.engine, request).status.code(), absl::StatusCode::kDataLoss)
      << "the session's layers stand at different positions";
  EXPECT_TRUE(Generate(*f.engine, Ask({"doc"})).status.ok());
}

TEST(DocumentsTest, DamagedTextThatContentIsComparedWithIsCounted) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(5000, 1)).ok());
  f.store->damaged = true;
  EXPECT_EQ(Ingest(*f.engine, "doc", SampleText(5000, 1)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(f.engine->stats().data_loss_errors, 1);
}

// What the next rows read is evicted like anything else, and what follows is the same.
TEST(DocumentsTest, ASessionThatWaitsHoldsNoMemory) {
  const std::string directory = ::testing::TempDir() + "/documents";
  WriteTinyModel(directory, TinyConfig(), 1, /*sublayers=*/8);
  const auto engine = MakeEngine(SmallOptions(), nullptr, *model::CpuModel::Load(directory));
  ASSERT_TRUE(Ingest(*engine, "doc", SampleText(5000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*engine, Ask({"doc"}, 160)).tokens;
  GenerateRequest request = Ask({}, 40);
  request.session = *engine->OpenSession({.mounts = {"doc"}});
  std::vector<int32_t> tokens;
  for (int i = 0; i < 4; ++i) {
    const std::vector<int32_t> more = Generate(*engine, request).tokens;
    tokens.insert(tokens.end(), more.begin(), more.end());
    engine->tiers_for_test().Drop();
    EXPECT_TRUE(Eventually([&] { return engine->stats().memory_bytes == 0; }));
    request.prompt.text.clear();  // goes on
    request.flush = false;
  }
  EXPECT_EQ(tokens, expected);
}

TEST(DocumentsTest, DamagedLandmarkKeysCannotBeMounted) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(5000, 1)).ok());
  f.store->damaged_keys = true;
  EXPECT_EQ(Generate(*f.engine, Ask({"doc"})).status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(f.engine->stats().data_loss_errors, 1);
  EXPECT_EQ(f.engine->stats().landmark_bytes, 0);
  f.store->damaged_keys = false;
  EXPECT_TRUE(Generate(*f.engine, Ask({"doc"})).status.ok());
}

TEST(DocumentsTest, AFullDiskEndsTheIngestAndCanBeResumed) {
  Fixture f;
  const std::string text = SampleText(20000, 4);
  f.store->full = true;
  const absl::Status full = Ingest(*f.engine, "doc", text).status();
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, "the disk is full"));
  f.store->full = false;
  EXPECT_TRUE(Ingest(*f.engine, "doc", text).ok());
}

TEST(DocumentsTest, AStreamThatFailedDoesNotHoldItsId) {
  Fixture f;
  const std::string text = SampleText(20000, 4);
  f.store->full = true;
  auto silent = *f.engine->BeginIngest("doc", false, {});
  silent->Append(0, text, [](const auto&) {});
  // Its caller sends nothing that could be answered.
  EXPECT_TRUE(Eventually([&] {
    return Ingest(*f.engine, "doc", text).status().code() == absl::StatusCode::kResourceExhausted;
  }));
  f.store->full = false;
  EXPECT_TRUE(Eventually([&] { return Ingest(*f.engine, "doc", text).ok(); }));
}

TEST(DocumentsTest, ASessionThatAnErrorBrokeSaysThatItCanOnlyBeClosed) {
  Fixture f;
  const SessionId session = *f.engine->OpenSession({});
  GenerateRequest request = Ask({}, 100);
  request.session = session;
  f.store->full = true;
  EXPECT_EQ(Generate(*f.engine, request).status.code(), absl::StatusCode::kResourceExhausted);
  f.store->full = false;
  const absl::Status again = Generate(*f.engine, request).status;
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()),
              AllOf(HasSubstr("can only be closed"), HasSubstr("the disk is full")));
}

TEST(DocumentsTest, SessionsEndAfterTheirTimeAndFreeTheirChunks) {
  TestOptions options = SmallOptions();
  options.session_ttl = absl::Milliseconds(20);
  options.max_sessions = 2;
  Fixture f(options);
  const SessionId session = *f.engine->OpenSession({});
  GenerateRequest request = Ask({}, 100);
  request.session = session;
  ASSERT_TRUE(Generate(*f.engine, request).status.ok());
  EXPECT_TRUE(Eventually([&] { return f.engine->stats().sessions == 0; }));
  EXPECT_EQ(f.engine->GetSession(session).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Eventually([&] { return f.store->freed_sessions == 1; }));
}

}  // namespace
}  // namespace recollect::engine
