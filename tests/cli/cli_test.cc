// The command line as people and scripts use it: exit codes, output, errors. Embedded.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CliTest, IngestListGetTextDelete) {
  const std::string text = Text(2000);
  const auto document =
      Json(Embedded({"ingest", "--id", "moby", File("moby.txt", text), "--json"}));
  EXPECT_EQ(document["id"], "moby");
  EXPECT_EQ(document["bytes"], text.size());
  EXPECT_GT(document["tokens"], 0);
  EXPECT_GT(document["chunks"], 1);
  EXPECT_EQ(document["fingerprint"].get<std::string>().size(), 64u);

  const auto list = Json(Embedded({"docs", "list", "--json"}));
  ASSERT_EQ(list["documents"].size(), 1u);
  EXPECT_EQ(list["documents"][0], document);
  EXPECT_THAT(Embedded({"docs", "list"}).out, HasSubstr("moby"));
  EXPECT_EQ(Json(Embedded({"docs", "get", "moby", "--json"})), document);
  EXPECT_EQ(Embedded({"docs", "text", "moby"}).out, text);
  EXPECT_EQ(Embedded({"docs", "text", "moby", "--begin", "4", "--end", "9"}).out,
            text.substr(4, 5));

  EXPECT_EQ(Embedded({"docs", "delete", "moby"}).exit_code, 0);
  EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
  EXPECT_EQ(Embedded({"docs", "delete", "moby"}).exit_code, kNotFound);
}

TEST_F(CliTest, IngestFromStandardInputEqualsAFile) {
  const std::string text = Text(500);
  const auto piped = Json(Embedded({"ingest", "--id", "a", "-", "--json"}, text));
  const auto file = Json(Embedded({"ingest", "--id", "b", File("b.txt", text), "--json"}));
  EXPECT_EQ(piped["sha256"], file["sha256"]);
  EXPECT_EQ(piped["tokens"], file["tokens"]);
  // Again with the same content, and with other content.
  EXPECT_EQ(Embedded({"ingest", "--id", "a", "-"}, text).exit_code, 0);
  const ProcessResult other = Embedded({"ingest", "--id", "a", "-"}, text + " More.");
  EXPECT_EQ(other.exit_code, kConflict);
  EXPECT_THAT(other.err, HasSubstr("ALREADY_EXISTS"));
  EXPECT_THAT(other.err, HasSubstr("--replace puts the new text in its place"));
}

TEST_F(CliTest, BadInputHasCodeAndMessage) {
  const auto expect = [](const ProcessResult& result, int code, const std::string& message) {
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  };
  expect(Embedded({"ingest", "--id", "e", File("empty.txt", "")}), kInvalid, "no tokens");
  expect(Embedded({"ingest", "--id", "u", "-"}, "abc\xff"), kInvalid, "not valid UTF-8 at byte 3");
  expect(Embedded({"ingest", "--id", "u2", "-"}, "caf\xc3"), kInvalid, "byte 3");
  expect(Embedded({"ingest", "--id", "m", Path("missing.txt")}), kNotFound, "missing.txt");
  expect(Embedded({"ingest", "--id", "d", directory_.string()}), kInvalid, "is a directory");
  expect(Embedded({"ingest", "--id", std::string(300, 'x'), "-"}, "text"), kInvalid,
         "limit 1 to 256");
  expect(Embedded({"ingest", "--id", "t", "--tokens", "-"}, "5 x"), kInvalid, "'x'");
  expect(Embedded({"ingest", "--id", "t", "--tokens", "-"}, "5 1"), kInvalid,
         "1");  // the landmark's id
  expect(Embedded({"ingest", "--id", "t", "--tokens", "-"}, "5 99999"), kInvalid, "99999");
  expect(Embedded({"docs", "get", "nobody"}), kNotFound, "nobody");
  expect(Embedded({"generate", "--mount", "nobody", "--prompt", "x"}), kNotFound, "nobody");
  expect(Embedded({"retrieve", "--mount", "nobody", "--query", "x"}), kNotFound, "nobody");
  expect(Embedded({"generate", "--prompt", "x", "--max-tokens", "1000000000"}), kInvalid,
         "max_tokens: 1000000000, limit 0 to 65536");
  expect(Embedded({"generate", "--prompt", "x", "--temperature", "-1"}), kInvalid,
         "sampling.temperature");
  expect(Embedded({"generate", "--prompt", "x", "--dilation", "7"}), kInvalid, "7");
  expect(Embedded({"generate", "--prompt", "a\xff"}), kInvalid, "--prompt: not UTF-8 at byte 1");
  expect(Embedded({"retrieve", "--query", ""}), kInvalid, "query: empty");
  expect(Embedded({"score", "--text-file", Path("missing.txt")}), kNotFound, "missing.txt");
  expect(Embedded({"retrieve", "--query", "x", "--k", "100000"}), kInvalid,
         "k: 100000, limit 0 to 1024");
  expect(Embedded({"docs", "list", "--memory-budget=-5"}), kUsage, "'-5' is not a size");
  expect(Run({"docs", "list", "--model", Path("model"), "--data-dir", Path("empty.txt")}),
         kConflict, "Not a directory");
}

