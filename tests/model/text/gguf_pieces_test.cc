// SentencePiece vocabularies of GGUF files: the ids of the tokenizer.model that they come from, and
// what such files have beside it.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/sentencepiece_tokenizer.h"
#include "model/text/words.h"
#include "model/weights/gguf.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_pieces.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class GgufPiecesTest : public ::testing::Test {
 protected:
  int32_t Add(const std::string& text, TokenType type, float score = 0) {
    pieces_.push_back({text, score, type});
    return static_cast<int32_t>(pieces_.size()) - 1;
  }
  absl::StatusOr<SentencePieceVocabulary> Read() {
    SetPieces(pieces_, writer_);
    const std::string path = ::testing::TempDir() + "/pieces.gguf";
    WriteFile(path, writer_.Bytes());
    const auto file = GgufFile::Open(path);
    if (!file.ok()) return file.status();
    return SentencePieceVocabulary::FromGguf(file->metadata());
  }
  absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Make() {
    auto vocabulary = Read();
    if (!vocabulary.ok()) return vocabulary.status();
    return SentencePieceTokenizer::Create(*std::move(vocabulary));
  }

  std::vector<SentencePiece> pieces_ = TinyPieces().pieces;
  GgufWriter writer_;
};

nlohmann::json Cases() {
  return nlohmann::json::parse(
      ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/whole_text_cases.json"));
}

TEST_F(GgufPiecesTest, IdsAreThoseOfTheModelFile) {
  const auto tokenizer = Make();
  ASSERT_THAT(tokenizer, IsOk());
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    EXPECT_EQ((*tokenizer)->Encode(text).value(), entry["ids"].get<std::vector<int32_t>>()) << text;
  }
  const auto model = Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model");
  for (int32_t id = 0; id < (*model)->vocab_size(); ++id) {
    EXPECT_EQ((*tokenizer)->TokenBytes(id), (*model)->TokenBytes(id)) << id;
    EXPECT_EQ((*tokenizer)->ControlName(id), (*model)->ControlName(id)) << id;
  }
  const Words words = Words::Make(**tokenizer), expected = Words::Make(**model);
  ASSERT_EQ(words.count(), expected.count());
  for (int32_t id = 0; id < words.tokens(); ++id) EXPECT_EQ(words.word(id), expected.word(id));
}

TEST_F(GgufPiecesTest, WordsOfPiecesAreThoseOfTheirTexts) {
  const auto tokenizer = Make();
  ASSERT_THAT(tokenizer, IsOk());
  const Words words = Words::Make(**tokenizer);
  const int32_t the = (*tokenizer)->Encode("the").value()[0];
  EXPECT_EQ(pieces_[static_cast<size_t>(the)].text, "\u2581the");
  EXPECT_EQ(words.text(words.word(the)), "the");
  EXPECT_EQ(words.idf(words.word(the)), WordIdf("the"));
  EXPECT_EQ(words.text(words.word(3 + 'A')), "a");  // a byte
  EXPECT_EQ(words.text(words.word(2)), "</s>");
}

// What a file does not say is as in llama.cpp.
TEST_F(GgufPiecesTest, DefaultsAreThoseOfLlamaModels) {
  const auto vocabulary = Read();
  ASSERT_THAT(vocabulary, IsOk());
  EXPECT_TRUE(vocabulary->dummy_prefix);
  EXPECT_TRUE(vocabulary->add_bos);
  EXPECT_EQ(vocabulary->bos, 1);
  EXPECT_EQ(SentencePieceTokenizer::Create(*vocabulary).value()->BeginToken(), 1);
}

TEST_F(GgufPiecesTest, TheFileSaysWhatComesBeforeATextInIt) {
  const int32_t begin = Add("<begin>", TokenType::kUserDefined);
  writer_.Set("tokenizer.ggml.add_space_prefix", false)
      .Set("tokenizer.ggml.add_bos_token", false)
      .Set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(begin));
  const auto vocabulary = Read();
  ASSERT_THAT(vocabulary, IsOk());
  EXPECT_FALSE(vocabulary->add_bos);
  EXPECT_EQ(vocabulary->bos, begin);
  const auto tokenizer = SentencePieceTokenizer::Create(*vocabulary).value();
  EXPECT_EQ(tokenizer->ControlName(begin), "<begin>");
  // Without the space a text has the ids of the library for a text that follows one.
  const auto spaced = Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model");
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    if (text.empty()) continue;
    const auto ids = tokenizer->Encode(" " + text).value();
    EXPECT_EQ(ids, entry["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(ids, (*spaced)->Encode(text).value());
    if (text.find(kSpaceMark) == text.npos) {
      EXPECT_EQ(tokenizer->Decode(ids), " " + text);
    }
  }
}

