#include "engine/step/quotes.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "model/config/judge_config.h"
#include "model/model.h"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

using Candidate = JudgedCandidates::Candidate;

class QuotesTest : public ::testing::Test {
 protected:
  // What is judged of a question whose best candidate says this; "": the model's own words.
  JudgedCandidates Best(const std::string& text) {
    const Candidate own = {.tokens = {}, .text = "", .block = -2, .score = text.empty() ? 2.0 : 0};
    const Candidate said = {.tokens = Encode(text), .text = text, .block = 0, .score = 1};
    return {.candidates = {said, own}, .blocks = {}};
  }

  struct Sentence {
    std::string text;
    double score = 0;
    char joint = ' ';
  };
  JudgedCandidates Judged(const std::vector<Sentence>& sentences) {
    JudgedCandidates judged;
    for (const auto& [text, score, joint] : sentences)
      judged.candidates.push_back(
          {.tokens = Encode(text), .text = text, .block = 0, .score = score, .joint = joint});
    return judged;
  }

  std::string TextOf(const std::vector<JudgedCandidates>& judged,
                     const std::vector<int32_t>& beginning = {}) {
    model::JudgeConfig config;
    config.sentence_tokens = 40;
    config.margin = 2;
    std::string text;
    for (const int32_t token : QuotesOf(*model_->tokenizer(), config, judged, beginning).tokens)
      text += model_->tokenizer()->TokenBytes(token);
    return text;
  }

  std::vector<int32_t> Encode(const std::string& text) {
    return *model_->tokenizer()->Encode(text);
  }

 private:
  const std::shared_ptr<const model::Model> model_ = AdapterModelForTest();
};

TEST_F(QuotesTest, ThereIsALineForEachQuestion) {
  EXPECT_EQ(TextOf({Best("A boat left.")}), "A boat left.");
  EXPECT_EQ(TextOf({Best("A boat left."), Best("No.")}), "A boat left.\nNo.");
  EXPECT_EQ(TextOf({}), "");
}

TEST_F(QuotesTest, NothingIsSaidTwice) {
  EXPECT_EQ(TextOf({Best("No."), Best("A boat left."), Best("No.")}), "No.\nA boat left.");
  EXPECT_EQ(TextOf({Best("At noon, a boat left."), Best("a boat left.")}), "At noon, a boat left.");
}

TEST_F(QuotesTest, AQuestionForTheModelHasNoLineBesideOthers) {
  const std::vector<JudgedCandidates> one = {Best(""), Best("A boat left.")};
  EXPECT_EQ(TextOf(one), "A boat left.");
  EXPECT_FALSE(OwnWordsAreBest(one));
  const std::vector<JudgedCandidates> all = {Best(""), Best("")};
  EXPECT_EQ(TextOf(all), "");
  EXPECT_TRUE(OwnWordsAreBest(all));
  EXPECT_FALSE(OwnWordsAreBest({}));
}

TEST_F(QuotesTest, AnAnswerGoesOnOnlyWithWhatItBeganWith) {
  const std::vector<JudgedCandidates> judged = {Best("A boat left."), Best("No.")};
  EXPECT_EQ(TextOf(judged, Encode("A boat")), "A boat left.\nNo.");
  EXPECT_EQ(TextOf(judged, Encode("A mill")), "");
  const std::vector<JudgedCandidates> one = {Judged({{"It rained.", 5, 0}, {"He left.", 4}})};
  EXPECT_EQ(TextOf(one, Encode("It")), "It rained. He left.");
  EXPECT_EQ(TextOf(one, Encode("A mill")), "");
  EXPECT_EQ(TextOf({}, Encode("A mill")), "");
  // Another server chose these.
  EXPECT_EQ(TextOf(one, Encode("He")), "He left.");
  const std::vector<JudgedCandidates> more = {
      Judged({{"It rained.", 5, 0}, {"He left.", 4}, {"So did I.", 1}})};
  const std::string all = "It rained. He left. So did I.";
  std::vector<int32_t> begun = Encode(all);
  begun.pop_back();
  EXPECT_EQ(TextOf(more, begun), all);
}

TEST_F(QuotesTest, SentencesAroundTheBestThatAreNearlyAsGoodAreSaid) {
  EXPECT_EQ(TextOf({Judged({{"It rained.", 3.5, 0}, {"He left.", 5}, {"So did I.", 4}})}),
            "It rained. He left. So did I.");
  EXPECT_EQ(TextOf({Judged({{"Rain", 3.5, 0}, {"Wind", 5, '\n'}})}), "Rain\nWind");
  EXPECT_EQ(TextOf({Judged({{"It rained.", 4.5, 0}, {"No.", 5, 0}})}), "No.");
  // A worse one is a wall, and so is a gap in the text.
  EXPECT_EQ(TextOf({Judged({{"It rained.", 4, 0}, {"He left.", 3}, {"So did I.", 5}})}),
            "So did I.");
  EXPECT_EQ(TextOf({Judged({{"It rained.", 4, 0}, {"He left.", 5, 0}})}), "He left.");
}

TEST_F(QuotesTest, ThatMuchIsSaidAsFits) {
  std::string words;
  while (Encode(words).size() < 15) words += "a ";
  const auto line = [&](const char* end) { return words + end; };
  const std::vector<Sentence> sentences = {{line("b"), 4, 0}, {line("c"), 5}, {line("d"), 4.5}};
  EXPECT_EQ(TextOf({Judged(sentences)}), line("c") + " " + line("d"));
}

TEST_F(QuotesTest, WhatWasSaidToAnEarlierQuestionIsNotAdded) {
  const JudgedCandidates first = Judged({{"It rained.", 5, 0}, {"He left.", 4}});
  const JudgedCandidates second = Judged({{"He left.", 4, 0}, {"So did I.", 5}});
  EXPECT_EQ(TextOf({first, second}), "It rained. He left.\nSo did I.");
  EXPECT_EQ(TextOf({Judged({{"Rain", 5, 0}, {"Wind", 4, '\n'}}), second}),
            "Rain Wind\nHe left. So did I.")
      << "a line for each question";
  EXPECT_EQ(TextOf({first, first}), "It rained. He left.");
}

}  // namespace
}  // namespace recollect::engine
