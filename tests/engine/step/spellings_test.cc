#include "engine/step/spellings.h"

#include "gmock/gmock.h"
#include "tests/support/tiny_bpe.h"

namespace recollect::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SpellingsTest : public ::testing::Test {
 protected:
  std::vector<int32_t> Tokens(std::string_view text) const {
    return tokenizer_->Encode(text).value();
  }
  std::vector<kernels::SparseTerm> Others(std::string_view text,
                                          const std::vector<float>& weights) const {
    return OtherSpellings(*tokenizer_, words_, Tokens(text), weights);
  }

  const std::unique_ptr<model::BpeTokenizer> tokenizer_ =
      TinyBpeTokenizer(model::PreTokenizer::kSmollm);
  const model::Words words_ = model::Words::Make(*tokenizer_);
};

TEST_F(SpellingsTest, TheTokensOfTheOtherSpellingShareTheWordsWeight) {
  const std::vector<int32_t> capital = Tokens(" Said");
  ASSERT_THAT(Tokens(" said"), SizeIs(1));
  ASSERT_THAT(capital, SizeIs(2));
  const std::vector<kernels::SparseTerm> terms = Others(" said", {3});
  ASSERT_THAT(terms, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(terms[i].word, words_.word(capital[i]));
    EXPECT_EQ(terms[i].weight, 1.5F);
  }
}

TEST_F(SpellingsTest, AWordOfSeveralTokensHasTheSumOfTheirWeights) {
  const std::vector<kernels::SparseTerm> terms = Others(" Said", {1, 3});
  ASSERT_THAT(terms, SizeIs(1));
  EXPECT_EQ(terms.front().word, words_.word(Tokens(" said").front()));
  EXPECT_EQ(terms.front().weight, 4.0F);
}

TEST_F(SpellingsTest, ASpellingWithTheSameWordsAddsNothing) {
  ASSERT_EQ(words_.word(Tokens(" the").front()), words_.word(Tokens(" The").front()));
  EXPECT_THAT(Others(" the", {1}), IsEmpty());
}

TEST_F(SpellingsTest, WhatIsNoWordHasNoOtherSpelling) {
  const std::vector<int32_t> tokens = Tokens(" 12, ---\n\n?");
  EXPECT_THAT(OtherSpellings(*tokenizer_, words_, tokens, std::vector<float>(tokens.size(), 1)),
              IsEmpty());
}

}  // namespace
}  // namespace recollect::engine