TEST_F(GgufPiecesTest, UserDefinedTokensAreFoundInTexts) {
  const int32_t blanks = Add("z  z", TokenType::kUserDefined);
  const int32_t table = Add("<table>", TokenType::kUserDefined);
  const int32_t longer = Add("<table> x", TokenType::kUserDefined);
  const auto tokenizer = Make().value();
  EXPECT_EQ(tokenizer->TokenBytes(longer), "<table> x");
  const auto ids = tokenizer->Encode("<table><table> x").value();
  EXPECT_THAT(std::vector(ids.end() - 2, ids.end()), ElementsAre(table, longer));
  EXPECT_EQ(tokenizer->Encode("z  z").value().back(), blanks);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("   a  <table> x").value()), "   a  <table> x");
}

// Whatever type the file gives them: as text they would end or begin a message inside one.
TEST_F(GgufPiecesTest, MarksOfConversationsAreControlTokens) {
  std::vector<int32_t> marks;
  for (const char* mark : {"<|im_start|>", "<|im_end|>", "[INST]", "<end_of_turn>"}) {
    marks.push_back(Add(mark, TokenType::kUserDefined));
    marks.push_back(Add(std::string("<|x") + mark + "|>", TokenType::kNormal, 1e6f));
  }
  marks.push_back(Add("the end", TokenType::kNormal));
  writer_.Set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(marks.back()));
  const auto tokenizer = Make().value();
  for (const int32_t mark : marks) {
    const std::string name = pieces_[static_cast<size_t>(mark)].text;
    EXPECT_EQ(tokenizer->ControlName(mark), name);
    EXPECT_EQ(tokenizer->TokenBytes(mark), "");
    const std::vector<int32_t> ids = tokenizer->Encode("a " + name + name).value();
    for (const int32_t id : ids) {
      EXPECT_EQ(tokenizer->ControlName(id), "") << name;
    }
  }
}

TEST_F(GgufPiecesTest, UnusedTokensStandForNothing) {
  const int32_t unused = Add("\u2581the\u2581whale", TokenType::kUnused, 1e6f);
  const auto tokenizer = Make().value();
  EXPECT_EQ(tokenizer->TokenBytes(unused), "");
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("the whale").value()), "the whale");
}

TEST_F(GgufPiecesTest, RefusesWhatCannotBeUsed) {
  const auto changed = [&](size_t id, const SentencePiece& piece) {
    const SentencePiece before = std::exchange(pieces_[id], piece);
    writer_ = GgufWriter();
    const absl::Status status = Make().status();
    pieces_[id] = before;
    return status;
  };
  EXPECT_THAT(changed(7, {"<0x0>", 0, TokenType::kByte}),
              StatusIs(kInvalid, "piece 7 is the byte \"<0x0>\", expected two hex digits"));
  EXPECT_THAT(changed(3 + 0x41, {"x", 0, TokenType::kNormal}),
              StatusIs(kInvalid, "no piece for byte 65, expected a model with byte fallback"));
  EXPECT_THAT(changed(300, {"x", std::nanf(""), TokenType::kNormal}),
              StatusIs(kInvalid, "the score of piece 300 is nan"));
  EXPECT_THAT(changed(300, {"", 0, TokenType::kUserDefined}),
              StatusIs(kInvalid, "piece 300 is the user-defined symbol \"\", expected some text"));
  EXPECT_THAT(changed(9, {"x", 0, static_cast<TokenType>(7)}),
              StatusIs(kInvalid,
                       "tokenizer.ggml.token_type of token 9 is 7, expected 1 normal, 2 "
                       "unknown, 3 control, 4 user-defined, 5 unused or 6 byte"));
}

TEST_F(GgufPiecesTest, RefusesListsOfOtherLengthsAndIdsThatThereAreNot) {
  GgufWriter& writer = writer_;
  writer.Set("tokenizer.ggml.eot_token_id", uint32_t{400});
  EXPECT_THAT(Read(), StatusIs(kInvalid,
                               "tokenizer.ggml.eot_token_id is 400, expected one of the "
                               "400 tokens"));
  for (const char* key : {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    GgufWriter other;
    other.SetArray("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    const bool scores = std::string_view(key) == "tokenizer.ggml.scores";
    other.SetArray("tokenizer.ggml.scores", std::vector<float>(scores ? 1 : 2));
    other.SetArray("tokenizer.ggml.token_type", std::vector<int32_t>(scores ? 2 : 3, 1));
    const std::string path = ::testing::TempDir() + "/lengths.gguf";
    WriteFile(path, other.Bytes());
    const auto file = GgufFile::Open(path);
    ASSERT_THAT(file, IsOk());
    EXPECT_THAT(SentencePieceVocabulary::FromGguf(file->metadata()),
                StatusIs(kInvalid, std::string(key) + " has " + (scores ? "1" : "3") +
                                       " entries, expected one for each of the 2 tokens"));
  }
}

}  // namespace
}  // namespace recollect::model