// On the wire 0 is no value.
TEST_F(CliTest, ATopPTooSmallForTheWireIsNotOne) {
  const auto tokens = [&](const std::string& top_p) {
    return Json(
        Embedded({"generate", "--prompt", Text(20), "--max-tokens", "30", "--ignore-eos",
                  "--temperature", "5", "--seed", "7", "--top-p", top_p, "--json"}))["tokens"];
  };
  EXPECT_EQ(tokens("0"), tokens("1"));
  EXPECT_NE(tokens("1e-46"), tokens("1"));
  EXPECT_EQ(tokens("1e-46"), tokens("1e-30"));
}

// RAT+ through the whole program: the pattern is the request's, and there are no documents.
TEST_F(CliTest, AModelWithoutLandmarksGeneratesUnderThePatternAskedFor) {
  WriteTinyModel(Path("model"), TinyRatPlusConfig(), 1, /*sublayers=*/8);
  const auto generate = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate", "--prompt",     Text(80), "--max-tokens",
                                          "30",       "--ignore-eos", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Embedded(arguments);
  };
  const nlohmann::json standard = Json(generate({}));
  EXPECT_EQ(standard["tokens"].size(), 30u);
  EXPECT_EQ(Json(generate({"--dilation", "16", "--window", "0", "--initial", "4"}))["tokens"],
            standard["tokens"]);
  EXPECT_NE(Json(generate({"--dilation", "1"}))["tokens"], standard["tokens"]);
  EXPECT_EQ(Json(generate({"--dilation", "-1", "--window", "8"}))["tokens"].size(), 30u);
  EXPECT_EQ(Json(generate({"--context", "512", "--top-k-blocks", "2"}))["tokens"].size(), 30u);
  EXPECT_EQ(Json(generate({"--dilation", "4,1/16,-1", "--window", "0,0,8"}))["tokens"].size(), 30u);
  const ProcessResult list = generate({"--dilation", "4,x"});
  EXPECT_EQ(list.exit_code, kInvalid);
  EXPECT_THAT(list.err, HasSubstr("--dilation: '4,x', expected a number"));
  const ProcessResult refused = generate({"--window", "7"});
  EXPECT_EQ(refused.exit_code, kInvalid);
  EXPECT_THAT(refused.err, HasSubstr("window is 7, the checkpoint is adapted to 0 and 8 to 512"));
  const ProcessResult retrieve = Embedded({"retrieve", "--query", "text"});
  EXPECT_EQ(retrieve.exit_code, kConflict);
  EXPECT_THAT(retrieve.err, HasSubstr("family ratplus has no landmarks"));
  const nlohmann::json model = Json(Embedded({"model", "--json"}));
  EXPECT_EQ(model["local"]["dilation"], 16);
  EXPECT_EQ(model["windows"]["max"], 512);
}

