// The verb bench, and texts that do not fit.
#include "absl/strings/str_cat.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of 400 words, a tenth of which may be keys.
std::string Haystack() {
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    const int word = i * 37 % 400 + i / 400;
    for (const int syllable : {word % 20, word / 20 % 20}) {
      text += "bdfgklmnprstvzhjwxcq"[syllable];
      text += "aeiou"[(syllable + word) % 5];
    }
    text += i % 12 == 11 ? "\n" : " ";
  }
  return text;
}

TEST_F(CliTest, WhatDoesNotFitIsSaidBeforeTheWork) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += Haystack();
  const std::string path = File("text", text);
  // Keys for half of it.
  const auto document = Json(Embedded({"ingest", "--id", "whole", path, "--json"}));
  const auto model = Json(Embedded({"model", "--json"}));
  const int64_t keys =
      document["chunks"].get<int64_t>() * model["retrieval_width"].get<int64_t>() * 2;
  const std::string budget = absl::StrCat(keys / 2);
  const ProcessResult ingest =
      Embedded({"ingest", "--id", "again", path, "--landmark-budget", budget});
  EXPECT_EQ(ingest.exit_code, kExhausted);
  EXPECT_THAT(ingest.err, HasSubstr("for its landmark keys, the budget (--landmark-budget) is"));
  // Token ids: their number is known before any is sent.
  std::string ids;
  for (int64_t i = 0; i < document["tokens"].get<int64_t>(); ++i) ids += "10 ";
  const ProcessResult tokens = Embedded(
      {"ingest", "--id", "ids", "--tokens", File("ids", ids), "--landmark-budget", budget});
  EXPECT_EQ(tokens.exit_code, kExhausted);
  EXPECT_THAT(tokens.err, HasSubstr("for its landmark keys, the budget (--landmark-budget) is"));
}

TEST_F(CliTest, AStreamThatOutgrowsTheBudgetIsStoppedOnItsWay) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += Haystack();
  const auto model = Json(Embedded({"model", "--json"}));
  const std::string budget = absl::StrCat(4 * model["retrieval_width"].get<int64_t>() * 2);
  const ProcessResult piped =
      Embedded({"ingest", "--id", "piped", "-", "--landmark-budget", budget}, text);
  EXPECT_EQ(piped.exit_code, kExhausted);
  EXPECT_THAT(piped.err, HasSubstr("- up to byte "));
  EXPECT_THAT(piped.err, HasSubstr("for its landmark keys, the budget (--landmark-budget) is"));
}

TEST_F(CliTest, BenchMeasuresAndCleansUp) {
  const std::string text = File("text", Text(900));
  const nlohmann::json json = Json(Embedded({"bench", "--text", text, "--tokens", "256,1k",
                                             "--max-tokens", "4", "--repeats", "1", "--json"}));
  EXPECT_EQ(json["backend"], "cpu");
  ASSERT_EQ(json["ingest"].size(), 2u);
  EXPECT_GT(json["ingest"][1]["tokens"], json["ingest"][0]["tokens"]);
  EXPECT_GT(json["ingest"][1]["tokens_per_s"], 0);
  ASSERT_EQ(json["generate"].size(), 3u);
  EXPECT_EQ(json["generate"][0]["mounted_tokens"], 0);
  EXPECT_EQ(json["generate"][0]["ratio"], 1);
  EXPECT_EQ(json["generate"][2]["mounted_tokens"], json["ingest"][1]["tokens"]);
  EXPECT_GT(json["generate"][2]["token_ms"], 0);
  EXPECT_THAT(Embedded({"bench", "--text", text, "--tokens", "256", "--max-tokens", "4"}).out,
              HasSubstr("tokens mounted: first token"));
  EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
  const ProcessResult empty = Embedded({"bench", "--text", File("empty", "")});
  EXPECT_EQ(empty.exit_code, kInvalid);
  EXPECT_THAT(empty.err, HasSubstr("empty, expected some text"));
  EXPECT_THAT(Embedded({"bench", "--text", text, "--tokens", "1x"}).err, HasSubstr("256 to 1024m"));
}

}  // namespace
}  // namespace recollect
