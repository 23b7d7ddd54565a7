// POST /tokenize and /detokenize, GET /tokenizer_info.
#include <tuple>

#include "model/cpu/cpu_model.h"
#include "tests/http/http_testing.h"
#include "tests/support/tiny_bpe.h"
#include "tests/support/tiny_llama.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

TEST_F(HttpTest, TokenizeAndBack) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const std::string text = "Grüße, 日本 \xF0\x9F\x98\x80";
  const std::vector<int32_t> expected = tokenizer.Encode(text).value();
  const json tokens = Body(Ask(Post("/tokenize", json({{"prompt", text}}).dump())));
  EXPECT_EQ(tokens, json({{"tokens", expected},
                          {"count", expected.size()},
                          {"max_model_len", 262144},
                          {"token_strs", nullptr}}));
  EXPECT_EQ(Body(Ask(Post("/detokenize", json({{"tokens", expected}}).dump()))),
            json({{"prompt", text}}));
  const json strings = Body(Ask(Post("/tokenize", json({{"prompt", "ab cd"},
                                                        {"model", "fake"},
                                                        {"add_special_tokens", false},
                                                        {"return_token_strs", true}})
                                                      .dump())));
  std::string joined;
  for (const json& string : strings["token_strs"]) joined += string;
  EXPECT_EQ(joined, "ab cd");
  EXPECT_EQ(strings["token_strs"].size(), strings["count"]);
  EXPECT_EQ(Body(Ask(Post("/tokenize", R"({"prompt": ""})")))["count"], 0);
}

// The bytes of a character may be tokens of their own.
TEST_F(HttpTest, APartOfACharacterIsReplaced) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  std::vector<int32_t> tokens = tokenizer.Encode("\xF0\x9F\x98\x80").value();
  ASSERT_GE(tokens.size(), 4u);
  tokens.pop_back();
  EXPECT_EQ(Body(Ask(Post("/detokenize", json({{"tokens", tokens}}).dump())))["prompt"], "\uFFFD");
}

TEST_F(HttpTest, TokenizerInfoHasNoStringsForControlSymbols) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const json info = Body(Ask(Get("/tokenizer_info")));
  EXPECT_EQ(info["tokenizer_class"], "SentencePiece");
  EXPECT_EQ(info["vocab_size"], tokenizer.vocab_size());
  EXPECT_TRUE(info.contains("eos_token") && info["eos_token"].is_null());
}

TEST_F(HttpTest, TokenizerInfoNamesAByteLevelVocabulary) {
  const auto tokenizer = TinyBpeTokenizer(model::PreTokenizer::kSmollm);
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .tokenizer = tokenizer.get()});
  EXPECT_EQ(Body(Ask(Get("/tokenizer_info")))["tokenizer_class"], "ByteLevelBPE");
  server_.reset();  // before its tokenizer
}

TEST_F(HttpTest, AModelsContextBoundsItsPrompts) {
  const std::string directory = ::testing::TempDir() + "/recollect_tokens_of_a_llama";
  WriteTinyLlama(directory);
  const auto model = model::CpuModel::Load(directory).value();
  Start({.listen = "127.0.0.1:0",
         .model_name = "fake",
         .tokenizer = model->tokenizer(),
         .model = model.get()});
  EXPECT_EQ(Body(Ask(Post("/tokenize", R"({"prompt": "ab"})")))["max_model_len"], 128);
  server_.reset();  // before its model
}

TEST_F(HttpTest, TokenizeRefusesByName) {
  StartWithTokenizer();
  const std::tuple<std::string, json, int, std::string> cases[] = {
      {"/tokenize", json::object(), 400, "prompt: missing"},
      {"/tokenize", {{"prompt", 3}}, 400, "prompt: number 3, expected a string"},
      {"/tokenize", {{"prompt", "x"}, {"messages", json::array()}}, 400, "'messages'"},
      {"/tokenize",
       {{"prompt", "x"}, {"add_special_tokens", 1}},
       400,
       "add_special_tokens: number"},
      {"/tokenize", {{"prompt", "x"}, {"model", "other"}}, 404, "model: 'other'"},
      {"/detokenize", json::object(), 400, "tokens: missing"},
      {"/detokenize", {{"tokens", {1, -1}}}, 400, "tokens: -1, limit 0 to "},
      {"/detokenize", {{"tokens", {1, 1 << 30}}}, 400, "tokens: 1073741824, limit 0 to "},
      {"/detokenize",
       {{"tokens", {1.5}}},
       400,
       "tokens: entry 0: number 1.5, expected an array of token ids"},
      {"/detokenize",
       {{"tokens", {int64_t{1} << 33}}},
       400,
       "tokens: entry 0: number 8589934592, expected"},
      {"/detokenize", {{"tokens", "x"}}, 400, "tokens: string"}};
  for (const auto& [path, fields, status, message] : cases)
    ExpectRefused(path, fields, status, message);
  EXPECT_THAT(Ask(Post("/tokenize", "{\"prompt\": \"\xff\"}")), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpTest, WithoutATokenizerThereIsNothingToTokenize) {
  ExpectRefused("/tokenize", {{"prompt", "x"}}, 400, "no tokenizer");
  ExpectRefused("/detokenize", {{"tokens", {1}}}, 400, "no tokenizer");
  EXPECT_THAT(Ask(Get("/tokenizer_info")), StartsWith("HTTP/1.1 400"));
}

}  // namespace
}  // namespace recollect
