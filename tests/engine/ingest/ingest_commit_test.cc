// Commits that callers ask for.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNever = 1 << 20;  // tokens

TestOptions WithoutCommits() {
  TestOptions options = SmallOptions();
  options.commit_tokens = options.text_commit_tokens = kNever;
  return options;
}

struct Kind {
  const char* name;
  std::function<std::shared_ptr<const model::Model>()> load;
};

class IngestCommitsTest : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(
    Kinds, IngestCommitsTest,
    ::testing::Values(
        Kind{"Blocks", [] { return TinyModelForTest(); }},
        Kind{"Sentences", [] { return TinyModelForTest(1, /*min_chunk_tokens=*/24); }},
        Kind{"Text", [] { return TextModelForTest(); }},
        Kind{"Prefix", [] { return LoadRatPlusForTest("commits", TinyRatPlusConfig()); }}),
    [](const auto& param) { return std::string(param.param.name); });

// Each part in a stream of its own, from where the one before was committed.
TEST_P(IngestCommitsTest, PartsMakeTheRecordsOfOneStream) {
  const std::string text = SampleText(24000, 10);
  const auto model = GetParam().load();
  const auto dump = [&](int64_t part_bytes) {
    const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
    const auto engine =
        MakeEngine(WithoutCommits(), std::make_unique<ForwardingStore>(store), model);
    int64_t committed = 0;
    for (int parts = 1; committed + part_bytes < std::ssize(text); ++parts) {
      EXPECT_LT(parts, 40);
      const auto stream = *engine->BeginIngest("doc", /*from_tokens=*/false, {});
      EXPECT_EQ(stream->status().committed_offset, committed);
      EXPECT_TRUE(Append(*stream, committed, text.substr(committed, part_bytes)).ok());
      const auto status = Commit(*stream);
      EXPECT_TRUE(status.ok()) << status.status();
      EXPECT_GT(status->committed_offset, committed + part_bytes / 2);
      committed = status->committed_offset;
    }
    EXPECT_TRUE(Ingest(*engine, "doc", text).ok());
    return DumpDocument(*store, "doc", model->config().key_width());
  };
  const std::string whole = dump(kNever);
  EXPECT_TRUE(dump(9001) == whole);
  EXPECT_TRUE(dump(14000) == whole);
}

// Tells when it begins to commit, and goes on when it is told to.
class GatedCommits final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::Status CommitIngest(OwnerId owner, const store::IngestBatch& batch) override {
    begun.set_value();
    const absl::Status status = go_on.get_future().get();
    return status.ok() ? ForwardingStore::CommitIngest(owner, batch) : status;
  }
  std::promise<void> begun;
  std::promise<absl::Status> go_on;
};

// Whether a document is kept as text.
class IngestCommitTest : public ::testing::TestWithParam<bool> {
 protected:
  // Asks for a commit after a first piece, and returns while the store is at it.
  void Begin() {
    auto owned = std::make_unique<GatedCommits>(store::CreateMemoryStore());
    store_ = owned.get();
    engine_ = MakeEngine(WithoutCommits(), std::move(owned), Model());
    stream_ = *engine_->BeginIngest("doc", /*from_tokens=*/true, {});
    ASSERT_TRUE(AppendTokens(*stream_, 0, SampleTokens(300, 1)).ok());
    stream_->Commit([this](const auto& status) { answered_.set_value(status); });
    store_->begun.get_future().wait();
  }
  static std::shared_ptr<const model::Model> Model() {
    if (GetParam()) return TextModelForTest();
    return TinyModelForTest();
  }
  GatedCommits* store_;
  std::unique_ptr<EngineImpl> engine_;
  std::unique_ptr<IngestStream> stream_;
  std::promise<absl::StatusOr<IngestStatus>> answered_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, IngestCommitTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "Text" : "Chunks");
});

TEST_P(IngestCommitTest, UntilItIsAnsweredNothingElseIsTaken) {
  Begin();
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition, "the commit at offset 300"));
  };
  // The thread that refuses them waits for the store.
  std::promise<absl::Status> piece, commit, end;
  stream_->AppendTokens(300, {5}, [&](const auto& s) { piece.set_value(s.status()); });
  stream_->Commit([&](const auto& s) { commit.set_value(s.status()); });
  stream_->Finish([&](const auto& s) { end.set_value(s.status()); });
  store_->go_on.set_value(absl::OkStatus());
  expect_refused(piece.get_future().get());
  expect_refused(commit.get_future().get());
  expect_refused(end.get_future().get());
  const auto answer = answered_.get_future().get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  if (GetParam()) {
    EXPECT_GT(answer->committed_offset, 300 - 64) << "blocks of 32 to 63";
  } else {
    EXPECT_EQ(answer->committed_offset, 252) << "blocks of 63";
  }
  EXPECT_TRUE(Finish(*stream_).ok());
}

TEST_P(IngestCommitTest, OneThatFailsEndsTheStream) {
  Begin();
  store_->go_on.set_value(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(std::string(answered_.get_future().get().status().message()),
              HasSubstr("the disk is full"));
  EXPECT_EQ(AppendTokens(*stream_, 300, {5}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(IngestCommitTest, OneThatIsCancelledIsAnsweredAtOnce) {
  Begin();
  stream_->handle()->Cancel();
  EXPECT_EQ(answered_.get_future().get().status().code(), absl::StatusCode::kCancelled);
  store_->go_on.set_value(absl::OkStatus());
}

TEST(IngestCommitOfAPieceTest, MayBeAskedForInItsAnswer) {
  const auto engine = MakeEngine(WithoutCommits());
  const auto stream = *engine->BeginIngest("doc", /*from_tokens=*/true, {});
  std::promise<absl::StatusOr<IngestStatus>> committed;
  stream->AppendTokens(0, SampleTokens(1000, 1), [&](const auto&) {
    stream->Commit([&](const auto& status) { committed.set_value(status); });
  });
  EXPECT_EQ(committed.get_future().get()->committed_offset, 945) << "blocks of 63";
  EXPECT_TRUE(Finish(*stream).ok());
  EXPECT_EQ(Commit(*stream).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace recollect::engine
