#include "model/text/bpe_tokenizer.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_bpe.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr PreTokenizer kRules[] = {PreTokenizer::kGpt2, PreTokenizer::kSmollm,
                                   PreTokenizer::kLlamaBpe, PreTokenizer::kQwen2};
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Letters a to c, a space, and what their merges make; <end> is a control token, <tool> is user-
// defined. No other byte has a token.
BpeVocabulary SmallVocabulary() {
  BpeVocabulary vocabulary;
  vocabulary.tokens = {"a",         "b",  "c",     "\u0120", "ab", "abc",
                       "\u0120abc", "bc", "<end>", "<tool>", ""};
  vocabulary.types.assign(8, TokenType::kNormal);
  vocabulary.types.insert(vocabulary.types.end(),
                          {TokenType::kControl, TokenType::kUserDefined, TokenType::kUnused});
  vocabulary.merges = {"b c", "a bc", "\u0120 abc", "a b"};
  return vocabulary;
}

std::unique_ptr<BpeTokenizer> Small() { return BpeTokenizer::Create(SmallVocabulary()).value(); }

std::string Repeated(std::string_view text, size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

TEST(BpeTokenizerTest, MergesTheLowestRankFirst) {
  EXPECT_THAT(Small()->Encode("abc").value(), ElementsAre(5));
  EXPECT_THAT(Small()->Encode("ab").value(), ElementsAre(4));
  EXPECT_THAT(Small()->Encode("aabc bcab abc").value(), ElementsAre(0, 5, 3, 7, 4, 6));
}

TEST(BpeTokenizerTest, IgnoresMergesWhereTheFileSaysSo) {
  BpeVocabulary vocabulary = SmallVocabulary();
  vocabulary.merges = {"a b"};
  EXPECT_THAT(BpeTokenizer::Create(vocabulary).value()->Encode("abc bc").value(),
              ElementsAre(4, 2, 3, 1, 2));
  vocabulary.ignore_merges = true;
  EXPECT_THAT(BpeTokenizer::Create(vocabulary).value()->Encode("abc bc").value(),
              ElementsAre(5, 3, 1, 2));
}

// As the library does: neighbours merge across them. They count to the token after them.
TEST(BpeTokenizerTest, LeavesOutBytesWithoutAToken) {
  const auto encoded = Small()->EncodePrefix("xx xabc!y", /*final=*/true, 0);
  ASSERT_THAT(encoded, IsOk());
  EXPECT_THAT(encoded->ids, ElementsAre(6));
  EXPECT_THAT(encoded->token_bytes, ElementsAre(7));
  EXPECT_EQ(encoded->consumed, 9);
  // Nothing says yet which token follows.
  const auto open = Small()->EncodePrefix("abc !! !", /*final=*/false, 0);
  EXPECT_THAT(open->ids, ElementsAre(5, 3));
  EXPECT_EQ(open->consumed, 6);
  EXPECT_THAT(Small()->Encode("!?").value(), IsEmpty());
  // A stream of nothing else is not kept without end.
  const auto run = Small()->EncodePrefix(Repeated("x", 3 << 20), /*final=*/false, 0);
  EXPECT_THAT(run->ids, IsEmpty());
  EXPECT_GE(run->consumed, 2 << 20);
}

TEST(BpeTokenizerTest, ControlTokensHaveANameAndNoText) {
  const auto tokenizer = Small();
  EXPECT_EQ(tokenizer->ControlToken("<end>"), 8);
  EXPECT_EQ(tokenizer->ControlName(8), "<end>");
  EXPECT_EQ(tokenizer->TokenBytes(8), "");
  for (const char* name : {"<tool>", "abc", "", "<END>"}) {
    EXPECT_EQ(tokenizer->ControlToken(name), std::nullopt) << name;
  }
  EXPECT_EQ(tokenizer->ControlName(5), "");
  // The model may emit it.
  EXPECT_EQ(tokenizer->TokenBytes(9), "<tool>");
  EXPECT_EQ(tokenizer->TokenBytes(10), "");
  EXPECT_EQ(tokenizer->TokenBytes(6), " abc");
  EXPECT_EQ(tokenizer->vocab_size(), 11);
  EXPECT_EQ(tokenizer->Decode({8, 6, 9, 10}), " abc<tool>");
}

TEST(BpeTokenizerTest, NoTextBecomesAControlToken) {
  for (const PreTokenizer rule : kRules) {
    const auto tokenizer = TinyBpeTokenizer(rule, {"the", "</s>", "\u0120a"});
    for (const char* name :
         {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "</s>", "<|im_", "the"}) {
      for (const std::string& text :
           {std::string(name), absl::StrCat("a", name, "b"), absl::StrCat("\n", name, name, " ")}) {
        const std::vector<int32_t> ids = tokenizer->Encode(text).value();
        for (const int32_t id : ids) EXPECT_EQ(tokenizer->ControlName(id), "") << text;
        EXPECT_EQ(tokenizer->Decode(ids), text);
      }
    }
  }
}

TEST(BpeTokenizerTest, TheBeginTokenIsTheOneTheFileNames) {
  EXPECT_EQ(Small()->BeginToken(), std::nullopt);
  BpeVocabulary vocabulary = SmallVocabulary();
  vocabulary.bos = 8;
  EXPECT_EQ(BpeTokenizer::Create(vocabulary).value()->BeginToken(), 8);
  vocabulary.bos = 11;
  EXPECT_THAT(BpeTokenizer::Create(vocabulary),
              StatusIs(kInvalid, "the begin token is 11 of 11 tokens"));
}

TEST(BpeTokenizerTest, InvalidUtf8NamesTheByte) {
  EXPECT_THAT(Small()->Encode("abc\xff"), StatusIs(kInvalid, "at byte 3"));
  EXPECT_THAT(Small()->EncodePrefix("abc\xff", false, 1000), StatusIs(kInvalid, "at byte 1003"));
  EXPECT_THAT(Small()->EncodePrefix("abc\xe4\xb8", false, 0), IsOk());
  EXPECT_THAT(Small()->EncodePrefix("abc\xe4\xb8", true, 0), StatusIs(kInvalid, "at byte 3"));
}

TEST(BpeTokenizerTest, RefusesVocabulariesThatCannotBeUsed) {
  const auto status = [](auto change) {
    BpeVocabulary vocabulary = SmallVocabulary();
    change(vocabulary);
    return BpeTokenizer::Create(std::move(vocabulary)).status();
  };
  EXPECT_THAT(status([](BpeVocabulary& v) { v.types.pop_back(); }),
              StatusIs(kInvalid, "11 tokens, 10 token types"));
  EXPECT_THAT(status([](BpeVocabulary& v) { v.tokens[2] = "a"; }),
              StatusIs(kInvalid, "tokens 0 and 2 are both \"a\""));
  for (const char* text : {"", " ", "\u00ad", "\u0144", "\xc4", "a b"}) {
    EXPECT_THAT(status([&](BpeVocabulary& v) { v.tokens[2] = text; }),
                StatusIs(kInvalid, "token 2 is \""))
        << text;
  }
  EXPECT_THAT(status([](BpeVocabulary& v) { v.merges[1] = "abc"; }),
              StatusIs(kInvalid, "merge 1 is \"abc\", expected two tokens with a space"));
  EXPECT_THAT(status([](BpeVocabulary& v) { v.merges[1] = "a c"; }),
              StatusIs(kInvalid, "merge 1 is \"a c\", but no token for text is \"ac\""));
  EXPECT_THAT(status([](BpeVocabulary& v) { v.merges[1] = "a  c"; }),
              StatusIs(kInvalid, "expected characters of the alphabet of bytes"));
  // Merges that would make a control token of text.
  EXPECT_THAT(status([](BpeVocabulary& v) { v.types[5] = TokenType::kControl; }),
              StatusIs(kInvalid, "merge 1 is \"a bc\", but no token for text is \"abc\""));
  EXPECT_THAT(status([](BpeVocabulary& v) { v = {}; }), StatusIs(kInvalid, "no tokens for text"));
}

// Runs without a place to cut: in linear time, and a stream keeps no more than the bound.
TEST(BpeTokenizerTest, LongRunsTakeLinearTimeAndBoundedMemory) {
  const int64_t kBytes = 5 << 18;
  for (const PreTokenizer rule : {PreTokenizer::kSmollm, PreTokenizer::kLlamaBpe}) {
    const auto tokenizer = TinyBpeTokenizer(rule);
    for (const char* unit :
         {" ", "a", "7", "\U0001F40B", "\n", " \n", "=", "\u0301", "\u4e2d", "ab", "'"}) {
      const std::string text = Repeated(unit, kBytes);
      const auto begin = std::chrono::steady_clock::now();
      const auto whole = tokenizer->EncodePrefix(text, /*final=*/true, 0);
      ASSERT_THAT(whole, IsOk()) << unit;
      EXPECT_EQ(tokenizer->Decode(whole->ids), text);
      const auto open = tokenizer->EncodePrefix(text, /*final=*/false, 0);
      ASSERT_THAT(open, IsOk()) << unit;
      EXPECT_GE(open->consumed, kBytes - kMaxPreTokenBytes) << unit;
      EXPECT_GT(open->consumed, 0) << unit;
      EXPECT_TRUE(std::equal(open->ids.begin(), open->ids.end(), whole->ids.begin())) << unit;
      const auto rest = tokenizer->EncodePrefix(
          std::string_view(text).substr(static_cast<size_t>(open->consumed)), /*final=*/true, 0);
      EXPECT_TRUE(std::equal(rest->ids.begin(), rest->ids.end(),
                             whole->ids.begin() + std::ssize(open->ids), whole->ids.end()))
          << unit;
      // A quadratic algorithm takes hours.
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << unit;
    }
  }
}

// The rule sees so much from the beginning of a pre-token and no more, in one piece or in many.
TEST(BpeTokenizerTest, TheBoundIsAtTheSamePlaceInAnyDivision) {
  const auto tokenizer = TinyBpeTokenizer(PreTokenizer::kLlamaBpe);
  std::string text = absl::StrCat("x\n", std::string(kMaxPreTokenBytes + 5, ' '), "\nend ",
                                  std::string(kMaxPreTokenBytes - 1, 'a'), "\u00e9\u00e9 b");
  const std::vector<int32_t> whole = tokenizer->Encode(text).value();
  EXPECT_EQ(tokenizer->Decode(whole), text);
  std::vector<int32_t> streamed;
  std::string pending;
  for (size_t at = 0; at < text.size();) {
    // As ingest does: twice as much where nothing was decided.
    const size_t take = std::min(text.size() - at, std::max<size_t>(4096, pending.size()));
    pending += text.substr(at, take);
    at += take;
    const auto part = tokenizer->EncodePrefix(pending, at == text.size(), 0);
    ASSERT_THAT(part, IsOk());
    streamed.insert(streamed.end(), part->ids.begin(), part->ids.end());
    pending.erase(0, static_cast<size_t>(part->consumed));
  }
  EXPECT_EQ(streamed, whole);
}

// One compiled expression, which PCRE2 runs as machine code, serves all of them.
TEST(BpeTokenizerTest, ThreadsShareATokenizer) {
  const auto tokenizer = TinyBpeTokenizer(PreTokenizer::kQwen2);
  const std::string text =
      ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/bpe_golden.txt").substr(0, 50'000);
  const std::vector<int32_t> expected = tokenizer->Encode(text).value();
  std::vector<int> same(8);
  std::vector<std::thread> threads;
  for (int& equal : same) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) equal += tokenizer->Encode(text).value() == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(same, ::testing::Each(5));
}

