#include "model/text/words.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/support/status_matchers.h"

namespace recollect::model {
namespace {

TEST(WordTextTest, CaseBlanksAndEndingsDoNotCount) {
  EXPECT_EQ(WordText(" Walking"), "walk");
  EXPECT_EQ(WordText("WALKED\n"), "walk");
  EXPECT_EQ(WordText("walks"), "walk");
  EXPECT_EQ(WordText("boxes"), "boxe");  // "es" would leave 3 characters, "s" leaves 4
  EXPECT_EQ(WordText("slowly"), "slow");
  EXPECT_EQ(WordText("Kindlings"), "kindling");  // one ending alone
  EXPECT_EQ(WordText("bring"), "bring");
  EXPECT_EQ(WordText("..."), "...");
  EXPECT_EQ(WordText(" \t\n"), "");
  EXPECT_EQ(WordText(""), "");
}

TEST(WordTextTest, CharactersAreUnicode) {
  EXPECT_EQ(WordText("\u00a0\u3000ÄRGER\u2028"), "ärger");
  EXPECT_EQ(WordText("\x1cЁлки\x85"), "ёлки\ufffd");  // a byte 0x85 alone is no character
  EXPECT_EQ(WordText("\u0085Ω"), "ω");
  EXPECT_EQ(WordText("Ærøes"), "ærøe");  // 4 characters and not 6 bytes are left
  EXPECT_EQ(WordText("Ærøed"), "ærøed");
}

// As decoders write them: one sign for what could still begin a character.
TEST(WordTextTest, MalformedPiecesAreOneWord) {
  for (const char* piece : {"\xe2\x80", "\x80", "\xf0\x9f", "\xf0\x9f\x98", " \xc3", "\xff"}) {
    EXPECT_EQ(WordText(piece), "\ufffd");
  }
  EXPECT_EQ(WordText("\x80\x80"), "\ufffd\ufffd");
  EXPECT_EQ(WordText("\xe2\x80x"), "\ufffdx");
  EXPECT_EQ(WordText("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate
}

TEST(WordIdfTest, FrequentWordsWeighLess) {
  EXPECT_GT(WordIdf("the"), 0);
  EXPECT_LT(WordIdf("the"), 0.5);
  EXPECT_LT(WordIdf("the"), WordIdf("house"));
  EXPECT_LT(WordIdf("house"), WordIdf("harpoon"));
  EXPECT_LT(WordIdf("harpoon"), WordIdf("no such word"));
  EXPECT_EQ(WordIdf("zzxqv"), WordIdf("日本語の単語"));  // the table has neither
  EXPECT_LE(WordIdf("!?!?;"), WordIdf("the"));           // nor this, which says nothing
}

std::unique_ptr<Tokenizer> TinyTokenizer() {
  auto tokenizer = Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model");
  EXPECT_THAT(tokenizer, IsOk());
  return std::move(*tokenizer);
}

TEST(WordsTest, WordsAreNumberedAsTheyFirstAppear) {
  const std::string texts[] = {"b", "A", " B", "ab", "a ", "", "walks", "\n", "Walked"};
  const Words words = Words::Make(texts);
  const int32_t expected[] = {0, 1, 0, 2, 1, 3, 4, 3, 4};
  ASSERT_EQ(words.tokens(), std::ssize(texts));
  EXPECT_EQ(words.count(), 5);
  for (int32_t token = 0; token < words.tokens(); ++token) {
    EXPECT_EQ(words.word(token), expected[token]) << token;
    EXPECT_EQ(words.text(words.word(token)), WordText(texts[token]));
    EXPECT_EQ(words.idf(words.word(token)), WordIdf(WordText(texts[token])));
  }
  EXPECT_GT(words.bytes(), std::ssize(texts) * 4);
}

TEST(WordsTest, ATokenizersTokensHaveTheWordsOfTheirTexts) {
  const std::unique_ptr<Tokenizer> tokenizer = TinyTokenizer();
  const Words words = Words::Make(*tokenizer);
  ASSERT_EQ(words.tokens(), tokenizer->vocab_size());
  EXPECT_LT(words.count(), words.tokens());
  int32_t next = 0;
  for (int32_t token = 0; token < words.tokens(); ++token) {
    ASSERT_LE(words.word(token), next) << token;
    next = std::max(next, words.word(token) + 1);
  }
  EXPECT_EQ(next, words.count());
  const auto one = tokenizer->Encode("The"), other = tokenizer->Encode("and the");
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(words.text(words.word(other->back())), WordText(tokenizer->TokenBytes(other->back())));
}

}  // namespace
}  // namespace recollect::model
