// Vocabularies from the two kinds of files, and what is refused by name.
#include "model/text/bpe_vocabulary.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/gguf.h"
#include "nlohmann/json.hpp"
#include "tests/support/gguf_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_bpe.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

json SmallJson() {
  return {{"added_tokens",
           {{{"id", 4}, {"content", "<end>"}, {"special", true}},
            {{"id", 3}, {"content", "<tool>"}, {"special", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", kByteLevel},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
            {"merges", json::array({"a b"})}}}};
}

absl::StatusOr<BpeVocabulary> Read(const json& file) {
  return BpeVocabulary::FromTokenizerJson(file.dump());
}

TEST(TokenizerJsonTest, ReadsTokensTypesAndMerges) {
  const auto vocabulary = Read(SmallJson());
  ASSERT_THAT(vocabulary, IsOk());
  EXPECT_THAT(vocabulary->tokens, ElementsAre("a", "b", "ab", "<tool>", "<end>"));
  EXPECT_THAT(vocabulary->types,
              ElementsAre(TokenType::kNormal, TokenType::kNormal, TokenType::kNormal,
                          TokenType::kUserDefined, TokenType::kControl));
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
  EXPECT_EQ(vocabulary->pre, PreTokenizer::kGpt2);
  EXPECT_FALSE(vocabulary->ignore_merges);
  json pairs = SmallJson();
  pairs["model"]["merges"] = json::array({json::array({"a", "b"})});
  pairs["model"]["ignore_merges"] = true;
  EXPECT_THAT(Read(pairs)->merges, ElementsAre("a b"));
  EXPECT_TRUE(Read(pairs)->ignore_merges);
  // In files of the vocabulary's own tokens, those that are special become control tokens.
  EXPECT_EQ(TinyBpeVocabulary().types[1], TokenType::kControl);
  EXPECT_EQ(TinyBpeVocabulary().tokens.size(), 4096u);
}

TEST(TokenizerJsonTest, KnowsTheRulesByTheirStructure) {
  const auto rule = [](const json& part) {
    json file = SmallJson();
    file["pre_tokenizer"] = part;
    return Read(file)->pre;
  };
  const auto sequence = [](const json& first, bool expression) {
    json second = kByteLevel;
    second["use_regex"] = expression;
    return json{{"type", "Sequence"}, {"pretokenizers", json::array({first, second})}};
  };
  const auto split = [](const char* numbers) {
    return json{
        {"type", "Split"},
        {"pattern",
         {{"Regex",
           absl::StrCat("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|", numbers,
                        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
                        "\\s+")}}},
        {"behavior", "Isolated"},
        {"invert", false}};
  };
  EXPECT_EQ(rule(kByteLevel), PreTokenizer::kGpt2);
  EXPECT_EQ(rule(sequence({{"type", "Digits"}, {"individual_digits", true}}, true)),
            PreTokenizer::kSmollm);
  EXPECT_EQ(rule(sequence(split("\\p{N}{1,3}"), false)), PreTokenizer::kLlamaBpe);
  EXPECT_EQ(rule(sequence(split("\\p{N}"), false)), PreTokenizer::kQwen2);
  for (const json& other :
       {json(nullptr), json{{"type", "Whitespace"}}, json{{"type", "ByteLevel"}},
        sequence({{"type", "Digits"}, {"individual_digits", false}}, true),
        sequence(split("\\p{N}{1,4}"), false), sequence(split("\\p{N}"), true)}) {
    json file = SmallJson();
    file["pre_tokenizer"] = other;
    EXPECT_THAT(Read(file),
                StatusIs(kInvalid, "expected the rule gpt-2, smollm, llama-bpe or qwen2"));
  }
}

TEST(TokenizerJsonTest, RefusesWhatIsNotByteLevelBpe) {
  const auto status = [](const char* pointer, const json& value) {
    json file = SmallJson();
    file[json::json_pointer(pointer)] = value;
    return Read(file).status();
  };
  EXPECT_THAT(BpeVocabulary::FromTokenizerJson("{"), StatusIs(kInvalid, "not JSON"));
  EXPECT_THAT(Read(json::array()), StatusIs(kInvalid, "model is null"));
  EXPECT_THAT(status("/model/type", "Unigram"),
              StatusIs(kInvalid, "model.type is \"Unigram\", expected \"BPE\""));
  EXPECT_THAT(status("/model/byte_fallback", true),
              StatusIs(kInvalid,
                       "model.byte_fallback is true, expected false: this is a vocabulary of "
                       "SentencePiece, which is read from tokenizer.model; get"));
  EXPECT_THAT(status("/model/dropout", 0.5), StatusIs(kInvalid, "model.dropout is 0.5"));
  EXPECT_THAT(status("/model/end_of_word_suffix", "</w>"),
              StatusIs(kInvalid, "model.end_of_word_suffix is \"</w>\""));
  EXPECT_THAT(status("/normalizer", {{"type", "Lowercase"}}), StatusIs(kInvalid, "normalizer is"));
  EXPECT_THAT(status("/normalizer", {{"type", "NFC"}}), IsOk());
  EXPECT_THAT(status("/model/vocab", 3), StatusIs(kInvalid, "model.vocab is 3"));
  EXPECT_THAT(status("/model/vocab/b", 5),
              StatusIs(kInvalid, "the id of token \"b\" is 5, expected less than the 5 tokens"));
  EXPECT_THAT(status("/model/vocab/b", -1), StatusIs(kInvalid, "is -1"));
  EXPECT_THAT(status("/model/vocab/b", 2), StatusIs(kInvalid, "id 2 is of token "));
  EXPECT_THAT(status("/model/merges", "a b"), StatusIs(kInvalid, "model.merges is \"a b\""));
  EXPECT_THAT(status("/model/merges", json::array({json::array({"a", "b", "c"})})),
              StatusIs(kInvalid, "merge 0 is [\"a\""));
  EXPECT_THAT(status("/added_tokens", json::array({json{{"id", 3}}})),
              StatusIs(kInvalid, "an entry of added_tokens"));
  EXPECT_THAT(status("/added_tokens", "x"), StatusIs(kInvalid, "added_tokens is \"x\""));
}

class GgufVocabularyTest : public ::testing::Test {
 protected:
  absl::StatusOr<BpeVocabulary> Read() {
    GgufWriter writer;
    writer.Set("tokenizer.ggml.model", model_).Set("tokenizer.ggml.pre", pre_);
    writer.SetArray("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab", "<end>"});
    writer.SetArray("tokenizer.ggml.token_type", types_);
    writer.SetArray("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    writer.Set("tokenizer.ggml.bos_token_id", begin_);
    writer.Set("tokenizer.ggml.add_bos_token", true);
    const std::string path = ::testing::TempDir() + "/vocabulary.gguf";
    WriteFile(path, writer.Bytes());
    const auto file = GgufFile::Open(path);
    if (!file.ok()) return file.status();
    return BpeVocabulary::FromGguf(file->metadata());
  }
  std::string model_ = "gpt2", pre_ = "llama-bpe";
  std::vector<int32_t> types_ = {1, 1, 1, 3};
  uint32_t begin_ = 3;
};

TEST_F(GgufVocabularyTest, ReadsTheMetadata) {
  const auto vocabulary = Read();
  ASSERT_THAT(vocabulary, IsOk());
  EXPECT_THAT(vocabulary->tokens, ElementsAre("a", "b", "ab", "<end>"));
  EXPECT_EQ(vocabulary->types[3], TokenType::kControl);
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
  EXPECT_EQ(vocabulary->pre, PreTokenizer::kLlamaBpe);
  EXPECT_TRUE(vocabulary->ignore_merges);
  EXPECT_EQ(vocabulary->bos, 3);
  EXPECT_EQ(vocabulary->eos, -1);
  EXPECT_TRUE(vocabulary->add_bos);
}

TEST_F(GgufVocabularyTest, RefusesAnotherRule) {
  pre_ = "deepseek-llm";
  EXPECT_THAT(Read(), StatusIs(kInvalid, "tokenizer.ggml.pre: pre-tokenizer \"deepseek-llm\""));
}

TEST_F(GgufVocabularyTest, RefusesAnotherModel) {
  model_ = "bert";
  EXPECT_THAT(Read(),
              StatusIs(kInvalid,
                       "tokenizer.ggml.model is \"bert\", expected \"gpt2\" (byte-level BPE) "
                       "or \"llama\" (SentencePiece)"));
}

TEST_F(GgufVocabularyTest, RefusesATypeThatThereIsNot) {
  types_[1] = 7;
  EXPECT_THAT(Read(), StatusIs(kInvalid, "tokenizer.ggml.token_type of token 1 is 7"));
}

TEST_F(GgufVocabularyTest, RefusesAnIdOutsideTheVocabulary) {
  begin_ = 4;
  EXPECT_THAT(Read(),
              StatusIs(kInvalid, "tokenizer.ggml.bos_token_id is 4, expected one of the 4"));
}

}  // namespace
}  // namespace recollect::model
