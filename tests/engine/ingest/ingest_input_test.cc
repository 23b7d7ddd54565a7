#include "engine/ingest/ingest_input.h"

#include "model/text/tokenizer.h"
#include "tests/engine/ingest/ingest_parts.h"

namespace recollect::engine {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(IngestInputTest, TextInPiecesDecidesTheTokensOfTheWhole) {
  const auto model = TinyModelForTest();
  const std::string text = SampleText(20000, 3);
  const std::vector<int32_t> whole = *model->tokenizer()->Encode(text);
  for (const size_t size : {size_t{7}, size_t{1000}, text.size()}) {
    InputReader reader(*model, /*from_tokens=*/false, 0);
    TokenQueue queue(/*from_tokens=*/false, 0, 0, 0, {});
    const auto push = [&](DecidedTokens part) { queue.Push(std::move(part)); };
    for (size_t at = 0; at < text.size(); at += size) {
      const bool final = at + size >= text.size();
      ASSERT_THAT(reader.Read({.text = text.substr(at, size), .final = final}, push), IsOk());
    }
    const auto ids = queue.waiting(queue.decided());
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), whole) << size;
    queue.MarkEncoded(queue.decided());
    EXPECT_EQ(queue.text_end(), std::ssize(text));
    store::IngestBatch batch;
    queue.Commit(batch);
    EXPECT_EQ(batch.text, text);
  }
}

TEST(IngestInputTest, SmallTextsAreGathered) {
  const auto model = TinyModelForTest();
  InputReader reader(*model, /*from_tokens=*/false, 0);
  int64_t parts = 0;
  const auto count = [&](const DecidedTokens&) { ++parts; };
  ASSERT_THAT(reader.Read({.text = SampleText(1000, 3)}, count), IsOk());
  EXPECT_EQ(parts, 0);
  ASSERT_THAT(reader.DecideAll(count), IsOk());
  EXPECT_EQ(parts, 1);
}

TEST(IngestInputTest, RefusesReservedAndUnknownIds) {
  const auto model = TinyModelForTest();
  InputReader reader(*model, /*from_tokens=*/true, 0);
  const auto none = [](const DecidedTokens&) {};
  ASSERT_THAT(reader.Read({.tokens = {5, 6}}, none), IsOk());
  const model::ModelConfig& config = model->config();
  EXPECT_THAT(reader.Read({.tokens = {5, config.lmk_id}}, none),
              StatusIs(kInvalid, "token 3: id 1 is reserved"));
  EXPECT_THAT(reader.Read({.tokens = {static_cast<int32_t>(config.vocab_size)}}, none),
              StatusIs(kInvalid, "token 2: id"));
}

TEST(IngestInputTest, TextIsResumedAtTheEndOfAPart) {
  TokenQueue queue(/*from_tokens=*/false, 0, 0, 0, {});
  queue.Push({{5, 6, 7}, {1, 2, 1}, "abbc", 4});
  queue.Push({{8, 9}, {1, 1}, "de", 6});
  queue.MarkEncoded(2);
  EXPECT_EQ(queue.text_end(), 3);
  store::IngestBatch first, second;
  const TokenQueue::Place place = queue.Commit(first);
  EXPECT_EQ(first.tokens, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(first.text, "abbc");  // up to the place
  EXPECT_EQ(first.input_offset, 4);
  EXPECT_EQ(place.pending_ids, std::vector<int32_t>{7});
  EXPECT_EQ(queue.uncommitted(), 0);
  queue.MarkEncoded(3);
  EXPECT_TRUE(queue.Commit(second).pending_ids.empty());
  EXPECT_EQ(second.tokens, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(second.text, "de");
}

TEST(IngestInputTest, TokensAreResumedAnywhere) {
  TokenQueue queue = IngestParts::QueueOf({5, 6, 7, 8});
  queue.MarkEncoded(3);
  const TokenQueue::Place place = queue.place();
  EXPECT_EQ(place.input_offset, 3);
  EXPECT_EQ(place.text_end, 3);
  EXPECT_TRUE(place.pending_ids.empty());
}

}  // namespace
}  // namespace recollect::engine