TEST_F(CliTest, ARetrievalWithoutMountsSaysThatThereAreNone) {
  ASSERT_EQ(Embedded({"ingest", "--id", "a", "-"}, "a grey ship").exit_code, 0);
  const ProcessResult retrieve = Embedded({"retrieve", "--query", "a grey ship"});
  EXPECT_EQ(retrieve.exit_code, 0);
  EXPECT_THAT(retrieve.err,
              HasSubstr("(nothing was retrieved: no document is mounted, --mount NAME does)"));
}

TEST_F(CliTest, OutputThatCannotBeWrittenIsAFailure) {
  const ProcessResult result =
      RunProcess({"/bin/sh", "-c",
                  absl::StrCat("'", RECOLLECT_BINARY, "' --model '", Path("model"),
                               "' --data-dir :memory: docs list > /dev/full")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
}

// Nor does a descriptor that a library opens as it is loaded take the number.
TEST_F(CliTest, StandardInputThatIsClosedCannotBeRead) {
  const ProcessResult result =
      RunProcess({"/bin/sh", "-c",
                  absl::StrCat("'", RECOLLECT_BINARY, "' --model '", Path("model"),
                               "' --data-dir :memory: ingest --id none - <&-")});
  EXPECT_EQ(result.exit_code, kInvalid);
  EXPECT_THAT(result.err, HasSubstr("standard input: Bad file descriptor"));
}

TEST_F(CliTest, ATokenlongDocumentCanBeMounted) {
  EXPECT_EQ(Json(Embedded({"ingest", "--id", "one", "--tokens", "-", "--json"}, "42"))["tokens"],
            1);
  const auto answer = Json(Embedded({"generate", "--mount", "one", "--prompt", "x", "--max-tokens",
                                     "2", "--retrievals", "--json"}));
  EXPECT_EQ(answer["retrievals"][0]["candidates"], 1);
}

TEST_F(CliTest, GeneratePrintsTheTextAndNothingElse) {
  ASSERT_EQ(Embedded({"ingest", "--id", "d", "-"}, Text(300)).exit_code, 0);
  const std::vector<std::string> arguments = {"generate",  "--mount",      "d",  "--prompt",
                                              "the whale", "--max-tokens", "12", "--ignore-eos"};
  const ProcessResult plain = Embedded(arguments);
  std::vector<std::string> with = arguments;
  with.insert(with.end(), {"--retrievals", "--json"});
  const auto json = Json(Embedded(with));
  EXPECT_EQ(plain.out, json["text"]);
  EXPECT_THAT(plain.err, IsEmpty());
  EXPECT_EQ(json["tokens"].size(), 12u);
  EXPECT_EQ(json["finish_reason"], "max_tokens");
  EXPECT_EQ(json["usage"]["generated_tokens"], 12);
  ASSERT_GE(json["retrievals"].size(), 2u);  // one per group
  EXPECT_EQ(json["retrievals"][0]["hits"][0]["document"], "d");
  with.pop_back();
  const ProcessResult hits = Embedded(with);
  EXPECT_EQ(hits.out, plain.out);
  EXPECT_THAT(hits.err, HasSubstr("d#"));

  // The same from a file, and sampled with a seed, twice.
  const ProcessResult from_file =
      Embedded({"generate", "--mount", "d", "--prompt-file", File("p", "the whale"), "--max-tokens",
                "12", "--ignore-eos"});
  EXPECT_EQ(from_file.out, plain.out);
  const std::vector<std::string> sampled = {"generate", "--prompt", "the", "--temperature",
                                            "1",        "--seed",   "5",   "--max-tokens",
                                            "9",        "--json"};
  EXPECT_EQ(Json(Embedded(sampled))["tokens"], Json(Embedded(sampled))["tokens"]);
}

// Chunks begin and end within characters where those are several tokens.
TEST_F(CliTest, ExcerptsAreOfWholeCharacters) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "x\u20ac";
  ASSERT_EQ(Embedded({"ingest", "--id", "a", "-"}, text).exit_code, 0);
  const ProcessResult generate = Embedded(
      {"generate", "--mount", "a", "--prompt", "a grey ship", "--max-tokens", "1", "--retrievals"});
  EXPECT_THAT(generate.err, HasSubstr("x\u20acx\u20ac"));
  EXPECT_NO_THROW(nlohmann::json(generate.err).dump()) << "not UTF-8: " << generate.err;
}

TEST_F(CliTest, RetrieveGivesTheListsGenerateStartsWith) {
  ASSERT_EQ(Embedded({"ingest", "--id", "a", "-"}, Text(700)).exit_code, 0);
  ASSERT_EQ(Embedded({"ingest", "--id", "b", "-"}, Text(400)).exit_code, 0);
  const auto retrieved =
      Json(Embedded({"retrieve", "--mount", "a,b", "--query", "a grey ship", "--json"}));
  const auto generated =
      Json(Embedded({"generate", "--mount", "a", "--mount", "b", "--prompt", "a grey ship",
                     "--max-tokens", "1", "--retrievals", "--json"}));
  ASSERT_EQ(retrieved["retrievals"].size(), 2u);
  for (int group = 0; group < 2; ++group) {
    const auto& expected = retrieved["retrievals"][group]["hits"];
    const auto& hits = generated["retrievals"][group]["hits"];
    ASSERT_EQ(expected.size(), hits.size());
    for (size_t i = 0; i < hits.size(); ++i) {
      EXPECT_EQ(expected[i]["document"], hits[i]["document"]);
      EXPECT_EQ(expected[i]["chunk"], hits[i]["chunk"]);
      EXPECT_EQ(expected[i]["score"], hits[i]["score"]);
      EXPECT_THAT(expected[i]["text"].get<std::string>(), Not(IsEmpty()));
    }
  }
}

TEST_F(CliTest, ScorePrintsBitsPerByte) {
  const auto json = Json(Embedded({"score", "--text", "the whale swam", "--json"}));
  EXPECT_EQ(json["text_bytes"], 14);
  EXPECT_EQ(json["tokens"].size(), json["logprobs"].size());
  EXPECT_GT(json["bits_per_byte"], 0);
  EXPECT_THAT(Embedded({"score", "--text", "the whale swam"}).out, HasSubstr("bits per byte"));
}

TEST_F(CliTest, ScoreTakesATextOfAnyLengthPieceByPiece) {
  std::string text;
  for (int line = 0; text.size() < 150000; ++line)
    text += absl::StrCat("the whale number ", line, line % 100 == 0 ? "\n" : " ");
  std::ofstream(Path("long.txt")) << text;
  const ProcessResult shown = Embedded({"score", "--text-file", Path("long.txt")});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("bits per byte, "), HasSubstr("by position, tokens:")));
  const auto json = Json(Embedded({"score", "--text-file", Path("long.txt"), "--json"}));
  EXPECT_EQ(json["tokens"].size(), json["logprobs"].size());
  ASSERT_GT(json["ranges"].size(), 1u);
  EXPECT_EQ(json["ranges"][0]["begin"], 0);
  EXPECT_EQ(json["ranges"].back()["end"], json["tokens"].size());
  // Where there is a line's end, pieces have the tokens of the whole.
  EXPECT_NEAR(json["text_bytes"].get<double>(), static_cast<double>(text.size()), 20);
  std::ofstream(Path("unbroken.txt")) << std::string(40000, 'a') + "\u00e9" << std::string(9, 'b');
  EXPECT_THAT(Embedded({"score", "--text-file", Path("unbroken.txt")}).out,
              HasSubstr("perplexity"));
}

