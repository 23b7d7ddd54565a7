#include "model/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer =
      Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model").value().release();
  return *tokenizer;
}

// Texts and their ids as train/tokenizer.py gives them (make_tokenizer_cases.py).
nlohmann::json Cases() {
  return nlohmann::json::parse(ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/tokenizer_cases.json"));
}

TEST(TokenizerTest, AgreesWithTheOracle) {
  const nlohmann::json cases = Cases();
  ASSERT_GT(cases.size(), 40u);
  for (const auto& entry : cases) {
    const std::string text = entry["text"];
    const auto ids = TinyTokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << text;
  }
}

TEST(TokenizerTest, TextComesBackByteForByteWithoutControlSymbols) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const std::vector<int32_t> ids = TinyTokenizer().Encode(text).value();
    EXPECT_EQ(TinyTokenizer().Decode(ids), text);
    for (const int32_t id : ids) EXPECT_GT(id, 2) << text;
  }
}

// However the text arrives: any first cut, and then byte by byte.
TEST(TokenizerTest, EverySplitGivesTheSameTokens) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const std::vector<int32_t> whole = entry["ids"];
    const size_t step = text.size() > 600 ? 37 : 1;
    for (size_t cut = 0; cut <= text.size(); cut += step) {
      const auto first =
          TinyTokenizer().EncodePrefix(std::string_view(text).substr(0, cut), false, 0);
      ASSERT_TRUE(first.ok()) << first.status();
      const auto rest = TinyTokenizer().EncodePrefix(
          std::string_view(text).substr(static_cast<size_t>(first->consumed)), true,
          first->consumed);
      ASSERT_TRUE(rest.ok()) << rest.status();
      std::vector<int32_t> joined = first->ids;
      joined.insert(joined.end(), rest->ids.begin(), rest->ids.end());
      ASSERT_EQ(joined, whole) << "cut at " << cut << " of " << text;
    }
    std::vector<int32_t> streamed;
    std::string pending;
    for (size_t i = 0; i <= text.size(); ++i) {
      const bool final = i == text.size();
      if (!final) pending += text[i];
      const auto part = TinyTokenizer().EncodePrefix(pending, final, 0);
      ASSERT_TRUE(part.ok()) << part.status();
      streamed.insert(streamed.end(), part->ids.begin(), part->ids.end());
      pending.erase(0, static_cast<size_t>(part->consumed));
      ASSERT_LE(pending.size(), 260u);
    }
    EXPECT_EQ(streamed, whole) << text;
    EXPECT_EQ(pending, "");
  }
}

TEST(TokenizerTest, TokenBytesCoverTheConsumedText) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const auto encoded = TinyTokenizer().EncodePrefix(text, true, 0);
    ASSERT_EQ(encoded->ids.size(), encoded->token_bytes.size());
    size_t offset = 0;
    for (size_t i = 0; i < encoded->ids.size(); ++i) {
      const size_t length = static_cast<size_t>(encoded->token_bytes[i]);
      EXPECT_GE(length, 1u);
      EXPECT_EQ(TinyTokenizer().TokenBytes(encoded->ids[i]), text.substr(offset, length));
      offset += length;
    }
    EXPECT_EQ(offset, text.size());
    EXPECT_EQ(encoded->consumed, static_cast<int64_t>(text.size()));
  }
}

TEST(TokenizerTest, NamesOfControlSymbolsAreOrdinaryText) {
  for (const char* name : {"<lmk>", "<eos>", "<unk>", "<0x41>"}) {
    const std::vector<int32_t> ids = TinyTokenizer().Encode(name).value();
    EXPECT_GT(ids.size(), 1u);
    EXPECT_EQ(TinyTokenizer().Decode(ids), name);
  }
  EXPECT_EQ(TinyTokenizer().TokenBytes(0), "");
  EXPECT_EQ(TinyTokenizer().TokenBytes(1), "");
  EXPECT_EQ(TinyTokenizer().vocab_size(), 320);
}

TEST(TokenizerTest, InvalidUtf8NamesTheByte) {
  const auto whole = TinyTokenizer().Encode("abc\xff");
  EXPECT_EQ(whole.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(whole.status().message()), HasSubstr("at byte 3"));
  const auto later = TinyTokenizer().EncodePrefix("abc\xff", false, 1000);
  EXPECT_THAT(std::string(later.status().message()), HasSubstr("at byte 1003"));
  // A character that is still arriving is an error only once nothing follows.
  EXPECT_TRUE(TinyTokenizer().EncodePrefix("abc\xe4\xb8", false, 0).ok());
  EXPECT_THAT(std::string(TinyTokenizer().EncodePrefix("abc\xe4\xb8", true, 0).status().message()),
              HasSubstr("at byte 3"));
}

TEST(TokenizerTest, RefusesFilesThatAreNoModel) {
  const std::string path = ::testing::TempDir() + "/not_a_tokenizer.model";
  EXPECT_EQ(Tokenizer::Load(path + ".none").status().code(), absl::StatusCode::kInvalidArgument);
  WriteFile(path, "not a model");
  EXPECT_EQ(Tokenizer::Load(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Utf8Test, FindsTheFirstByteThatIsWrong) {
  struct Case {
    std::string text;
    int64_t strict, partial;
  };
  const std::vector<Case> cases = {
      {"", -1, -1},
      {"a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", -1, -1},
      {std::string("\0a", 2), -1, -1},
      {"\x80", 0, 0},              // continuation without a lead
      {"a\xc0\x80", 1, 1},         // overlong
      {"\xe0\x80\x80", 0, 0},      // overlong
      {"\xf0\x80\x80\x80", 0, 0},  // overlong
      {"ab\xed\xa0\x80", 2, 2},    // surrogate
      {"\xf4\x90\x80\x80", 0, 0},  // above U+10FFFF
      {"\xf5", 0, 0},
      {"a\xe4\xb8", 1, -1},  // cut off
      {"a\xe4", 1, -1},
      {"a\xf0\x9f\x98", 1, -1},
      {"\xe4\xb8"
       "a",
       0, 0},
      {"\xed\xa0", 0, 0},  // cut off, but wrong already
  };
  for (const Case& c : cases) {
    EXPECT_EQ(FindInvalidUtf8(c.text, false), c.strict) << ::testing::PrintToString(c.text);
    EXPECT_EQ(FindInvalidUtf8(c.text, true), c.partial) << ::testing::PrintToString(c.text);
  }
}

}  // namespace
}  // namespace recollect::model
