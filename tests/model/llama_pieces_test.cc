// Models of the family llama with a SentencePiece vocabulary, as of LLaMA 1 and 2, TinyLlama and
// Mistral.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "model/text/words.h"
#include "tests/model/model_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class LlamaPiecesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    WriteTinyLlamaOfPieces(pieces_);
  }
  std::string File(const std::string& name) const { return directory_ + "/" + name; }

  const std::string directory_ = Directory("files");
  const std::string pieces_ = directory_ + "/hub";
};

TEST_F(LlamaPiecesTest, AFileMayHaveASentencePieceVocabulary) {
  WriteGguf(pieces_, File("pieces.gguf"));
  const auto model = CpuModel::Load(File("pieces.gguf"));
  ASSERT_THAT(model, IsOk());
  const auto library = Tokenizer::Load(pieces_ + "/tokenizer.model");
  const std::vector<int32_t> ids = (*library)->Encode("the whale, 1851").value();
  EXPECT_EQ((*model)->tokenizer()->Encode("the whale, 1851").value(), ids);
  EXPECT_EQ((*model)->begin_token(), 1);
  EXPECT_TRUE((*model)->config().Ends(2));
  ASSERT_NE((*model)->chat_template(), nullptr) << (*model)->chat_template_status();
  EXPECT_EQ((*model)->chat_template()->name(), "zephyr");
  const auto chat = (*model)->chat_template()->Render(
      *(*model)->tokenizer(), std::vector<ChatMessage>{{ChatRole::kUser, "Hi"}});
  ASSERT_THAT(chat, IsOk());
  EXPECT_EQ(chat->front(), 1);  // asked for by the file, though the template does not write it
  ASSERT_NE((*model)->words(), nullptr);
  EXPECT_EQ((*model)->words()->text((*model)->words()->word(ids[0])), "the");
  EXPECT_EQ(RunTokens(**model, (*model)->config().local, ids, 64).size(), ids.size() * 400);
}

TEST_F(LlamaPiecesTest, ASentencePieceVocabularyNeedNotNameItsEnds) {
  std::string bytes = GgufOf(pieces_).Bytes();
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    bytes[bytes.find(key)] = 'T';  // another key
  }
  WriteFile(File("nameless.gguf"), bytes);
  const auto model = Model::Load(File("nameless.gguf"));
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->begin_token(), 1);
  EXPECT_TRUE((*model)->config().Ends(2));
}

// In the layout of Hugging Face: tokenizer.model, with the tokens that were added to it.
TEST_F(LlamaPiecesTest, ADirectoryMayHaveASentencePieceVocabulary) {
  WriteGguf(pieces_, File("pieces.gguf"));
  const auto gguf = Model::Load(File("pieces.gguf"));
  const auto hub = Model::Load(pieces_);
  ASSERT_THAT(hub, IsOk());
  EXPECT_EQ((*hub)->begin_token(), 1);
  ASSERT_NE((*hub)->chat_template(), nullptr) << (*hub)->chat_template_status();
  const std::vector<ChatMessage> turn = {{ChatRole::kUser, "Hi </s>"}};
  EXPECT_EQ((*hub)->chat_template()->Render(*(*hub)->tokenizer(), turn).value(),
            (*gguf)->chat_template()->Render(*(*gguf)->tokenizer(), turn).value());
  // The same vocabulary often lies beside it as a tokenizer.json, which is not read then; another
  // tokenizer.model, as LLaMA 3's, is not.
  WriteFile(pieces_ + "/tokenizer.json", "{}");
  EXPECT_EQ((*Model::Load(pieces_))->fingerprint(), (*hub)->fingerprint());
  const std::string bytes = File("bytes");
  WriteTinyLlama(bytes);
  WriteFile(bytes + "/tokenizer.model", "IQ== 0\n");
  EXPECT_EQ((*Model::Load(bytes))->tokenizer()->vocab_size(), 4096);
}

TEST_F(LlamaPiecesTest, ADirectoryMayAddTokensToASentencePieceVocabulary) {
  json config = TinyLlamaConfig();
  config["vocab_size"] = 410;
  WriteTinyLlama(pieces_, config);
  json settings = {{"bos_token", {{"content", "<s>"}}}, {"add_bos_token", false}};
  settings["added_tokens_decoder"] = {{"1", {{"content", "<s>"}, {"special", true}}},
                                      {"401", {{"content", "<|im_start|>"}, {"special", false}}},
                                      {"402", {{"content", "<tool>"}, {"special", false}}},
                                      {"403", {{"content", "<other>"}, {"special", true}}}};
  WriteFile(pieces_ + "/tokenizer_config.json", settings.dump());
  const auto model = Model::Load(pieces_);
  ASSERT_THAT(model, IsOk());
  const Tokenizer& tokenizer = *(*model)->tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 410);
  EXPECT_EQ((*model)->begin_token(), std::nullopt);
  EXPECT_EQ(tokenizer.ControlToken("<|im_start|>"), 401);
  EXPECT_EQ(tokenizer.ControlToken("<other>"), 403);
  EXPECT_EQ(tokenizer.Encode("<|im_start|><other><tool>").value().back(), 402);
  for (const int32_t id : {400, 404, 409}) EXPECT_EQ(tokenizer.TokenBytes(id), "");
  // Or in a file of their own, as older ones.
  WriteFile(pieces_ + "/tokenizer_config.json", "{}");
  WriteFile(pieces_ + "/added_tokens.json", json({{"<tool>", 400}}).dump());
  EXPECT_EQ((*Model::Load(pieces_))->tokenizer()->TokenBytes(400), "<tool>");
  EXPECT_EQ((*Model::Load(pieces_))->begin_token(), 1);
  for (const json& wrong : {json(410), json(-1), json("x")}) {
    WriteFile(pieces_ + "/added_tokens.json", json({{"<tool>", wrong}}).dump());
    EXPECT_THAT(Model::Load(pieces_),
                StatusIs(kInvalid, absl::StrCat("added token \"<tool>\" has the id ", wrong.dump(),
                                                ", expected one of the embedding's 410 rows")));
  }
}

}  // namespace
}  // namespace recollect::model
