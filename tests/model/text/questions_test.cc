#include "model/text/questions.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> TextsIn(const std::string& message) {
  std::vector<std::string> texts;
  for (const MessageQuestion& one : QuestionsIn(message)) texts.push_back(one.text);
  return texts;
}

TEST(QuestionsTest, AMessageMayAskSeveralThings) {
  EXPECT_THAT(TextsIn("Who leads it? And what does it cost?"),
              ElementsAre("Who leads it?", "And what does it cost?"));
  EXPECT_THAT(TextsIn("what does it cost and when do I have to pay?"),
              ElementsAre("what does it cost?", "when do I have to pay?"));
  EXPECT_THAT(TextsIn("Who leads it, and where is it, or how do I ask?\nIs it far?"),
              ElementsAre("Who leads it?", "where is it?", "how do I ask?", "Is it far?"));
}

TEST(QuestionsTest, WhatIsNoQuestionBelongsToOne) {
  EXPECT_THAT(TextsIn(" Hi! My son is 6. Can he come? What is it? I need to know."),
              ElementsAre("Hi! My son is 6. Can he come?", "What is it? I need to know."));
}

TEST(QuestionsTest, OthersAreOnePart) {
  for (const std::string one :
       {"", "Hello", " Who leads it? ", "Who leads it? I need to know.", "When and where is it?",
        "Who leads it and what else?", "Tell me who leads it and what it costs.",
        "Who? What? When? Where? Why?", "Is it for boys and girls?",
        "Is http://example.org/a?id=5 still open?", " Is http://example.org/a?id=5 open?"})
    EXPECT_THAT(TextsIn(one), ElementsAre(one));
  const std::string pasted = std::string(500, 'x') + ". Who? What?";
  EXPECT_THAT(TextsIn(pasted), ElementsAre(pasted));
}

TEST(QuestionsTest, AnyBytesAreTaken) {
  EXPECT_THAT(TextsIn("\xff? \xff?"), ElementsAre("\xff?", "\xff?"));
}

TEST(QuestionsTest, RangesAreOfTheMessage) {
  const std::string message = " What does it cost, and when do I pay?  Is it far? Tell me.";
  std::vector<std::string> parts;
  for (const MessageQuestion& one : QuestionsIn(message))
    parts.push_back(message.substr(one.range.begin, one.range.end - one.range.begin));
  EXPECT_THAT(parts, ElementsAre("What does it cost,", "when do I pay?", "Is it far? Tell me."));
}

}  // namespace
}  // namespace recollect::model
