#include "model/text/questions.h"

#include <string>

#include "gmock/gmock.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

TEST(QuestionsTest, AMessageMayAskSeveralThings) {
  EXPECT_THAT(QuestionsIn("Who leads it? And what does it cost?"),
              ElementsAre("Who leads it?", "And what does it cost?"));
  EXPECT_THAT(QuestionsIn("what does it cost and when do I have to pay?"),
              ElementsAre("what does it cost?", "when do I have to pay?"));
  EXPECT_THAT(QuestionsIn("Who leads it, and where is it, or how do I ask?\nIs it far?"),
              ElementsAre("Who leads it?", "where is it?", "how do I ask?", "Is it far?"));
}

TEST(QuestionsTest, WhatIsNoQuestionBelongsToOne) {
  EXPECT_THAT(QuestionsIn(" Hi! My son is 6. Can he come? What is it? I need to know."),
              ElementsAre("Hi! My son is 6. Can he come?", "What is it? I need to know."));
}

TEST(QuestionsTest, OthersAreOnePart) {
  for (const std::string one :
       {"", "Hello", " Who leads it? ", "Who leads it? I need to know.", "When and where is it?",
        "Who leads it and what else?", "Tell me who leads it and what it costs.",
        "Who? What? When? Where? Why?", "Is it for boys and girls?"})
    EXPECT_THAT(QuestionsIn(one), ElementsAre(one));
  const std::string pasted = std::string(500, 'x') + ". Who? What?";
  EXPECT_THAT(QuestionsIn(pasted), ElementsAre(pasted));
}

TEST(QuestionsTest, AnyBytesAreTaken) {
  EXPECT_THAT(QuestionsIn("\xff? \xff?"), ::testing::SizeIs(::testing::Ge(1)));
}

}  // namespace
}  // namespace recollect::model
