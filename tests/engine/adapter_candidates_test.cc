// What answers are chosen among: sentences of the blocks that were read, judged and joined. The
// golden judge prefers long sentences of unlikely spans.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cpu/adapter_readers.h"
#include "engine/backend/cpu/compute_threads.h"
#include "gmock/gmock.h"
#include "model/judge.h"
#include "model/reranker.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/adapter_quotes_testing.h"

namespace recollect::engine {
namespace {

TEST_P(AdapterTest, TheBestCandidateIsSaid) {
  const auto engine = MakeWithDocument();
  const std::string text = TextOfDocument(*engine);
  int quoted = 0;
  for (int i = 0; i < 8; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_THAT(answer.status, IsOk());
    if (answer.candidates.empty()) continue;
    ASSERT_EQ(answer.candidates.size(), 1u);
    const JudgedCandidates& told = answer.candidates.front();
    EXPECT_LT(told.nothing, 0);
    ASSERT_GE(told.candidates.size(), 3u);
    const size_t sentences = told.candidates.size() - 2;
    EXPECT_TRUE(told.candidates[sentences].tokens.empty());
    EXPECT_EQ(told.candidates[sentences].block, -2);
    EXPECT_EQ(told.candidates.back().text, "No.");
    EXPECT_EQ(told.candidates.back().block, -1);
    EXPECT_EQ(answer.tokens, BestIn(answer).tokens);
    EXPECT_EQ(answer.text, BestIn(answer).text);
    EXPECT_EQ(answer.reason, FinishReason::kEos);
    for (size_t k = 0; k < sentences; ++k) {
      const Candidate& one = told.candidates[k];
      EXPECT_LE(one.tokens.size(), 12u);
      EXPECT_LT(one.block, std::ssize(told.blocks));
      EXPECT_THAT(text, ::testing::HasSubstr(one.text));
    }
    ++quoted;
  }
  EXPECT_GE(quoted, 4);
}

// Of memories of earlier releases neither the judge nor the reranker is used.
TEST_P(AdapterTest, AnEarlierJudgeIsNotUsed) {
  const auto of_drafts = [](nlohmann::ordered_json& root) {
    root["judge"] = {{"drafts", 6},
                     {"draft_tokens", 16},
                     {"refusal", "No."},
                     {"linear", std::vector<double>(16)},
                     {"hidden", nlohmann::ordered_json::array()}};
    root.erase("reader");
    root.erase("reranker");
  };
  const auto of_sentences = [](nlohmann::ordered_json& root) {
    root["judge"].erase("passage_blocks");
    root["reranker"]["context_tokens"] = 16;
  };
  const auto answer = [&](const auto& change) {
    const auto engine = MakeChanged(
        "earlier_judge", [&](const std::string& directory) { ChangeMemory(directory, change); });
    const Generated quoting = Generate(*engine, AskBy(Question(0), true));
    EXPECT_THAT(quoting.status, IsOk());
    EXPECT_TRUE(quoting.candidates.empty());
    EXPECT_EQ(quoting.tokens, Generate(*engine, AskBy(Question(0), false)).tokens);
  };
  answer(of_drafts);
  answer(of_sentences);
}

// The numbers by which candidates are judged come from the blocks that were read, first those of
// the answer, then the reader's own.
TEST_P(AdapterTest, ScoresAreTheJudges) {
  const auto model = AdapterModelForTest();
  const auto engine = MakeWithDocument();
  const Generated answer = Generate(*engine, AskBy(Question(0), true));
  ASSERT_EQ(answer.candidates.size(), 1u);
  const JudgedCandidates& told = answer.candidates.front();
  std::vector<int64_t> read;
  for (const Hit& hit : answer.retrievals.front().hits) read.push_back(hit.chunk);
  const bool added = !answer.retrievals.front().hits.back().quote.empty();
  const auto chunk = [&](size_t i) { return told.blocks.at(i).chunk; };
  for (size_t i = 0; i + (added ? 1 : 0) < read.size(); ++i) EXPECT_EQ(chunk(i), read[i]);
  EXPECT_GT(told.blocks.size(), read.size());
  std::vector<std::vector<int32_t>> texts;
  std::vector<model::ReadBlock> blocks;
  for (const Hit& hit : told.blocks) {
    const std::string text = *engine->ReadText("d", hit.text_begin, hit.text_end);
    texts.push_back(*model->tokenizer()->Encode(text));
    blocks.push_back({{}, hit.weight, 0});
  }
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b].tokens = texts[b];
  std::vector<model::Candidate> candidates;
  for (const Candidate& one : told.candidates)
    candidates.push_back({one.tokens, one.block, one.logprob, one.reranked});
  const std::vector<int32_t> question = *model->tokenizer()->Encode(Question(0));
  const std::vector<double> scores =
      model->judge()->Scores({question, blocks, told.unneeded, told.nothing}, candidates);
  for (size_t k = 0; k < scores.size(); ++k)
    EXPECT_DOUBLE_EQ(told.candidates[k].score, scores[k]) << k;
}

// A document of one block is one passage, whose sentences are read together.
TEST_P(AdapterTest, SentencesAreReranked) {
  const auto model = AdapterModelForTest();
  const auto engine = Make();
  ASSERT_THAT(Ingest(*engine, "d", "The mill burnt. Nobody saw it.\n\nA boat left."), IsOk());
  const std::vector<std::string> sentences = {"The mill burnt.", "Nobody saw it.", "A boat left."};
  for (int i = 0; i < 2; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_EQ(answer.candidates.size(), 1u);
    const std::vector<Candidate>& told = answer.candidates.front().candidates;
    ASSERT_EQ(told.size(), sentences.size() + 2);
    const model::RerankerText text =
        model::MakeRerankerText(*model->tokenizer(), model->config().adapter.reranker,
                                model::InOneLine(Question(i)), sentences);
    ComputeThreads threads(2);
    const std::vector<float> scores = RerankOn(threads, *model, {&text, 1}).front();
    EXPECT_NEAR(told[sentences.size()].reranked, scores[0], 0.02F);
    EXPECT_NE(scores[0], 0);
    for (size_t k = 0; k < sentences.size(); ++k) {
      EXPECT_THAT(sentences[k], ::testing::StartsWith(told[k].text)) << "at most 12 tokens";
      EXPECT_NEAR(told[k].reranked, scores[k + 1], 0.02F) << sentences[k];
    }
  }
}

// A citation has a line for each sentence.
TEST_P(AdapterTest, SentencesNearTheBestAreSaidWithIt) {
  const auto engine = MakeChanged("margin", [](const std::string& directory) {
    JudgeByWords(directory);
    ChangeMemory(directory, [](nlohmann::ordered_json& root) {
      root["judge"]["margin"] = 100;
      root["judge"]["sentence_tokens"] = 60;
    });
  });
  ASSERT_THAT(Ingest(*engine, "e", "The mill burnt.  Nobody saw it.\n\nA boat left."), IsOk());
  GenerateRequest request = AskBy("Nobody saw the mill", true);
  request.session_options.mounts = {"e"};
  request.max_tokens = 80;
  const Generated answer = Generate(*engine, request);
  EXPECT_EQ(answer.text, "The mill burnt. Nobody saw it.\nA boat left.");
  ASSERT_EQ(answer.retrievals.size(), 1u);
  EXPECT_EQ(answer.retrievals.front().hits.front().quote,
            "The mill burnt.\nNobody saw it.\nA boat left.");
}

TEST_P(AdapterTest, ManyThreadsRerankAsOneDoes) {
  const auto model = AdapterModelForTest();
  std::vector<model::RerankerText> texts;
  for (const int64_t sentences : {1, 40, 7, 40}) {
    std::vector<std::string> said;
    for (int64_t i = 0; i < sentences; ++i)
      said.push_back(SampleText(60, 200 + static_cast<uint64_t>(i)));
    texts.push_back(model::MakeRerankerText(*model->tokenizer(), model->config().adapter.reranker,
                                            Question(0), said));
  }
  ComputeThreads one(1), many(4);
  const auto scores = RerankOn(one, *model, texts);
  EXPECT_EQ(scores[1], scores[3]);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(RerankOn(many, *model, texts), scores);
}

TEST_P(AdapterTest, OfEqualSentencesTheLikelierIsJoinedToNothing) {
  const auto engine = MakeChanged("equal", JudgeByWords);
  ASSERT_THAT(Ingest(*engine, "e", "It rained. He left. It rained. A boat left."), IsOk());
  GenerateRequest request = AskBy("Who left?", true);
  request.session_options.mounts = {"e"};
  const Generated answer = Generate(*engine, request);
  ASSERT_EQ(answer.candidates.size(), 1u);
  for (const Candidate& one : answer.candidates.front().candidates)
    EXPECT_TRUE(one.joint == 0 || one.text == "He left.") << one.text;
}

TEST_P(AdapterTest, SentencesAreJoinedAsInTheirDocument) {
  const auto engine = MakeChanged("joined", JudgeByWords);
  std::string long_one = "Nobody";
  for (int i = 0; i < 40; ++i) long_one += " at the mill";
  ASSERT_THAT(Ingest(*engine, "e",
                     "It rained. He left.\nThe end\n- of it\n\n" + long_one + ". A boat left."),
              IsOk());
  GenerateRequest request = AskBy("Who left?", true);
  request.session_options.mounts = {"e"};
  const Generated answer = Generate(*engine, request);
  ASSERT_EQ(answer.candidates.size(), 1u);
  std::vector<std::string> joined;
  for (const Candidate& one : answer.candidates.front().candidates)
    if (one.joint != 0) joined.push_back(one.joint + one.text);
  EXPECT_THAT(joined, ::testing::ElementsAre(" He left.", " The end - of it"))
      << "a long one is cut, so nothing is joined to it";
}

// Whatever is asked, since only there it may say what the document is about.
TEST_P(AdapterTest, TheOpeningOfADocumentIsRead) {
  const auto engine = Make();
  ASSERT_THAT(Ingest(*engine, "d", SampleText(4000, 5)), IsOk());
  int openings = 0;
  for (int i = 0; i < 8; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_EQ(answer.candidates.size(), 1u);
    const JudgedCandidates& told = answer.candidates.front();
    const auto opening = std::ranges::find(told.blocks, 0, &Hit::chunk);
    ASSERT_NE(opening, told.blocks.end());
    EXPECT_EQ(std::ranges::count(told.blocks, 0, &Hit::chunk), 1);
    openings += opening->weight == 0 ? 1 : 0;
    EXPECT_THAT(told.candidates, ::testing::Contains(::testing::Field(
                                     &Candidate::block, opening - told.blocks.begin())));
  }
  EXPECT_GE(openings, 1) << "the opening was always among the best blocks";
}

}  // namespace
}  // namespace recollect::engine