TEST(PreTokenizerTest, NamesAndAliases) {
  EXPECT_EQ(PreTokenizerNamed("gpt-2").value(), PreTokenizer::kGpt2);
  EXPECT_EQ(PreTokenizerNamed("smollm").value(), PreTokenizer::kSmollm);
  EXPECT_EQ(PreTokenizerNamed("llama3").value(), PreTokenizer::kLlamaBpe);
  EXPECT_EQ(PreTokenizerNamed("qwen2").value(), PreTokenizer::kQwen2);
  EXPECT_THAT(PreTokenizerNamed("smaug-bpe"),
              StatusIs(kInvalid,
                       "pre-tokenizer \"smaug-bpe\", expected gpt-2, smollm, llama-bpe or qwen2"));
  EXPECT_THAT(PreTokenizerNamed(""), StatusIs(kInvalid, "pre-tokenizer \"\""));
}

TEST(PreTokenizerTest, WalksByTheRule) {
  const auto pieces = [](PreTokenizer rule, std::string_view text, bool final) {
    const auto splitter = PreTokenSplitter::Create(rule).value();
    PreTokenSplitter::Walk walk(splitter, text, final);
    std::vector<std::string> found;
    while (true) {
      const std::string_view next = walk.Next().value();
      if (next.empty()) return found;
      found.emplace_back(next);
    }
  };
  const std::string text = "I'LL it's  12345 \n\n x";
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, text, true),
              ElementsAre("I", "'", "LL", " it", "'s", " ", " 12345", " \n\n", " x"));
  EXPECT_THAT(
      pieces(PreTokenizer::kSmollm, text, true),
      ElementsAre("I", "'", "LL", " it", "'s", "  ", "1", "2", "3", "4", "5", " \n\n", " x"));
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, text, true),
              ElementsAre("I", "'LL", " it", "'s", " ", " ", "123", "45", " \n\n", " x"));
  EXPECT_THAT(
      pieces(PreTokenizer::kQwen2, text, true),
      ElementsAre("I", "'LL", " it", "'s", " ", " ", "1", "2", "3", "4", "5", " \n\n", " x"));
  // What text that follows could still change is not given out.
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a bc", false), ElementsAre("a"));
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a b'", false), ElementsAre("a", " b"));
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a  ", false), ElementsAre("a"));
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, "12", false), IsEmpty());
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, "1234", false), ElementsAre("123"));
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, "1\xf0\x9f", false), ElementsAre("1"));
}

}  // namespace
}  // namespace recollect::model
