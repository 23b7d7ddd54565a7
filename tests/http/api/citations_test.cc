#include "http/api/citations.h"

#include "tests/http/http_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using nlohmann::json;

class CitationsTest : public ::testing::Test {
 protected:
  engine::Hit HitOf(const std::string& document, int64_t begin, int64_t end, float weight) {
    const auto info = engine_.GetDocument(document);
    return {document,
            begin,
            1,
            weight,
            begin,
            end,
            engine::Tier::kMemory,
            info.ok() ? info->owner : OwnerId{}};
  }
  static engine::Retrieval At(int64_t position, std::vector<engine::Hit> hits) {
    return {position, 0, 100, std::move(hits)};
  }
  json Encode() {
    auto citations = citations_.Encode(engine_);
    EXPECT_TRUE(citations.ok()) << citations.status();
    return citations.ok() ? *citations : json();
  }
  std::vector<int64_t> Begins() {
    std::vector<int64_t> begins;
    for (const json& citation : Encode()) begins.push_back(citation["begin"]);
    return begins;
  }

  FakeEngine engine_;
  http::Citations citations_;
};

TEST_F(CitationsTest, BlocksAreListedByTheirLargestWeight) {
  engine_.AddDocument("d", std::string(100, 'x'));
  citations_.Add(At(64, {HitOf("d", 0, 10, 0.5f), HitOf("d", 10, 20, 0.25f)}));
  citations_.AnswerBegins();
  citations_.Add(At(128, {HitOf("d", 10, 20, 0.75f), HitOf("d", 20, 30, 0.0f)}));
  citations_.Add(At(128, {HitOf("d", 10, 20, 0.1f), HitOf("", 30, 40, 0.9f)}));
  EXPECT_EQ(Begins(), (std::vector<int64_t>{10, 0}));
  EXPECT_EQ(Encode()[0]["weight"], 0.75);
}

TEST_F(CitationsTest, WhatIsQuotedComesFirstWhateverItWeighs) {
  engine_.AddDocument("d", std::string(100, 'x'));
  engine::Hit quoted = HitOf("d", 30, 40, 0.0f);
  quoted.quote = "xx";
  engine::Retrieval recalled = At(63, {HitOf("d", 0, 10, 0.5f), quoted, HitOf("d", 50, 60, 0.0f)});
  recalled.nothing = 0.1f;
  citations_.Add(recalled);
  EXPECT_EQ(Begins(), (std::vector<int64_t>{30, 0}));
  EXPECT_EQ(Encode()[0]["quote"], "xx");
  EXPECT_EQ(Encode()[1]["quote"], nullptr);
}

// What an earlier part of the prompt retrieved was read by the prompt, not by the answer.
TEST_F(CitationsTest, OnlyTheLastRetrievalOfThePromptCounts) {
  engine_.AddDocument("d", std::string(100, 'x'));
  citations_.Add(At(64, {HitOf("d", 0, 10, 0.9f)}));
  citations_.Add(At(128, {HitOf("d", 10, 20, 0.5f)}));
  citations_.Add(At(128, {HitOf("d", 20, 30, 0.4f)}));  // another group's
  EXPECT_EQ(Begins(), (std::vector<int64_t>{10, 20}));
  citations_.AnswerBegins();
  citations_.Add(At(192, {HitOf("d", 30, 40, 0.3f)}));
  EXPECT_EQ(Begins(), (std::vector<int64_t>{10, 20, 30}));
}

// Blocks that stand in front of the prompt as text are read by the answer, whatever comes later.
TEST_F(CitationsTest, WhatWasPutInFrontOfThePromptCounts) {
  engine_.AddDocument("d", std::string(100, 'x'));
  engine::Retrieval text = At(200, {HitOf("d", 0, 10, 0.5f)});
  text.as_text = true;
  citations_.Add(text);
  citations_.Add(At(64, {HitOf("d", 10, 20, 0.9f)}));
  citations_.Add(At(128, {HitOf("d", 20, 30, 0.4f), HitOf("d", 0, 10, 0.6f)}));
  EXPECT_EQ(Begins(), (std::vector<int64_t>{0, 20}));
  EXPECT_FLOAT_EQ(Encode()[0]["weight"].get<float>(), 0.6f);
}

// Where nothing has a weight, too, blocks of next to none are not where the answer came from.
TEST_F(CitationsTest, BlocksBesideNothingNeedAWeight) {
  engine_.AddDocument("d", std::string(100, 'x'));
  EXPECT_FALSE(citations_.nothing().has_value());
  engine::Retrieval recalled = At(63, {HitOf("d", 0, 10, 0.04f), HitOf("d", 10, 20, 0.06f)});
  recalled.nothing = 0.9f;
  citations_.Add(recalled);
  EXPECT_EQ(Begins(), (std::vector<int64_t>{10}));
  EXPECT_EQ(citations_.nothing(), 0.9f);
}

TEST_F(CitationsTest, TextsAreOfWholeCharactersAndBounded) {
  engine_.AddDocument("d", "\u00e4\u00f6\u00fc" + std::string(9000, 'x'));
  citations_.Add(At(1, {HitOf("d", 1, 5, 0.5f), HitOf("d", 6, 9000, 0.25f)}));
  const json citations = Encode();
  EXPECT_EQ(citations[0]["text"], "\u00f6");
  EXPECT_EQ(citations[1]["text"], std::string(4096, 'x'));
  EXPECT_EQ(citations[1]["end"], 9000);
}

TEST_F(CitationsTest, ADocumentThatIsGoneOrAnotherHasNoText) {
  engine_.AddDocument("gone", std::string(20, 'x'));
  engine_.AddDocument("other", std::string(20, 'x'));
  citations_.Add(At(1, {HitOf("gone", 0, 10, 0.5f), HitOf("other", 0, 10, 0.25f)}));
  ASSERT_THAT(engine_.DeleteDocument("gone"), IsOk());
  engine_.AddDocument("other", std::string(20, 'y'));
  const json citations = Encode();
  ASSERT_EQ(citations.size(), 2u);
  for (const json& citation : citations) EXPECT_TRUE(citation["text"].is_null()) << citation;
}

TEST_F(CitationsTest, ThereAreNoMoreThanThirtyTwo) {
  engine_.AddDocument("d", std::string(1000, 'x'));
  std::vector<engine::Hit> hits;
  for (int64_t i = 0; i < 40; ++i)
    hits.push_back(HitOf("d", 10 * i, 10 * i + 10, 0.01f * static_cast<float>(40 - i)));
  citations_.Add(At(1, hits));
  const std::vector<int64_t> begins = Begins();
  ASSERT_EQ(begins.size(), 32u);
  EXPECT_EQ(begins.back(), 310);
}

TEST_F(CitationsTest, AnErrorOfTheDiskIsReturned) {
  engine_.AddDocument("d", std::string(100, 'x'));
  citations_.Add(At(1, {HitOf("d", 0, 10, 0.5f)}));
  engine_.Set({.error = absl::DataLossError("damaged")});
  EXPECT_THAT(citations_.Encode(engine_), StatusIs(absl::StatusCode::kDataLoss, "damaged"));
}

}  // namespace
}  // namespace recollect
