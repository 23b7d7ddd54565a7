#include "engine/ingest/ingest_encode.h"

#include "tests/engine/ingest/ingest_parts.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/reference_sequence.h"

namespace recollect::engine {
namespace {

TEST(IngestEncodeTest, SlicesAreWholeBlocksAndAtLeastOne) {
  const auto model = TinyModelForTest();
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(200, 5));
  const auto next = [&](bool final, int64_t most) {
    return NextSlice(*model, queue, final, std::nullopt, most);
  };
  EXPECT_EQ(next(false, 1).blocks, std::vector<int64_t>{63});
  EXPECT_EQ(next(false, 127).blocks, (std::vector<int64_t>{63, 63}));
  EXPECT_EQ(next(false, 1000).tokens, 189);
  EXPECT_EQ(next(true, 1000).tokens, 200);
  queue.MarkEncoded(189);
  EXPECT_EQ(next(false, 1).tokens, 0);  // the block's end is not decided
  EXPECT_EQ(next(true, 1).tokens, 11);
}

TEST(IngestEncodeTest, WhatIsOpenIsEncodedAfterThePause) {
  const auto model = TinyModelForTest();
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(200, 5));
  EXPECT_EQ(NextSlice(*model, queue, true, 130, 1000).tokens, 126);
  queue.MarkEncoded(126);
  EXPECT_EQ(NextSlice(*model, queue, false, 130, 1000).tokens, 0);
  EXPECT_EQ(NextSlice(*model, queue, true, 130, 1000).tokens, 74);
}

TEST(IngestEncodeTest, APrefixKeepsItsLastTokenForTheSession) {
  IngestParts parts(LoadRatPlusForTest("encode", TinyRatPlusConfig()));
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(40, 5));
  IngestSlice slice = NextSlice(*parts.model, queue, /*final=*/true, std::nullopt, 1000);
  EXPECT_EQ(slice.blocks, std::vector<int64_t>{39});
  EXPECT_EQ(slice.tokens, 40);
  const store::IngestProgress progress =
      *parts.store->BeginIngest("doc", "f", true, parts.model->config().local.Text());
  const auto encoder = parts.Encoder(progress);
  EXPECT_TRUE(parts.Encode(*encoder, queue, 1000).chunks.empty());
  EXPECT_EQ(queue.encoded(), 40);
  EXPECT_GT(parts.state_budget.used_bytes(), 0);
  store::IngestBatch batch;
  ASSERT_THAT(encoder->WriteState(batch), IsOk());
  EXPECT_GT(batch.state_bytes, 0);
  EXPECT_EQ(*encoder->LocalState(), "");
}

TEST(IngestEncodeTest, AnySlicesMakeTheRecordsOfTheModelRunInOneGo) {
  IngestParts parts;
  const std::vector<int32_t> tokens = SampleTokens(300, 5);
  const std::vector<model::EncodedChunk> expected = IngestReference(*parts.model, tokens);
  const store::IngestProgress begun = parts.Begin();
  for (const int64_t most : {1, 150, 1000}) {
    TokenQueue queue = IngestParts::QueueOf(tokens);
    const auto encoder = parts.Encoder(begun);
    size_t chunk = 0;
    while (queue.encoded() < queue.decided()) {
      const EncodedSlice slice = parts.Encode(*encoder, queue, most);
      std::vector<Bf16> keys;
      for (const store::ChunkRecord& record : slice.chunks) {
        EXPECT_EQ(record.states, expected[chunk].states);
        EXPECT_EQ(record.text_begin, static_cast<int64_t>(63 * chunk));
        const auto& key = expected[chunk++].landmark_key;
        keys.insert(keys.end(), key.begin(), key.end());
      }
      EXPECT_EQ(slice.landmark_keys, keys);
    }
    EXPECT_EQ(chunk, expected.size());
  }
}

TEST(IngestEncodeTest, GoesOnFromTheStateOfTheLayers) {
  IngestParts parts;
  const std::vector<int32_t> tokens = SampleTokens(189, 5);
  TokenQueue queue = IngestParts::QueueOf(tokens);
  const store::IngestProgress begun = parts.Begin();
  const auto first = parts.Encoder(begun);
  const EncodedSlice slice = parts.Encode(*first, queue, 126);
  store::IngestBatch batch;
  batch.chunks = slice.chunks;
  batch.landmark_keys = slice.landmark_keys;
  queue.Commit(batch);
  batch.resume_state = "state";
  ASSERT_THAT(parts.store->CommitIngest(begun.owner, batch), IsOk());
  const store::IngestProgress progress = parts.Begin();
  ASSERT_EQ(progress.chunks, 2);
  const auto second = parts.Encoder(progress, {.tokens = 126, .local_state = *first->LocalState()});
  const EncodedSlice rest = parts.Encode(*second, queue, 1000);
  ASSERT_EQ(rest.chunks.size(), 1);
  EXPECT_EQ(rest.chunks[0].states, IngestReference(*parts.model, tokens)[2].states);
}

TEST(IngestEncodeTest, TextHasRangesAndNoStates) {
  IngestParts parts(TextModelForTest());
  TokenQueue queue = IngestParts::QueueOf(SampleTokens(100, 5));
  const auto encoder = parts.Encoder(parts.Begin());
  const EncodedSlice slice = parts.Encode(*encoder, queue, 1000);
  ASSERT_GE(slice.chunks.size(), 2);
  EXPECT_EQ(slice.chunks.front().text_begin, 0);
  EXPECT_EQ(slice.chunks.back().text_end, 100);
  EXPECT_TRUE(slice.chunks.front().states.empty() && slice.landmark_keys.empty());
  EXPECT_THAT(SliceEncoder::Create(parts.context, parts.model->config().local,
                                   {.local_state = "layers"}, parts.Begin()),
              StatusIs(absl::StatusCode::kDataLoss, "of a document that none reads"));
}

}  // namespace
}  // namespace recollect::engine
