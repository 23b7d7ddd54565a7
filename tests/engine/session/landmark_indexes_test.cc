// Indexes over landmark keys: made in the background, kept in the store, used, and never in the
// way.
#include "engine/session/landmark_indexes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/faiss_lists.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;

constexpr int64_t kTextBytes = 60000;

// Waits until it is let go, or cancelled.
class HeldMaker final : public ListMaker {
 public:
  explicit HeldMaker(std::shared_ptr<ListMaker> maker) : maker_(std::move(maker)) {}
  absl::StatusOr<LandmarkLists> Make(std::span<const Bf16> keys, int64_t d_k,
                                     const std::function<bool()>& cancelled) override {
    if (!begun_.exchange(true)) begins_.set_value();
    while (held) {
      if (cancelled()) return absl::CancelledError("held");
      std::this_thread::yield();
    }
    return maker_->Make(keys, d_k, cancelled);
  }
  void AwaitBegin() { begins_.get_future().wait(); }

  std::atomic<bool> held{true};

 private:
  const std::shared_ptr<ListMaker> maker_;
  std::atomic<bool> begun_{false};
  std::promise<void> begins_;
};

std::shared_ptr<ListMaker> Faiss() {
  return std::make_shared<FaissListMaker>(TinyModelForTest()->config().d_r);
}

TestOptions Indexed(std::shared_ptr<ListMaker> lists = Faiss()) {
  TestOptions options = SmallOptions();
  options.index = IndexMode::kIvf;
  options.index_least_chunks = 100;
  options.lists = std::move(lists);
  return options;
}

// So many hits that all keys are scored: what an exact search finds, by way of the lists.
std::vector<Retrieval> AllHits(Engine& engine, const std::vector<std::string>& mounts) {
  RetrieveRequest request = RetrieveOf(SampleTokens(40, 3), mounts);
  request.k = 30;
  const auto found = Retrieve(engine, request);
  EXPECT_THAT(found, IsOk());
  return found.value_or(std::vector<Retrieval>());
}

void ExpectSame(const std::vector<Retrieval>& a, const std::vector<Retrieval>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  // Of the first group: the second reads what the first has found, which may be less.
  ASSERT_EQ(a[0].hits.size(), b[0].hits.size());
  for (size_t i = 0; i < a[0].hits.size(); ++i) {
    EXPECT_EQ(a[0].hits[i].document, b[0].hits[i].document);
    EXPECT_EQ(a[0].hits[i].chunk, b[0].hits[i].chunk);
    EXPECT_EQ(a[0].hits[i].score, b[0].hits[i].score);
  }
}

GenerateRequest Ask(std::vector<std::string> mounts) {
  return TokensRequest(SampleTokens(50, 9), 70, std::move(mounts));
}

TEST(LandmarkIndexesTest, LargeDocumentsGetOneWhenTheyArePublishedAndAreSearchedThroughIt) {
  const auto exact = MakeEngine();
  const auto engine = MakeEngine(Indexed());
  for (Engine* each : std::initializer_list<Engine*>{exact.get(), engine.get()}) {
    ASSERT_THAT(Ingest(*each, "big", SampleText(kTextBytes, 1)), IsOk());
    ASSERT_THAT(Ingest(*each, "large", SampleText(kTextBytes, 4)), IsOk());
    ASSERT_THAT(Ingest(*each, "small", SampleText(2000, 2)), IsOk());
  }
  ASSERT_GE(engine->GetDocument("big")->chunks, 300);
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().index, "ivf");
  EXPECT_EQ(engine->stats().indexes_made, 2);
  EXPECT_EQ(engine->stats().indexed_documents, 0) << "none is mounted";
  const std::vector<std::string> mounts = {"big", "small", "large"};
  ExpectSame(AllHits(*engine, mounts), AllHits(*exact, mounts));
  EXPECT_EQ(engine->stats().indexed_documents, 2);
  EXPECT_EQ(exact->stats().index, "exact");
  EXPECT_EQ(exact->stats().indexed_documents, 0);
  const Generated generated = Generate(*engine, Ask(mounts));
  EXPECT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.tokens.size(), 70u);
  EXPECT_FALSE(generated.retrievals.empty());
}

