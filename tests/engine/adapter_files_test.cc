// Files of a memory adapter that do not fit their base, are damaged, or are others than those that
// a document was read with.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

class AdapterFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteTinyAdapter(directory_); }
  absl::Status Load() const { return model::CpuModel::Load(directory_).status(); }
  void Change(const std::string& key, const nlohmann::json& value) const {
    nlohmann::json root = nlohmann::json::parse(ReadFile(directory_ + "/memory.json"));
    root[key] = value;
    WriteFile(directory_ + "/memory.json", root.dump());
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/adapter_files_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(AdapterFilesTest, AnAdapterOfAnotherBaseIsRefused) {
  ASSERT_THAT(Load(), IsOk());
  const std::string other(64, 'a');
  Change("base", {{"name", "other"}, {"sha256", other}});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition, other));
  Change("base", {{"sha256", "short"}});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "base.sha256 is \"short\", expected 64 hex digits"));
}

TEST_F(AdapterFilesTest, LayersAndWidthsAreThoseOfTheBase) {
  Change("gca_layers", {2, 4});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "gca_layers is [2,4], expected ascending layers"));
  Change("gca_layers", {2, 3});
  Change("n_low", 4);
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, "n_low is 4, expected 1 to 3"));
  Change("n_low", 2);
  Change("d_pointer", 16);
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "pointer.key_proj.weight is [8, 64], the config expects [16, 64]"));
  Change("d_pointer", 8);
  Change("segment_tokens", 2048);
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "segment_tokens is 2048, expected at most the base's context of 1024"));
  Change("segment_tokens", 128);
  Change("words", 281);
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "words.key_bias is [282], the config expects [281]"));
  Change("words", 282);
  Change("colour", "blue");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, "colour is not a known key"));
}

TEST_F(AdapterFilesTest, ScoreSharesAreTwoNumbersThatDocumentsDoNotDependOn) {
  const auto fingerprint = [&] { return model::CpuModel::Load(directory_).value()->fingerprint(); };
  nlohmann::ordered_json root =
      nlohmann::ordered_json::parse(ReadFile(directory_ + "/memory.json"));
  const std::string with = fingerprint();
  root["score_shares"]["sparse"] = 3;
  WriteFile(directory_ + "/memory.json", root.dump());
  EXPECT_EQ(fingerprint(), with) << "it takes no part in documents";
  root.erase("score_shares");
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_EQ(fingerprint(), with) << "of memories from before there were shares";
  root["n_ret"] = 2;
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_NE(fingerprint(), with);

  Change("score_shares", {{"dense", -1}, {"sparse", 101}, {"spellings", -2}, {"both", 1}});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "score_shares.dense is -1, expected 0 to 100"));
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "score_shares.sparse is 101, expected 0 to 100"));
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "score_shares.spellings is -2, expected 0 to 100"));
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInvalidArgument, "score_shares.both is not a known key"));
  Change("score_shares", {{"dense", 1}});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, "score_shares.sparse missing"));
  Change("score_shares", 2);
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "score_shares is 2, expected an object"));
}

TEST_F(AdapterFilesTest, DocumentsDoNotDependOnTheJudge) {
  const auto fingerprint = [&] { return model::CpuModel::Load(directory_).value()->fingerprint(); };
  const std::string with = fingerprint();
  nlohmann::ordered_json root =
      nlohmann::ordered_json::parse(ReadFile(directory_ + "/memory.json"));
  const nlohmann::ordered_json judge = root["judge"];
  root.erase("judge");
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_EQ(fingerprint(), with);
  const auto problem = [&](const char* key, const nlohmann::json& value) {
    root["judge"] = judge;
    root["judge"][key] = value;
    WriteFile(directory_ + "/memory.json", root.dump());
    return Load();
  };
  const auto says = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_THAT(problem("sentence_tokens", 300),
              says("judge.sentence_tokens is 300, expected 1 to 256"));
  EXPECT_THAT(problem("margin", -1), says("judge.margin is -1, expected 0 to 100"));
  EXPECT_THAT(problem("refusal", ""), says("judge.refusal is \"\", expected a text"));
  EXPECT_THAT(problem("linear", {1, 2}), says("judge.linear is [1,2], expected 13 numbers"));
  EXPECT_THAT(problem("hidden", {{1, 2}}), says("judge.hidden is [[1,2]], expected at most 1024"));
  EXPECT_THAT(problem("features", {"first"}),
              says(R"(judge.features is ["first"], expected ["refuses","own_words",)"));
  EXPECT_THAT(problem("colour", "blue"), says("judge.colour is not a known key"));
}

