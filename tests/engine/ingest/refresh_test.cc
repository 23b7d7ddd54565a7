// Documents that are read again under another model.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using LoadModel = std::function<std::shared_ptr<const model::Model>()>;

// From one model to another: of another kind, of another fingerprint.
struct Change {
  const char* name;
  LoadModel from, to;
};

std::shared_ptr<const model::Model> Prefix() {
  return LoadRatPlusForTest("refresh", TinyRatPlusConfig());
}
std::shared_ptr<const model::Model> Chunks() { return TinyModelForTest(); }
std::shared_ptr<const model::Model> OtherChunks() { return TinyModelForTest(2); }
std::shared_ptr<const model::Model> Text() { return TextModelForTest(); }
std::shared_ptr<const model::Model> OtherText() { return TextModelForTest(2); }

// Waits for the end of one.
struct Refreshed {
  absl::StatusOr<store::DocumentInfo> info = absl::UnknownError("not ended");
  std::vector<IngestStatus> progress;
};
Refreshed RunRefresh(Engine& engine, const std::string& id) {
  Refreshed result;
  std::promise<absl::StatusOr<store::DocumentInfo>> done;
  engine.RefreshDocument(
      id, {}, [&](const IngestStatus& status) { result.progress.push_back(status); },
      [&](const auto& info) { done.set_value(info); });
  result.info = done.get_future().get();
  return result;
}

class RefreshTest : public ::testing::TestWithParam<Change> {
 protected:
  std::unique_ptr<EngineImpl> Open(const LoadModel& load,
                                   const TestOptions& options = SmallOptions()) {
    return MakeEngine(options, std::make_unique<ForwardingStore>(store_), load());
  }
  std::string Dump(const std::string& id, const LoadModel& load) {
    return DumpDocument(*store_, id, load()->config().key_width());
  }
  void Ingested(const std::string& id) {
    ASSERT_THAT(Ingest(*Open(GetParam().from), id, text_), IsOk());
    before_ = *store_->Get(id);
  }
  // What the document is when its text is ingested under the second model.
  std::string Expected(const std::string& id) {
    const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
    const auto engine =
        MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), GetParam().to());
    EXPECT_THAT(Ingest(*engine, id, text_), IsOk());
    return DumpDocument(*store, id, GetParam().to()->config().key_width());
  }

  const std::string text_ = SampleText(10000, 3);
  std::shared_ptr<store::DocumentStore> store_ = store::CreateMemoryStore();
  store::DocumentInfo before_;
};

