#include "engine/session/text_stream.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/tiny_bpe.h"

namespace recollect::engine {
namespace {

TEST(TextStreamTest, HoldsBackUnfinishedCharacters) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("a\xe2"), "a");
  EXPECT_EQ(stream.Push("\x82"), "");
  EXPECT_EQ(stream.Push("\xac!"), "\xe2\x82\xac!");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TextStreamTest, ReplacesWhatCanNeverBeACharacter) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(stream.Push("\xe2\x82"), "");
  EXPECT_EQ(stream.Push("x"), "\xef\xbf\xbdx");
  EXPECT_EQ(stream.Push("\xed\xa0"), "\xef\xbf\xbd\xef\xbf\xbd") << "half of a surrogate";
  EXPECT_EQ(stream.Push("\xc3"), "");
  EXPECT_EQ(stream.Flush(), "\xef\xbf\xbd");
}

TEST(TextStreamTest, HoldsBackWhatMayBecomeAStop) {
  TextStream stream({"END", "\n\n"});
  EXPECT_EQ(stream.Push("the E"), "the ");
  EXPECT_EQ(stream.Push("N"), "");
  EXPECT_EQ(stream.Push("T\n"), "ENT");
  EXPECT_EQ(stream.Push("EN"), "\n");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.Push("D and more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Push("never"), "");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TextStreamTest, TheFirstOfSeveralStopsCounts) {
  TextStream stream({"later", "so"});
  EXPECT_EQ(stream.Push("and so later"), "and ");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStreamTest, FlushGivesOutAnUnfinishedStop) {
  TextStream stream({"stop"});
  EXPECT_EQ(stream.Push("a sto"), "a ");
  EXPECT_EQ(stream.Flush(), "sto");
}

TEST(TextStreamTest, AStopMaySpanTokensAndCharacters) {
  TextStream stream({"\xc3\xa9!"});
  EXPECT_EQ(stream.Push("caf\xc3"), "caf");
  EXPECT_EQ(stream.Push("\xa9"), "");
  EXPECT_EQ(stream.Push("!"), "");
  EXPECT_TRUE(stream.stopped());
}

// Tokens of a byte-level vocabulary end anywhere in a character. Its three bytes come alone here,
// or with the space before and the letter after them.
TEST(TextStreamTest, TokensOfAByteLevelVocabularyComeOutAsWholeCharacters) {
  const auto tokenizer = TinyBpeTokenizer(model::PreTokenizer::kSmollm);
  const std::string text =
      "A whale \U0001F40B\U0001F433, \u4e2d\u6587\u0bb5\u1f00 caf\u00e9 "
      "\u2603\ufe0f\u200d\U000E0041 end";
  const std::vector<int32_t> ids = tokenizer->Encode(text).value();
  TextStream stream({});
  std::string shown;
  int partial = 0;
  for (const int32_t id : ids) {
    const std::string_view bytes = tokenizer->TokenBytes(id);
    partial += model::FindInvalidUtf8(bytes, /*allow_partial_end=*/false) >= 0 ? 1 : 0;
    const std::string certain = stream.Push(bytes);
    EXPECT_LT(model::FindInvalidUtf8(certain, /*allow_partial_end=*/false), 0) << certain;
    shown += certain;
    EXPECT_TRUE(text.starts_with(shown)) << shown;
  }
  EXPECT_GT(partial, 10) << "the text has to have characters that tokens divide";
  EXPECT_EQ(stream.Flush(), "");
  EXPECT_EQ(shown, text);
}

}  // namespace
}  // namespace recollect::engine