// The file has no index: one is made, as for a document that was read here.
TEST(LandmarkIndexesTest, AnImportedDocumentGetsOne) {
  const auto exact = MakeEngine();
  const auto engine = MakeEngine(Indexed());
  ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
  engine->indexes_for_test().AwaitForTest();
  const auto file = [](Engine& from) {
    const auto out = from.ExportDocument("big").value();
    std::string all;
    for (std::string part = out->Next().value(); !part.empty(); part = out->Next().value())
      all += part;
    return all;
  };
  const std::string with_index = file(*engine);
  const auto import = [&](Engine& to, const std::string& id) {
    const auto in = to.ImportDocument(id).value();
    EXPECT_THAT(in->Append(with_index), IsOk());
    EXPECT_THAT(in->Finish(), IsOk());
  };
  import(*exact, "big");
  EXPECT_EQ(file(*exact).size(), with_index.size());
  import(*engine, "copy");
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().indexes_made, 2);
  const auto hits = AllHits(*engine, {"copy"});
  EXPECT_EQ(engine->stats().indexed_documents, 1);
  const auto expected = AllHits(*exact, {"big"});
  ASSERT_EQ(hits.size(), expected.size());
  ASSERT_EQ(hits[0].hits.size(), expected[0].hits.size());
  for (size_t i = 0; i < hits[0].hits.size(); ++i)
    EXPECT_EQ(hits[0].hits[i].chunk, expected[0].hits[i].chunk);
}

TEST(LandmarkIndexesTest, ADocumentIsSearchedExactlyUntilItsIndexIsMade) {
  const auto maker = std::make_shared<HeldMaker>(Faiss());
  const auto engine = MakeEngine(Indexed(maker));
  ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
  maker->AwaitBegin();
  const auto session = engine->OpenSession({.mounts = {"big"}});
  ASSERT_THAT(session, IsOk());
  const auto before = AllHits(*engine, {"big"});
  EXPECT_EQ(engine->stats().indexed_documents, 0);
  const int64_t bytes = engine->stats().landmark_bytes;
  maker->held = false;
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().indexed_documents, 1) << "mounted meanwhile";
  EXPECT_EQ(engine->stats().landmark_bytes, bytes / 2) << "room for making it is given back";
  ExpectSame(AllHits(*engine, {"big"}), before);
  GenerateRequest request = Ask({});
  request.session_options = {};
  request.session = *session;
  EXPECT_THAT(Generate(*engine, request).status, IsOk());
}

TEST(LandmarkIndexesTest, ADocumentThatIsDeletedWhileItIsMadeIsFreed) {
  const auto maker = std::make_shared<HeldMaker>(Faiss());
  const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  const auto engine = MakeEngine(Indexed(maker), std::make_unique<ForwardingStore>(store));
  const auto info = Ingest(*engine, "big", SampleText(kTextBytes, 1));
  ASSERT_THAT(info, IsOk());
  maker->AwaitBegin();
  ASSERT_THAT(engine->DeleteDocument("big"), IsOk());
  engine->indexes_for_test().AwaitForTest();
  AwaitBackground(*engine);
  EXPECT_THAT(store->ReadText(info->owner, 0, 0), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_EQ(engine->stats().indexes_made, 0);
  EXPECT_EQ(engine->stats().landmark_bytes, 0);
  // Another document of that name gets one of its own.
  maker->held = false;
  ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 2)), IsOk());
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().indexes_made, 1);
}

TEST(LandmarkIndexesTest, AnEngineEndsWhileOneIsMade) {
  const auto maker = std::make_shared<HeldMaker>(Faiss());
  const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  auto engine = MakeEngine(Indexed(maker), std::make_unique<ForwardingStore>(store));
  const auto info = Ingest(*engine, "big", SampleText(kTextBytes, 1));
  ASSERT_THAT(info, IsOk());
  maker->AwaitBegin();
  engine = nullptr;
  EXPECT_THAT(store->ReadIndex(info->owner), StatusIs(StatusCode::kNotFound, ""));
}

