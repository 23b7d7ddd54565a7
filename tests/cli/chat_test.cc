// Talking with a pretrained chat model on the command line.
#include <string>
#include <vector>

#include "tests/cli/chat_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

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
