#include "model/block_ends.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/model.h"
#include "model/text/tokenizer.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Model> LoadTiny(ModelConfig config, const std::string& name) {
  const std::string directory = absl::StrCat(::testing::TempDir(), "/block_ends_", name);
  WriteTinyModel(directory, config, 1);
  auto model = Model::Load(directory);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<Model> LoadSentences(int min_chunk_tokens) {
  ModelConfig config = TinyConfig();
  config.min_chunk_tokens = min_chunk_tokens;
  return LoadTiny(config, absl::StrCat("sentences", min_chunk_tokens));
}

// Texts of digits, which are tokens each, so that a length is a number of tokens.
class SentencesTest : public ::testing::Test {
 protected:
  static std::string Digits(size_t count) { return std::string(count, '7'); }

  std::vector<int32_t> Tokens(const std::string& text) {
    return *model_->tokenizer()->Encode(text);
  }

  // The text of each block.
  std::vector<std::string> Blocks(const std::string& text) {
    std::vector<std::string> texts;
    for (const std::vector<int32_t>& block : DocumentBlocks(*model_, Tokens(text))) {
      EXPECT_LE(block.size(), size_t{kChunkTokens});
      texts.push_back(model_->tokenizer()->Decode(block));
    }
    return texts;
  }

  std::unique_ptr<Model> model_ = LoadSentences(24);
};

TEST_F(SentencesTest, TheLastEndThatFitsIsTaken) {
  const std::string sentence = " " + Digits(28) + ".";
  EXPECT_THAT(Blocks(sentence + sentence + sentence + " " + Digits(9)),
              ElementsAre(sentence + sentence, sentence + " " + Digits(9)));
}

TEST_F(SentencesTest, ALineEndsABlockAsWell) {
  for (const std::string end : {"\n", "\n\n"}) {
    const std::string line = Digits(40) + end;
    EXPECT_THAT(Blocks(line + Digits(50)), ElementsAre(line, Digits(50)));
  }
}

TEST_F(SentencesTest, ClosingMarksBelongToTheSentence) {
  for (const std::string end : {".", "!", "?", ".\"", "?'", "!)", ".]", ".”", "?’", "!»", ".’”"}) {
    const std::string sentence = Digits(30) + end;
    EXPECT_THAT(Blocks(sentence + " " + Digits(50)), ElementsAre(sentence, " " + Digits(50)))
        << end;
  }
}

TEST_F(SentencesTest, WithoutSpacesSentencesEndToo) {
  for (const std::string end : {"。", "！", "？", "。」", "？』"}) {
    const std::string sentence = Digits(30) + end;
    EXPECT_THAT(Blocks(sentence + Digits(50)), ElementsAre(sentence, Digits(50))) << end;
  }
}

TEST_F(SentencesTest, APointInsideANumberEndsNothing) {
  const std::string text = Digits(30) + "." + Digits(50);
  EXPECT_THAT(Blocks(text), ElementsAre(Digits(30) + "." + Digits(32), Digits(18)));
}

// The shortest block has 24 tokens; without an end behind these it is full.
TEST_F(SentencesTest, AnEndThatComesTooEarlyIsNotTaken) {
  EXPECT_THAT(Blocks(Digits(23) + "\n" + Digits(50)), ElementsAre(Digits(23) + "\n", Digits(50)));
  EXPECT_THAT(Blocks(Digits(22) + "\n" + Digits(50)),
              ElementsAre(Digits(22) + "\n" + Digits(40), Digits(10)));
}

TEST_F(SentencesTest, AFullBlockNeedsTheTokenBehindIt) {
  const std::vector<int32_t> tokens = Tokens(Digits(62) + ". " + Digits(9));
  ASSERT_GT(tokens.size(), 64u);
  const std::span all(tokens);
  EXPECT_EQ(NextBlock(*model_, all.first(63), /*final=*/false), 0);
  EXPECT_EQ(NextBlock(*model_, all.first(63), /*final=*/true), 63);
  for (const size_t count : {size_t{64}, tokens.size()}) {
    for (const bool final : {false, true}) {
      EXPECT_EQ(NextBlock(*model_, all.first(count), final), 63) << count;
    }
  }
}