TEST_F(AdapterFilesTest, DocumentsDoNotDependOnTheReader) {
  const auto fingerprint = [&] { return model::CpuModel::Load(directory_).value()->fingerprint(); };
  const std::string with = fingerprint();
  const std::string tensors = ReadFile(directory_ + "/reader.safetensors");
  nlohmann::ordered_json root =
      nlohmann::ordered_json::parse(ReadFile(directory_ + "/memory.json"));
  const nlohmann::ordered_json reader = root["reader"];
  const auto change = [&](const char* key, const nlohmann::json& value) {
    root["reader"] = reader;
    root["reader"][key] = value;
    WriteFile(directory_ + "/memory.json", root.dump());
    return Load();
  };
  const auto says = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_THAT(change("width", 0), says("reader.width is 0, expected 1 to"));
  EXPECT_THAT(change("heads", 3), says("reader.heads is 3, expected heads of an even width of 32"));
  EXPECT_THAT(change("spans", 21), says("reader.spans is 21, expected 1 to 20"));
  EXPECT_THAT(change("colour", "blue"), says("reader.colour is not a known key"));
  EXPECT_THAT(change("ffn", 40),
              says("ffn.in_proj.weight is [96, 32], the config expects [80, 32]"));
  EXPECT_THAT(change("ffn", 48), IsOk());
  WriteFile(directory_ + "/reader.safetensors", tensors.substr(0, tensors.size() - 100));
  EXPECT_THAT(Load(), says("reader.safetensors"));
  std::filesystem::remove(directory_ + "/reader.safetensors");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, "reader.safetensors"));
  root.erase("reader");
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_THAT(Load(), says("reader is missing, which judge needs"));
  root.erase("judge");
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_EQ(fingerprint(), with);
}

TEST_F(AdapterFilesTest, DocumentsDoNotDependOnTheReranker) {
  const auto fingerprint = [&] { return model::CpuModel::Load(directory_).value()->fingerprint(); };
  const std::string with = fingerprint();
  nlohmann::ordered_json root =
      nlohmann::ordered_json::parse(ReadFile(directory_ + "/memory.json"));
  const nlohmann::ordered_json reranker = root["reranker"];
  const auto change = [&](const char* key, const nlohmann::json& value) {
    root["reranker"] = reranker;
    root["reranker"][key] = value;
    WriteFile(directory_ + "/memory.json", root.dump());
    return Load();
  };
  const auto says = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_THAT(change("layers", 3), says("reranker.layers is 3, expected 1 to 2"));
  EXPECT_THAT(change("sentence_tokens", 0), says("reranker.sentence_tokens is 0, expected 1 to"));
  EXPECT_THAT(change("colour", "blue"), says("reranker.colour is not a known key"));
  EXPECT_THAT(change("rank", 5), says("is [4, 64], the config expects [5, 64]"));
  EXPECT_THAT(change("rank", 4), IsOk());
  std::filesystem::remove(directory_ + "/reranker.safetensors");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, "reranker.safetensors"));
  root.erase("reranker");
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_THAT(Load(), says("judge.features is"));
  nlohmann::ordered_json& judge = root["judge"];
  for (const char* key : {"features", "linear"}) judge[key].erase(12), judge[key].erase(11);
  judge["hidden"] = nlohmann::json::array();
  WriteFile(directory_ + "/memory.json", root.dump(2) + "\n");
  EXPECT_EQ(fingerprint(), with);
}

TEST_F(AdapterFilesTest, DamagedFilesAreErrorsThatNameThem) {
  const std::string tensors = ReadFile(directory_ + "/memory.safetensors");
  WriteFile(directory_ + "/memory.safetensors", tensors.substr(0, tensors.size() - 100));
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, "memory.safetensors"));
  std::filesystem::remove(directory_ + "/memory.safetensors");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, "memory.safetensors"));
  WriteFile(directory_ + "/memory.json", "{");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, "memory.json"));
}

TEST_F(AdapterFilesTest, DocumentsOfAnotherAdapterAreToBeRefreshed) {
  auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  {
    auto engine =
        MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), AdapterModelForTest());
    ASSERT_THAT(Ingest(*engine, "d", "some text of a document"), IsOk());
  }
  nlohmann::json root = nlohmann::json::parse(ReadFile(directory_ + "/memory.json"));
  WriteFile(directory_ + "/memory.json", root.dump(4));  // the same, in other bytes
  auto other = model::CpuModel::Load(directory_);
  ASSERT_THAT(other, IsOk());
  auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store),
                           std::shared_ptr<const model::CpuModel>(*std::move(other)));
  EXPECT_THAT(engine->OpenSession({.mounts = {"d"}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "docs refresh"));
}

}  // namespace
}  // namespace recollect::engine