TEST_F(CliTest, ModelAndStatsDescribeThemselves) {
  const auto model = Json(Embedded({"model", "--json", "--dtype", "fp32"}));
  EXPECT_EQ(model["name"], "model");
  EXPECT_EQ(model["dtype"], "fp32");
  EXPECT_EQ(model["width"], 32);
  EXPECT_THAT(Embedded({"model"}).out, HasSubstr("fingerprint"));
  EXPECT_THAT(Embedded({"stats"}).out, AllOf(HasSubstr("landmark_step_p50_ms     none\n"),
                                             HasSubstr("store_read_p99_ms        none\n")));
  const auto stats = Json(Embedded({"stats", "--json", "--chunk-states-budget", "8MiB"}));
  for (const char* name :
       {"landmark_bytes", "memory_bytes", "chunk_states_bytes", "store_bytes", "uptime_s"}) {
    EXPECT_TRUE(stats.contains(name)) << name;
  }
  EXPECT_EQ(stats["chunk_states_budget_bytes"], 8 << 20);
}

TEST_F(CliTest, AModelThatIsMissingOrDamagedSaysWhat) {
  const ProcessResult missing = Run({"model", "--model", Path("none"), "--data-dir", ":memory:"});
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr("none"));
  const std::string weights = Path("model") + "/model.safetensors";
  const std::string whole = ReadFile(weights);
  for (const size_t size : {size_t{4}, size_t{1000}, whole.size() - 1}) {
    WriteFile(weights, whole.substr(0, size));
    const ProcessResult truncated = Embedded({"model"});
    EXPECT_EQ(truncated.exit_code, kInvalid) << truncated.err;
    EXPECT_THAT(truncated.err, HasSubstr("INVALID_ARGUMENT: model " + Path("model")));
    EXPECT_THAT(truncated.err, HasSubstr("model.safetensors"));
  }
  WriteFile(weights, whole);
  model::ModelConfig config = TinyConfig();
  config.ffn += 8;
  WriteFile(Path("model") + "/config.json", ConfigJson(config));
  const ProcessResult disagree = Embedded({"model"});
  EXPECT_EQ(disagree.exit_code, kInvalid);
  EXPECT_THAT(disagree.err, HasSubstr("layers.0.ffn.in_proj.weight is [96, 32], the config expects "
                                      "[112, 32]"));
}