TEST(LandmarkIndexesTest, WithoutRoomForMakingItADocumentIsSearchedExactly) {
  const auto measuring = MakeEngine();
  ASSERT_THAT(Ingest(*measuring, "big", SampleText(kTextBytes, 1)), IsOk());
  const auto exact = AllHits(*measuring, {"big"});
  const auto maker = std::make_shared<HeldMaker>(Faiss());
  TestOptions options = Indexed(maker);
  options.landmark_budget_bytes = measuring->stats().landmark_bytes;  // of those keys, once
  const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  const auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store));
  ASSERT_THAT(Ingest(*engine, "small", SampleText(2000, 2)), IsOk());
  ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
  maker->AwaitBegin();  // nothing is mounted: it has the room
  ExpectSame(AllHits(*engine, {"big"}), exact);
  EXPECT_EQ(engine->stats().landmark_bytes, 2 * options.landmark_budget_bytes)
      << "the mount is not refused";
  maker->held = false;
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().indexes_made, 1);

  ASSERT_THAT(store->PutIndex(engine->GetDocument("big")->owner, "damaged"), IsOk());
  ASSERT_FALSE(AllHits(*engine, {"small"}).empty());  // the other's keys make room
  AwaitBackground(*engine);
  const auto session = engine->OpenSession({.mounts = {"big"}});
  ASSERT_THAT(session, IsOk());
  engine->indexes_for_test().AwaitForTest();
  EXPECT_EQ(engine->stats().indexes_made, 1) << "mounted, its keys fill the budget";
  EXPECT_EQ(engine->stats().indexed_documents, 0);
  ExpectSame(AllHits(*engine, {"big"}), exact);
}

class LandmarkIndexesRestartTest : public ::testing::Test {
 protected:
  LandmarkIndexesRestartTest() : directory_(::testing::TempDir() + "/indexes") {
    std::filesystem::remove_all(directory_);
  }
  ~LandmarkIndexesRestartTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<EngineImpl> Open(const TestOptions& options) {
    auto store = OpenStore();
    auto engine = MakeEngine(options, std::move(store));
    engine->indexes_for_test().AwaitForTest();
    return engine;
  }
  std::unique_ptr<store::DocumentStore> OpenStore() {
    store::RocksOptions options;
    options.directory = directory_;
    auto store = store::OpenRocksStore(options);
    EXPECT_THAT(store, IsOk());
    return *std::move(store);
  }

  // In the one table that has `bytes`, in their middle.
  void FlipByteOf(const std::string& bytes) {
    int found = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      if (file.path().extension() != ".sst") continue;
      std::ifstream in(file.path(), std::ios::binary);
      std::string content{std::istreambuf_iterator<char>(in), {}};
      const size_t at = content.find(bytes);
      if (at == std::string::npos) continue;
      ++found;
      content[at + bytes.size() / 2] ^= 0x10;
      std::ofstream(file.path(), std::ios::binary) << content;
    }
    ASSERT_EQ(found, 1);
  }

  const std::string directory_;
};

TEST_F(LandmarkIndexesRestartTest, AnIndexSurvivesARestartAndIsMadeForWhatIsThere) {
  TestOptions exact = Indexed();
  exact.index = IndexMode::kExact;
  std::vector<Retrieval> hits;
  std::vector<int32_t> tokens;
  {
    const auto engine = Open(exact);
    ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
    EXPECT_EQ(engine->stats().indexes_made, 0);
    hits = AllHits(*engine, {"big"});
    tokens = Generate(*engine, Ask({"big"})).tokens;
  }
  {
    const auto engine = Open(Indexed());
    EXPECT_EQ(engine->stats().indexes_made, 1);
    ExpectSame(AllHits(*engine, {"big"}), hits);
  }
  {
    const auto engine = Open(Indexed());
    EXPECT_EQ(engine->stats().indexes_made, 0) << "it is there";
    ExpectSame(AllHits(*engine, {"big"}), hits);
    EXPECT_EQ(engine->stats().indexed_documents, 1);
  }
  {
    TestOptions larger = Indexed();
    larger.index = IndexMode::kAuto;
    larger.index_least_chunks = 0;
    const auto engine = Open(larger);
    EXPECT_EQ(engine->stats().index, "auto");
    EXPECT_EQ(Generate(*engine, Ask({"big"})).tokens, tokens) << "too small: exact";
    EXPECT_EQ(engine->stats().indexed_documents, 0);
  }
  const auto engine = Open(exact);
  EXPECT_EQ(Generate(*engine, Ask({"big"})).tokens, tokens);
  EXPECT_EQ(engine->stats().indexed_documents, 0);
}

