// Prefixes as people use them: ingest under a pattern, mount under the same one.
#include <string>
#include <vector>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrefixCliTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    WriteTinyModel(Path("ratplus"), TinyRatPlusConfig(), 1, /*sublayers=*/8);
  }
  ProcessResult OnRatPlus(std::vector<std::string> arguments, const std::string& input = "") const {
    for (const char* argument : {"--model", "ratplus", "--data-dir", "data", "--threads", "2"}) {
      const std::string text = argument;
      arguments.push_back(text == "ratplus" || text == "data" ? Path(text) : text);
    }
    return Run(std::move(arguments), input);
  }
};

TEST_F(PrefixCliTest, IngestListMountAndGenerate) {
  const std::string text = Text(500), more = " under a grey ship";
  const std::vector<std::vector<std::string>> patterns = {
      {},
      {"--dilation", "4", "--window", "64", "--initial", "8"},
      {"--dilation", "4,1/64,-1", "--window", "40"},
      {"--dilation", "-1", "--top-k-blocks", "3", "--context", "1000"}};
  for (const std::vector<std::string>& pattern : patterns) {
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), pattern.begin(), pattern.end());
      return arguments;
    };
    const auto document =
        Json(OnRatPlus(with({"ingest", "--id", "moby", File("moby.txt", text), "--json"})));
    EXPECT_EQ(document["kind"], "prefix");
    EXPECT_EQ(document["chunks"], 0);
    EXPECT_EQ(document["bytes"], text.size());
    const auto mounted = Json(OnRatPlus(with({"generate", "--mount", "moby", "--prompt", more,
                                              "--max-tokens", "20", "--ignore-eos", "--json"})));
    const auto read = Json(OnRatPlus(
        with({"generate", "--prompt-file", "-", "--max-tokens", "20", "--ignore-eos", "--json"}),
        text + more));
    EXPECT_EQ(mounted["tokens"], read["tokens"]);
    EXPECT_EQ(mounted["text"], read["text"]);
    EXPECT_LT(mounted["usage"]["prompt_tokens"], 20);
    EXPECT_EQ(OnRatPlus({"docs", "delete", "moby"}).exit_code, 0);
  }
}

// A checkpoint may bound what attention reaches: a prefix then is of one size however long the
// text.
TEST_F(PrefixCliTest, TheSpanOfAConfigBoundsAPrefix) {
  nlohmann::json config = nlohmann::json::parse(ReadFile(Path("ratplus/config.json")));
  config["local"]["span"] = 64;
  File("ratplus/config.json", config.dump());
  const std::string more = " under a grey ship";
  std::vector<int64_t> sizes;
  std::vector<std::string> answers;
  for (int words : {300, 600}) {
    const std::string text = Text(words);
    ASSERT_EQ(OnRatPlus({"ingest", "--id", "moby", "-"}, text).exit_code, 0);
    const auto document = Json(OnRatPlus({"docs", "get", "moby", "--json"}));
    sizes.push_back(document["state_bytes"]);
    const auto mounted = Json(OnRatPlus({"generate", "--mount", "moby", "--prompt", more,
                                         "--max-tokens", "20", "--ignore-eos", "--json"}));
    const auto read = Json(OnRatPlus(
        {"generate", "--prompt-file", "-", "--max-tokens", "20", "--ignore-eos", "--json"},
        text + more));
    EXPECT_EQ(mounted["tokens"], read["tokens"]);
    answers.push_back(mounted["text"]);
    EXPECT_THAT(OnRatPlus({"docs", "get", "moby"}).out, HasSubstr(", span 64)"));
    EXPECT_EQ(OnRatPlus({"docs", "delete", "moby"}).exit_code, 0);
  }
  EXPECT_EQ(sizes[0], sizes[1]);

  config["local"].erase("span");
  File("ratplus/config.json", config.dump());
  ASSERT_EQ(OnRatPlus({"ingest", "--id", "moby", "-"}, Text(600)).exit_code, 0);
  const auto unbounded = Json(OnRatPlus({"docs", "get", "moby", "--json"}));
  EXPECT_GT(unbounded["state_bytes"], sizes[1]);
  EXPECT_NE(Json(OnRatPlus({"generate", "--mount", "moby", "--prompt", more, "--max-tokens", "20",
                            "--ignore-eos", "--json"}))["text"],
            answers[1]);
}

TEST_F(PrefixCliTest, PeopleSeeKindAndPattern) {
  const ProcessResult ingested =
      OnRatPlus({"ingest", "--id", "moby", "-", "--dilation", "4", "--window", "64"}, Text(500));
  EXPECT_EQ(ingested.exit_code, 0) << ingested.err;
  const std::string pattern = "(window 64, dilation 4, initial 4, span unbounded)";
  EXPECT_THAT(ingested.out, AllOf(HasSubstr("moby: "), HasSubstr("a prefix under " + pattern)));
  EXPECT_THAT(OnRatPlus({"docs", "list"}).out,
              AllOf(HasSubstr("moby"), HasSubstr(" prefix "), HasSubstr(pattern)));
  EXPECT_THAT(OnRatPlus({"docs", "get", "moby"}).out,
              AllOf(HasSubstr("state_bytes"), HasSubstr(pattern)));
  EXPECT_EQ(OnRatPlus({"docs", "text", "moby"}).out, Text(500));
}

TEST_F(PrefixCliTest, WhatDoesNotFitHasItsExitCode) {
  const auto expect = [](const ProcessResult& result, int code, const std::string& message) {
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  for (const char* id : {"a", "b"}) {
    ASSERT_EQ(OnRatPlus({"ingest", "--id", id, "-", "--dilation", "4"}, Text(50)).exit_code, 0);
  }
  expect(OnRatPlus({"generate", "--mount", "a", "--prompt", " the"}), kConflict,
         "made under the pattern (window 0, dilation 4, initial 4, span unbounded), the session's "
         "is (window 0, dilation 16, initial 4, span unbounded)");
  expect(OnRatPlus({"generate", "--mount", "a,b", "--dilation", "4", "--prompt", " the"}),
         kConflict, "\"b\" cannot follow \"a\"");
  expect(OnRatPlus({"ingest", "--id", "a", "-"}, Text(50)), kConflict, "exists, made under");
  expect(OnRatPlus({"ingest", "--id", "c", "-", "--dilation", "3"}, Text(50)), kInvalid,
         "dilation is 3, the checkpoint is adapted to");
  expect(OnRatPlus({"ingest", "--id", "c", "-", "--dilation", "x"}, Text(50)), kInvalid,
         "--dilation: 'x'");
  expect(OnRatPlus({"retrieve", "--mount", "a", "--query", "ship"}), kConflict,
         "family ratplus has no landmarks");
  expect(Embedded({"ingest", "--id", "c", "-", "--dilation", "16"}, Text(50)), kInvalid,
         "family drt ingests under its own pattern");
}

}  // namespace
}  // namespace recollect
