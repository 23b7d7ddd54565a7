#include "engine/step/quotes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
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

  std::string TextOf(const std::vector<JudgedCandidates>& judged,
                     const std::vector<int32_t>& beginning = {}) {
    std::string text;
    for (const int32_t token : QuotesOf(*model_->tokenizer(), judged, beginning).tokens)
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
}

}  // namespace
}  // namespace recollect::engine
