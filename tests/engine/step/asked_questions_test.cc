#include "engine/step/asked_questions.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

using ::testing::ElementsAre;

class AskedQuestionsTest : public ::testing::Test {
 protected:
  // The text of the rows that a question has, of a prompt that ends with the message and " END".
  std::vector<std::string> RowsIn(const std::string& message, int64_t kept = 1000) {
    std::vector<int32_t> prompt;
    for (const std::string& text : {std::string("Before.\n"), message, std::string(" END")})
      for (const int32_t token : Encode(text)) prompt.push_back(token);
    std::vector<Bf16> rows(prompt.size());
    std::vector<std::string> texts;
    const auto asked = AskedQuestions(tokenizer(), message, prompt).value();
    for (const AskedQuestion& one : asked) {
      const auto last =
          std::span<const Bf16>(rows).last(std::min(rows.size(), static_cast<size_t>(kept)));
      const std::span<const Bf16> own = RowsOf(one, last, 1);
      std::string& text = texts.emplace_back();
      for (size_t i = 0; i < own.size(); ++i)
        text += tokenizer().TokenBytes(prompt[static_cast<size_t>(&own[i] - rows.data())]);
    }
    return texts;
  }

  std::vector<int32_t> Encode(const std::string& text) { return *tokenizer().Encode(text); }
  const model::Tokenizer& tokenizer() { return *model_->tokenizer(); }

 private:
  const std::shared_ptr<const model::Model> model_ = AdapterModelForTest();
};

TEST_F(AskedQuestionsTest, EachHasTheRowsOfItsOwnWords) {
  EXPECT_THAT(RowsIn("Who is it?"), ElementsAre("Before.\nWho is it? END"));
  EXPECT_THAT(RowsIn("Who leads it, and where is it kept?\n\nIs it far?"),
              ElementsAre("Before.\nWho leads it, and where is it kept?\n\nIs it far? END",
                          ::testing::EndsWith("Who leads it,"), " where is it kept?",
                          ::testing::EndsWith("Is it far? END")));
}

TEST_F(AskedQuestionsTest, RowsThatAreNotKeptAreMissing) {
  const std::string message = "Who leads it? Is it far?";
  const auto after = std::ssize(Encode(" Is it far?")) + std::ssize(Encode(" END"));
  EXPECT_THAT(RowsIn(message, after + 1), ElementsAre("? Is it far? END", "?", " Is it far? END"));
  EXPECT_THAT(RowsIn(message, after),
              ElementsAre(" Is it far? END", " Is it far? END", " Is it far? END"));
}

TEST_F(AskedQuestionsTest, OfAMessageThatIsNotInThePromptAllRows) {
  const std::vector<int32_t> prompt = Encode("Something else");
  const auto asked = AskedQuestions(tokenizer(), "Who leads it? Is it far?", prompt).value();
  for (const AskedQuestion& one : asked) {
    EXPECT_EQ(one.rows, 0);
    EXPECT_EQ(one.rows_after, 0);
  }
}

}  // namespace
}  // namespace recollect::engine