// Also where an end lies inside.
TEST_F(SentencesTest, WhatIsLeftAtTheEndIsOneBlock) {
  const std::string text = Digits(30) + "\n" + Digits(30);
  EXPECT_THAT(Blocks(text), ElementsAre(text));
  EXPECT_EQ(NextBlock(*model_, Tokens(text), /*final=*/false), 0);
  EXPECT_EQ(NextBlock(*model_, {}, /*final=*/true), 0);
}

TEST(BlockEndsTest, WithoutTheSwitchBlocksAreFull) {
  const auto model = LoadTiny(TinyConfig(), "full");
  const std::vector<int32_t> tokens =
      *model->tokenizer()->Encode(std::string(40, '7') + "\n" + std::string(40, '7'));
  const std::span all(tokens);
  EXPECT_EQ(NextBlock(*model, all, /*final=*/false), 63);
  EXPECT_EQ(NextBlock(*model, all.first(63), /*final=*/false), 63);
  EXPECT_EQ(NextBlock(*model, all.first(62), /*final=*/false), 0);
  EXPECT_EQ(NextBlock(*model, all.first(62), /*final=*/true), 62);
}

// Documents that are kept as text: digits are tokens each, as is what ends a block.
class TextBlocksTest : public SentencesTest {
 protected:
  TextBlocksTest() {
    ModelConfig config = TinyRatPlusConfig();
    config.KeepText();
    model_ = LoadTiny(config, "text");
  }
};

TEST_F(TextBlocksTest, TheLongestThatEndsWithASentenceIsTaken) {
  const std::string sentence = Digits(39) + ".";
  EXPECT_THAT(Blocks(sentence + Digits(15) + "." + Digits(40)),
              ElementsAre(sentence + Digits(15) + ".", Digits(40)));
  EXPECT_THAT(Blocks(sentence + Digits(30) + "." + Digits(40)),
              ElementsAre(sentence, Digits(30) + "." + Digits(32), Digits(8)));
  // No end from the 32nd token on: a full block.
  EXPECT_THAT(Blocks(Digits(29) + "." + Digits(50)),
              ElementsAre(Digits(29) + "." + Digits(33), Digits(17)));
  EXPECT_THAT(Blocks(Digits(31) + "." + Digits(50)), ElementsAre(Digits(31) + ".", Digits(50)));
}

TEST_F(TextBlocksTest, OneTokenAloneSaysWhetherItEndsOne) {
  for (const std::string end : {".", "!", "?", "\n", "\n\n"}) {
    const std::string text = Digits(40) + end;
    EXPECT_THAT(Blocks(text + Digits(50)), ElementsAre(text, Digits(50))) << end;
  }
  for (const std::string end : {",", ";", ")", "\"", "]"}) {
    EXPECT_THAT(Blocks(Digits(40) + end + Digits(50)),
                ElementsAre(::testing::SizeIs(63), ::testing::_))
        << end;
  }
}

// However much of the document has come.
TEST_F(TextBlocksTest, WhatFollowsTheLongestBlockHasNoSay) {
  const std::vector<int32_t> tokens = Tokens(Digits(40) + "." + Digits(200));
  const std::span all(tokens);
  const int64_t expected = NextBlock(*model_, all, /*final=*/true);
  EXPECT_GT(expected, 40);
  EXPECT_LT(expected, 44);
  for (size_t count = 0; count < all.size(); ++count) {
    const int64_t block = NextBlock(*model_, all.first(count), /*final=*/false);
    EXPECT_EQ(block, count < 64 ? 0 : expected) << count;
    if (count >= 64) {
      EXPECT_EQ(NextBlock(*model_, all.first(count), /*final=*/true), expected);
    }
  }
  EXPECT_EQ(NextBlock(*model_, all.first(63), /*final=*/true), 63);
}

TEST(BlockEndsTest, WithoutLandmarksTheyAreTiles) {
  const auto model = LoadTiny(TinyRatPlusConfig(), "tiles");
  const std::vector<int32_t> tokens(65, 5);
  EXPECT_EQ(NextBlock(*model, tokens, /*final=*/false), 64);
  EXPECT_EQ(NextBlock(*model, std::span(tokens).first(63), /*final=*/false), 0);
}

}  // namespace
}  // namespace recollect::model