INSTANTIATE_TEST_SUITE_P(Models, RefreshTest,
                         ::testing::Values(Change{"ChunksToChunks", Chunks, OtherChunks},
                                           Change{"ChunksToText", Chunks, Text},
                                           Change{"TextToText", Text, OtherText},
                                           Change{"TextToChunks", Text, Chunks},
                                           Change{"TextToPrefix", Text, Prefix},
                                           Change{"PrefixToText", Prefix, Text}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(RefreshTest, GivesTheRecordsOfAnIngest) {
  Ingested("d");
  const auto engine = Open(GetParam().to);
  EXPECT_THAT(engine->OpenSession({.mounts = {"d"}}),
              StatusIs(StatusCode::kFailedPrecondition, "docs refresh"));
  const Refreshed refreshed = RunRefresh(*engine, "d");
  ASSERT_THAT(refreshed.info, IsOk());
  EXPECT_EQ(refreshed.info->fingerprint, engine->model().fingerprint());
  EXPECT_EQ(refreshed.info->created_unix_ms, before_.created_unix_ms);
  EXPECT_NE(refreshed.info->owner, before_.owner);
  EXPECT_THAT(refreshed.progress, SizeIs(1)) << "one piece";
  EXPECT_TRUE(Dump("d", GetParam().to) == Expected("d"));
  EXPECT_THAT(*engine->ListIngests(), IsEmpty());
  EXPECT_THAT(*engine->ListDocuments("", 10), SizeIs(1));
  EXPECT_THAT(engine->OpenSession({.mounts = {"d"}}), IsOk());
  AwaitBackground(*engine);
  EXPECT_THAT(store_->ReadText(before_.owner, 0, 1), StatusIs(StatusCode::kNotFound, ""))
      << "the old one is freed";
  // It is this model's now.
  const Refreshed again = RunRefresh(*engine, "d");
  ASSERT_THAT(again.info, IsOk());
  EXPECT_EQ(again.info->owner, refreshed.info->owner);
  EXPECT_THAT(again.progress, IsEmpty());
}

// Gives up after some commits: what a kill leaves is no more.
class BrokenStore final : public ForwardingStore {
 public:
  BrokenStore(std::shared_ptr<store::DocumentStore> to, int commits)
      : ForwardingStore(std::move(to)), left_(commits) {}
  absl::Status CommitIngest(OwnerId owner, const store::IngestBatch& batch) override {
    if (left_-- <= 0) return absl::UnavailableError("cut off");
    return ForwardingStore::CommitIngest(owner, batch);
  }

 private:
  std::atomic<int> left_;
};

TEST_P(RefreshTest, IsResumedAndTheOldDocumentStaysUntilTheEnd) {
  Ingested("d");
  const std::string old = Dump("d", GetParam().from);
  int64_t tokens = 0;
  for (int i = 0; i < 2; ++i) {
    const auto engine =
        MakeEngine(SmallOptions(), std::make_unique<BrokenStore>(store_, 1), GetParam().to());
    EXPECT_THAT(RunRefresh(*engine, "d").info, StatusIs(StatusCode::kUnavailable, "cut off"));
    const auto ingests = engine->ListIngests();
    ASSERT_THAT(*ingests, SizeIs(1));
    // Not the input's offset: text is decided some kilobytes at a time, of which a commit may have
    // a part.
    EXPECT_GT(ingests->front().tokens, tokens);
    tokens = ingests->front().tokens;
    EXPECT_EQ(*engine->ReadText("d", 0, std::ssize(text_)), text_);
    EXPECT_EQ(engine->GetDocument("d")->owner, before_.owner);
    EXPECT_TRUE(Dump("d", GetParam().from) == old);
  }
  EXPECT_THAT(Open(GetParam().from)->OpenSession({.mounts = {"d"}}), IsOk())
      << "by the model that read it";
  const auto engine = Open(GetParam().to);
  ASSERT_THAT(RunRefresh(*engine, "d").info, IsOk());
  EXPECT_TRUE(Dump("d", GetParam().to) == Expected("d"));
  EXPECT_LT(engine->stats().ingested_tokens, engine->GetDocument("d")->tokens) << "not all again";
}

TEST_P(RefreshTest, ForAThirdModelBeginsAnew) {
  Ingested("d");
  {
    const auto engine =
        MakeEngine(SmallOptions(), std::make_unique<BrokenStore>(store_, 1), TinyModelForTest(7));
    EXPECT_THAT(RunRefresh(*engine, "d").info, StatusIs(StatusCode::kUnavailable, "cut off"));
  }
  ASSERT_THAT(RunRefresh(*Open(GetParam().to), "d").info, IsOk());
  EXPECT_TRUE(Dump("d", GetParam().to) == Expected("d"));
}

TEST_P(RefreshTest, DoesNotGoOnWithAReplacementThatWasBrokenOff) {
  Ingested("d");
  {
    const auto engine = Open(GetParam().to);
    const auto stream = engine->BeginIngest("d", false, {}, {}, Replacement()).value();
    const std::string other = SampleText(15000, 4);
    ASSERT_THAT(Append(*stream, 0, other), IsOk());
    engine->Shutdown(absl::InfinitePast());  // What a server leaves that is stopped meanwhile.
    ASSERT_THAT(*store_->ListIngests(), SizeIs(1));
  }
  ASSERT_THAT(RunRefresh(*Open(GetParam().to), "d").info, IsOk());
  EXPECT_TRUE(Dump("d", GetParam().to) == Expected("d"));
}

TEST_P(RefreshTest, ADocumentThatIsDeletedMeanwhileStaysSo) {
  Ingested("d");
  {
    const auto engine =
        MakeEngine(SmallOptions(), std::make_unique<BrokenStore>(store_, 1), GetParam().to());
    EXPECT_FALSE(RunRefresh(*engine, "d").info.ok());
  }
  const auto engine = Open(GetParam().to);
  ASSERT_THAT(engine->DeleteDocument("d"), IsOk());
  EXPECT_THAT(*engine->ListIngests(), IsEmpty()) << "what was unfinished of it goes with it";
  EXPECT_THAT(RunRefresh(*engine, "d").info, StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(Ingest(*engine, "d", text_), IsOk());
}

TEST_P(RefreshTest, TokensCannotBeReadAgain) {
  {
    const auto engine = Open(GetParam().from);
    ASSERT_THAT(IngestTokens(*engine, "ids", SampleTokens(100, 1)), IsOk());
  }
  const auto engine = Open(GetParam().to);
  EXPECT_THAT(RunRefresh(*engine, "ids").info,
              StatusIs(StatusCode::kFailedPrecondition, "\"ids\" was ingested as token ids"));
  EXPECT_THAT(*engine->ListIngests(), IsEmpty());
}

TEST_P(RefreshTest, OneAtATimeAndOnlyUntilItsEnd) {
  Ingested("d");
  TestOptions options = SmallOptions();
  options.max_ingests = 1;
  const auto engine = Open(GetParam().to, options);
  {
    const auto other = *engine->BeginIngest("other", false, {});
    EXPECT_THAT(RunRefresh(*engine, "d").info,
                StatusIs(StatusCode::kResourceExhausted, "1 ingests are open"));
  }
  EXPECT_TRUE(absl::IsNotFound(engine->DeleteDocument("other")));  // its place is free afterwards
  ASSERT_THAT(RunRefresh(*engine, "d").info, IsOk());
  engine->Shutdown(absl::InfinitePast());
  EXPECT_THAT(RunRefresh(*engine, "d").info, StatusIs(StatusCode::kUnavailable, "shutting down"));
}

}  // namespace
}  // namespace recollect::engine