TEST_F(LandmarkIndexesRestartTest, ADamagedIndexIsMadeAgain) {
  std::vector<Retrieval> hits;
  OwnerId owner;
  {
    const auto engine = Open(Indexed());
    ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
    owner = engine->GetDocument("big")->owner;
    engine->indexes_for_test().AwaitForTest();
    hits = AllHits(*engine, {"big"});
  }
  std::string right;
  {
    const auto store = OpenStore();
    right = *store->ReadIndex(owner);
    std::string wrong = right;
    wrong[wrong.size() - 1] ^= 0x40;  // a chunk number: a bug of the writer, since it is sealed
    ASSERT_THAT(store->PutIndex(owner, wrong), IsOk());
  }
  {
    const auto engine = Open(Indexed());
    EXPECT_EQ(engine->stats().data_loss_errors, 1);
    EXPECT_EQ(engine->stats().indexes_made, 1);
    ExpectSame(AllHits(*engine, {"big"}), hits);
    EXPECT_EQ(engine->stats().indexed_documents, 1);
  }
  EXPECT_EQ(*OpenStore()->ReadIndex(owner), right);
}

// As the disk damages one: until it has been made again, the document is searched exactly.
TEST_F(LandmarkIndexesRestartTest, AnIndexThatIsDamagedOnTheDiskIsMadeAgain) {
  TestOptions exact = Indexed();
  exact.index = IndexMode::kExact;
  std::vector<Retrieval> hits;
  OwnerId owner;
  {
    const auto engine = Open(exact);
    ASSERT_THAT(Ingest(*engine, "big", SampleText(kTextBytes, 1)), IsOk());
    owner = engine->GetDocument("big")->owner;
    hits = AllHits(*engine, {"big"});
  }
  Open(Indexed());  // in a table of its own: the keys are in another one
  const std::string right = *OpenStore()->ReadIndex(owner);
  OpenStore();
  FlipByteOf(right);
  {
    const auto maker = std::make_shared<HeldMaker>(Faiss());
    const auto engine = MakeEngine(Indexed(maker), OpenStore());
    maker->AwaitBegin();
    ExpectSame(AllHits(*engine, {"big"}), hits);
    EXPECT_EQ(engine->stats().indexed_documents, 0);
    EXPECT_GE(engine->stats().data_loss_errors, 1);
    maker->held = false;
    engine->indexes_for_test().AwaitForTest();
    EXPECT_EQ(engine->stats().indexes_made, 1);
    EXPECT_EQ(engine->stats().indexed_documents, 1) << "mounted meanwhile";
    ExpectSame(AllHits(*engine, {"big"}), hits);
  }
  const auto engine = Open(Indexed());
  EXPECT_EQ(engine->stats().indexes_made, 0);
  EXPECT_EQ(engine->stats().data_loss_errors, 0);
  ExpectSame(AllHits(*engine, {"big"}), hits);
  EXPECT_EQ(engine->stats().indexed_documents, 1);
}

TEST(LandmarkIndexesOptionsTest, WithoutListsIvfIsRefused) {
  TestOptions options = Indexed(nullptr);
  options.index = IndexMode::kAuto;
  EXPECT_EQ(MakeEngine(options)->stats().index, "auto") << "and all is exact";
  options.index = IndexMode::kIvf;
  EXPECT_THAT(
      Engine::Create(options, OnCpu(TinyModelForTest(), 1), store::CreateMemoryStore()).status(),
      StatusIs(StatusCode::kFailedPrecondition, "landmark keys on cpu"));
}

}  // namespace
}  // namespace recollect::engine
