#include "engine/ingest/resume_state.h"
#include "tests/engine/ingest/ingest_parts.h"

namespace recollect::engine {
namespace {

TEST(PendingCommitTest, TakesWhatIsEncodedAndWhereToGoOn) {
  IngestParts parts;
  const store::IngestProgress begun = parts.Begin();
  const auto encoder = parts.Encoder(begun);
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(300, 5));
  PendingCommit pending(parts.context, begun);
  pending.Add(parts.Encode(*encoder, queue, 252));
  EXPECT_FALSE(pending.IsFull(queue));
  pending.Add(parts.Encode(*encoder, queue, 1));
  EXPECT_TRUE(pending.IsFull(queue));
  EXPECT_EQ(pending.chunks(), 5);

  const store::IngestBatch batch = pending.Take(queue, "layers");
  EXPECT_TRUE(pending.running());
  EXPECT_FALSE(pending.IsFull(queue));
  EXPECT_EQ(batch.chunks.size(), 5);
  EXPECT_EQ(batch.tokens.size(), 300);
  EXPECT_EQ(batch.input_offset, 300);
  const absl::StatusOr<ResumeState> state = DecodeResumeState(batch.resume_state);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->tokens, 300);
  EXPECT_EQ(state->local_state, "layers");
  EXPECT_EQ(pending.committed_offset(), 0);
  pending.Committed(batch.input_offset);
  EXPECT_FALSE(pending.running());
  EXPECT_EQ(pending.committed_offset(), 300);
  EXPECT_TRUE(pending.Take(queue, std::nullopt).chunks.empty());
}

TEST(PendingCommitTest, TheLastBatchHasTheAppendPoint) {
  IngestParts parts;
  const store::IngestProgress begun = parts.Begin();
  const auto encoder = parts.Encoder(begun);
  PendingCommit pending(parts.context, begun);
  EXPECT_FALSE(pending.MayKeepAppendPoint(IngestParts::QueueOf(SampleTokens(1000, 5))));
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(1100, 5));
  ASSERT_TRUE(pending.MayKeepAppendPoint(queue));
  EXPECT_FALSE(pending.pause().has_value());
  pending.EndOpen(queue);
  EXPECT_EQ(pending.pause(), 1100);
  pending.Add(parts.Encode(*encoder, queue, 1071));
  pending.TakeAppendPoint(queue, "small");
  EXPECT_FALSE(pending.pause().has_value());
  const store::IngestBatch batch = pending.Take(queue, std::nullopt);
  EXPECT_TRUE(batch.resume_state.empty());
  EXPECT_FALSE(pending.running());
  store::DocumentInfo document;
  document.from_tokens = true;
  document.tokens = document.bytes = 1100;
  document.chunks = 18;
  const absl::StatusOr<AppendPoint> point = DecodeAppendPoint(batch.append_point, document);
  ASSERT_THAT(point, IsOk());
  EXPECT_EQ(point->chunks, 17);
  EXPECT_EQ(point->input_offset, 1071);
}

TEST(PendingCommitTest, AStateThatIsLargeBesideTheDocumentIsNoAppendPoint) {
  IngestParts parts;
  const store::IngestProgress begun = parts.Begin();
  const auto encoder = parts.Encoder(begun);
  PendingCommit pending(parts.context, begun);
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(63, 5));
  pending.Add(parts.Encode(*encoder, queue, 63));
  pending.EndOpen(queue);
  pending.TakeAppendPoint(queue, std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(pending.Take(queue, std::nullopt).append_point, "");
}

TEST(CommitWriterTest, WritesAndPublishes) {
  IngestParts parts;
  const store::IngestProgress begun = parts.Begin();
  const auto encoder = parts.Encoder(begun);
  PendingCommit pending(parts.context, begun);
  const CommitWriter writer(parts.context, begun.owner, R"({"a":1})");
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(300, 5));
  pending.Add(parts.Encode(*encoder, queue, 252));
  store::IngestBatch batch = pending.Take(queue, encoder->LocalState().value());
  ASSERT_THAT(writer.Commit(*encoder, batch), IsOk());
  EXPECT_EQ(parts.Begin().chunks, 4);
  pending.Add(parts.Encode(*encoder, queue, 1000));
  const auto info = writer.Publish(absl::OkStatus(), pending.Take(queue, std::nullopt));
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->tokens, 300);
  EXPECT_EQ(info->chunks, 5);
  EXPECT_EQ(info->metadata, R"({"a":1})");
}

// Refuses commits as a store does whose ingest another server has taken over.
class TakenOver final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::Status CommitIngest(OwnerId, const store::IngestBatch&) override {
    return absl::AbortedError("another writer");
  }
};

TEST(CommitWriterTest, ALostIngestIsNotWorthAnotherTry) {
  IngestParts parts(TinyModelForTest(), std::make_shared<TakenOver>(store::CreateMemoryStore()));
  const store::IngestProgress begun = parts.Begin();
  const auto encoder = parts.Encoder(begun);
  const CommitWriter writer(parts.context, begun.owner, {});
  store::IngestBatch batch;
  EXPECT_THAT(writer.Commit(*encoder, batch),
              StatusIs(absl::StatusCode::kFailedPrecondition, "commit: another writer"));
  EXPECT_THAT(writer.Publish(absl::DataLossError("state"), {}),
              StatusIs(absl::StatusCode::kDataLoss, "state"));
  EXPECT_EQ(parts.counters.data_loss_errors, 1);
}

}  // namespace
}  // namespace recollect::engine
