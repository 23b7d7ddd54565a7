// The verb `import` as people and scripts use it.
#include <filesystem>
#include <string>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImportCliTest : public CliTest {
 protected:
  // A folder as it was downloaded.
  std::string Download(const std::string& checkpoint) const {
    fs::create_directories(Path("in"));
    fs::copy_file(RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model",
                  Path("in/tokenizer.model"));
    fs::copy_file(RECOLLECT_SOURCE_DIR "/tests/golden/hub/" + checkpoint,
                  Path("in/" + checkpoint));
    return Path("in");
  }
};

TEST_F(ImportCliTest, ReportsAsTextAndAsJson) {
  const std::string in = Download("ratplus.pt");
  const ProcessResult text = Run({"import", "--from", "ratplus-hub", in, "--out", Path("a")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("ratplus, 2 layers of width 8, 14 tensors, 5032 parameters"),
                    HasSubstr("MiB of bf16"), HasSubstr("rope_base 10000"),
                    HasSubstr("fingerprint, run in fp32")));
  EXPECT_THAT(text.err, IsEmpty());

  const auto json = Json(Run(
      {"import", "--from", "ratplus-hub", in, "--out", Path("b"), "--dtype", "fp32", "--json"}));
  EXPECT_EQ(json["architecture"], "ratplus");
  EXPECT_EQ(json["parameters"], 5032);
  EXPECT_EQ(json["bytes"], 4 * 5032);
  EXPECT_EQ(json["dtype"], "fp32");
  EXPECT_EQ(json["step"], 52452);
  EXPECT_EQ(json["sha256"]["model.safetensors"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["config"]["adapted_dilations"], nlohmann::json::parse("[1, 64]"));
  const auto model = Json(
      Run({"model", "--model", Path("b"), "--data-dir", ":memory:", "--dtype", "fp32", "--json"}));
  EXPECT_EQ(json["fingerprint"]["fp32"], model["fingerprint"]);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    EXPECT_TRUE(fs::exists(Path("a/") + name)) << name;
    EXPECT_TRUE(fs::exists(Path("b/") + name)) << name;
  }
}

// From a published checkpoint to the tokens of the oracle.
TEST_F(ImportCliTest, AnImportedHybridGeneratesWhatTheOracleDoes) {
  const std::string in = Download("rat_swa.pt");
  const ProcessResult import =
      Run({"import", "--from", "rat-hub", in, "--out", Path("hybrid"), "--dtype", "fp32"});
  ASSERT_EQ(import.exit_code, 0) << import.err;
  const auto oracle =
      nlohmann::json::parse(ReadFile(RECOLLECT_SOURCE_DIR "/tests/golden/hub/rat_swa.json"));
  const std::string prompt = oracle["prompt"];
  const auto generate = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "generate", "--model",  Path("hybrid"), "--data-dir",   Path("data"), "--dtype",     "fp32",
        "--json",   "--prompt", prompt,         "--max-tokens", "20",         "--ignore-eos"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  };
  const auto answer = Json(generate({}));
  EXPECT_EQ(answer["tokens"], oracle["generated"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], oracle["ids"].size());
  const ProcessResult refused = generate({"--dilation", "16", "--window", "3"});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("dilation is 16, the checkpoint is adapted to 4"),
                                 HasSubstr("window is 3, the checkpoint is adapted to 5")));
}

// The keys that docs/importing.md adds by hand.
TEST_F(ImportCliTest, RequestsMayAskForWhatIsAddedToTheConfig) {
  const std::string in = Download("ratplus.pt");
  ASSERT_EQ(Run({"import", "--from", "ratplus-hub", in, "--out", Path("m")}).exit_code, 0);
  const auto generate = [&] {
    return Run({"generate", "--model",        Path("m"),   "--data-dir",   ":memory:", "--dtype",
                "fp32",     "--prompt",       "the whale", "--max-tokens", "4",        "--context",
                "8192",     "--dilation",     "16",        "--window",     "64",       "--initial",
                "2",        "--top-k-blocks", "3",         "--json"});
  };
  const ProcessResult refused = generate();
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("dilation is 16, the checkpoint is adapted to 1, 64"),
                    HasSubstr("window is 64"), HasSubstr("initial is 2"),
                    HasSubstr("context is 8192, the checkpoint has no context to stretch"),
                    HasSubstr("top_k_blocks is 3")));
  const std::string page = ReadFile(RECOLLECT_SOURCE_DIR "/docs/importing.md");
  const std::string fence = "```";
  const size_t begin = page.find(fence + "json\n") + fence.size() + 4;
  const std::string keys = page.substr(begin, page.find(fence, begin) - begin);
  auto config = nlohmann::ordered_json::parse(ReadFile(Path("m/config.json")));
  config.update(nlohmann::ordered_json::parse("{" + keys + "}"));
  WriteFile(Path("m/config.json"), config.dump(2));
  EXPECT_EQ(Json(generate())["tokens"].size(), 4u);
}

TEST_F(ImportCliTest, MistakesHaveTheirExitCodes) {
  const std::string in = Download("rat_swa.bin");
  const auto run = [&](const std::string& from, const std::string& directory,
                       const std::string& out) {
    return Run({"import", "--from", from, directory, "--out", out});
  };
  EXPECT_EQ(Run({"import", in, "--out", Path("o")}).exit_code, 2);  // without --from
  EXPECT_EQ(run("gpt-hub", in, Path("o")).exit_code, 2);
  EXPECT_EQ(
      Run({"import", "--from", "rat-hub", in, "--out", Path("o"), "--head-dim", "0"}).exit_code, 2);
  EXPECT_EQ(run("rat-hub", Path("none"), Path("o")).exit_code, 3);
  const ProcessResult other = run("ratplus-hub", in, Path("o"));
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_THAT(other.err, AllOf(HasSubstr("gate_bias [8] is left over"), HasSubstr("--head-dim")));
  EXPECT_EQ(run("rat-hub", in, Path("model")).exit_code, 7);  // not empty
  EXPECT_FALSE(fs::exists(Path("o")));
  EXPECT_EQ(Run({"import", "--from", "rat-hub", in, "--out", Path("o"), "--head-dim", "2",
                 "--chunk", "16"})
                .exit_code,
            0);
}

}  // namespace
}  // namespace recollect