TEST_F(CliTest, NoServerIsUnavailableAndTimeoutsAreLate) {
  EXPECT_EQ(Run({"docs", "list", "--server", "127.0.0.1:1"}).exit_code, kUnavailable);
  const ProcessResult late = Embedded(
      {"generate", "--prompt", "x", "--max-tokens", "60000", "--ignore-eos", "--timeout", "0.2"});
  EXPECT_EQ(late.exit_code, kLate);
  EXPECT_THAT(late.err, HasSubstr("DEADLINE_EXCEEDED: gave up after --timeout 0.2 s"));
}

TEST_F(CliTest, ErrorsAreJsonWhenAskedFor) {
  EXPECT_EQ(Embedded({"ingest", "--id", "d", "-"}, "text").exit_code, 0);
  const ProcessResult result = Embedded({"docs", "get", "nobody", "--json"});
  EXPECT_EQ(result.exit_code, kNotFound);
  const auto json = nlohmann::json::parse(result.err, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.err;
  EXPECT_EQ(json["error"]["code"], "NOT_FOUND");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("nobody"));
}

TEST_F(CliTest, DevicesByName) {
  EXPECT_EQ(Json(Embedded({"stats", "--json"}))["landmark_index"], "cpu");
  EXPECT_EQ(Json(Embedded({"stats", "--json"}))["backend"], "cpu");
  EXPECT_EQ(Json(Embedded({"stats", "--json"}))["index"], "exact");
  EXPECT_EQ(Json(Embedded({"model", "--json", "--index", "auto"}))["index"], "auto");
  EXPECT_THAT(Embedded({"stats", "--device", "auto"}).out, HasSubstr("landmark_index"));
  for (const char* name : {"gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", ""}) {
    const ProcessResult unknown = Embedded({"stats", "--device", name});
    EXPECT_EQ(unknown.exit_code, kInvalid) << name;
    EXPECT_THAT(unknown.err, HasSubstr("expected cpu, auto or cuda:N")) << name;
  }
  // Neither this machine nor a build without CUDA has so many.
  const ProcessResult missing = Embedded({"stats", "--device", "cuda:99"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("CUDA"));
  // No family is the CPU's alone.
  WriteTinyModel(Path("ratplus"), TinyRatPlusConfig(), 1, /*sublayers=*/8);
  const ProcessResult no_landmarks =
      Run({"stats", "--device", "cuda:99", "--model", Path("ratplus"), "--data-dir", ":memory:"});
  EXPECT_EQ(no_landmarks.exit_code, missing.exit_code);
  EXPECT_EQ(no_landmarks.err, missing.err);
}

}  // namespace
}  // namespace recollect
