// A model with a dummy prefix, as LLaMA's: the library's ids for whole texts, however they arrive.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::HasSubstr;

const Tokenizer& LlamaTokenizer() {
  static const Tokenizer* const tokenizer =
      Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model")
          .value()
          .release();
  return *tokenizer;
}

// Texts, their ids and the ids' text as the library gives them (make_whole_text_cases.py).
nlohmann::json Cases() {
  return nlohmann::json::parse(
      ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/whole_text_cases.json"));
}

TEST(WholeTextTokenizerTest, AgreesWithTheLibrary) {
  const nlohmann::json cases = Cases();
  ASSERT_GT(cases.size(), 30u);
  for (const auto& entry : cases) {
    const std::string text = entry["text"];
    const auto ids = LlamaTokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(LlamaTokenizer().Decode(*ids), entry["decoded"].get<std::string>()) << text;
  }
}

TEST(WholeTextTokenizerTest, EverySplitGivesTheSameTokensAndCoversTheText) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const std::vector<int32_t> whole = entry["ids"];
    const size_t step = text.size() > 600 ? 37 : 1;
    for (size_t cut = 0; cut <= text.size(); cut += step) {
      const auto first =
          LlamaTokenizer().EncodePrefix(std::string_view(text).substr(0, cut), false, 0);
      ASSERT_TRUE(first.ok()) << first.status();
      const auto rest = LlamaTokenizer().EncodePrefix(
          std::string_view(text).substr(static_cast<size_t>(first->consumed)), true,
          first->consumed);
      ASSERT_TRUE(rest.ok()) << rest.status();
      std::vector<int32_t> joined = first->ids;
      joined.insert(joined.end(), rest->ids.begin(), rest->ids.end());
      ASSERT_EQ(joined, whole) << "cut at " << cut << " of " << text;
      int64_t covered = 0;
      for (const int32_t bytes : first->token_bytes) covered += bytes;
      EXPECT_EQ(covered, first->consumed);
      for (const int32_t bytes : rest->token_bytes) covered += bytes;
      EXPECT_EQ(covered, static_cast<int64_t>(text.size()));
    }
  }
}

TEST(WholeTextTokenizerTest, WordsAreDecidedAsTheyArrive) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "the whale swam under a grey ship and ";
  const auto part = LlamaTokenizer().EncodePrefix(text, /*final=*/false, 0);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_GT(part->consumed, static_cast<int64_t>(text.size()) - 64);
  // Without a place to cut, a stream still does not hold back without end.
  const auto run = LlamaTokenizer().EncodePrefix(std::string(200'000, ' '), false, 0);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->consumed, 3 * 65536);
}

TEST(WholeTextTokenizerTest, ControlSymbolsHaveNoText) {
  for (const int32_t id : {0, 1, 2}) EXPECT_EQ(LlamaTokenizer().TokenBytes(id), "");
  EXPECT_EQ(LlamaTokenizer().Decode({1, 2}), "");
  EXPECT_EQ(LlamaTokenizer().vocab_size(), 400);
}

// The normaliser's options are in the file; each that would change text is refused by name. A later
// field of a message counts, so appending one changes an option.
TEST(WholeTextTokenizerTest, RefusesModelsThatChangeText) {
  const std::string model = ReadFile(RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model");
  const std::string path = ::testing::TempDir() + "/changing_tokenizer.model";
  const auto load = [&](const std::string& added) {
    WriteFile(path, model + added);
    return Tokenizer::Load(path).status();
  };
  EXPECT_TRUE(load("").ok());
  // Normaliser {remove_extra_whitespaces}, {precompiled_charsmap: "x"}, not {escape_whitespaces},
  // trainer {treat_whitespace_as_suffix}.
  for (const std::string& added :
       {std::string("\x1a\x04\x18\x01\x20\x01", 6), std::string("\x1a\x05\x12\x01x\x20\x00", 7),
        std::string("\x1a\x04\x20\x00\x28\x00", 6), std::string("\x12\x03\xc0\x01\x01", 5)}) {
    const absl::Status status = load(added);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the model changes text"));
  }
}

}  // namespace
}  // namespace recollect::model
