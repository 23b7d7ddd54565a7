// The verbs that measure: niah and bench.
#include <map>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kInvalid = 4;

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

TEST_F(CliTest, NiahRunsItsGridAndCleansUp) {
  const std::string haystack = File("haystack.txt", Haystack());
  const std::vector<std::string> arguments = {"niah",
                                              "--haystack",
                                              haystack,
                                              "--tokens",
                                              "512,1k",
                                              "--samples",
                                              "2",
                                              "--task",
                                              "passkey,distractors,hex",
                                              "--distractors",
                                              "3",
                                              "--shard-tokens",
                                              "512",
                                              "--seed",
                                              "4",
                                              "--json",
                                              Path("out.json")};
  const auto report = [&] {
    EXPECT_THAT(Embedded(arguments).out, HasSubstr("passkey"));  // the table
    return nlohmann::json::parse(ReadFile(Path("out.json")));
  };
  const auto json = report();
  EXPECT_EQ(json["cells"].size(), 12u);  // 3 tasks, 2 sizes, 2 phrasings
  for (const auto& cell : json["cells"]) {
    EXPECT_EQ(cell["samples"], 2);
    EXPECT_EQ(cell["gold_hit_rate"].size(), 2u);
    EXPECT_TRUE(cell.contains("bm25_hit_rate"));
    EXPECT_EQ(cell["documents"], cell["tokens"] == 512 ? 1 : 2);
  }
  EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
  // Same seed, same needles and answers.
  const auto again = report();
  for (size_t i = 0; i < json["samples"].size(); ++i) {
    for (const char* field : {"question", "value", "answer", "depth", "needle_in"}) {
      EXPECT_EQ(json["samples"][i][field], again["samples"][i][field]);
    }
  }
  for (const char* control : {"unmounted", "removed", "random"}) {
    const auto controlled =
        Json(Embedded({"niah", "--haystack", haystack, "--tokens", "512", "--samples", "1",
                       "--phrasing", "trained", "--control", control, "--json"}));
    EXPECT_EQ(controlled["control"], control);
    EXPECT_EQ(controlled["cells"][0]["right"], 0);
  }
  // A value that no block holds, whatever the answer to it.
  EXPECT_EQ(json["crossing"].size(), 0u);
  const auto longer =
      Json(Embedded({"niah", "--haystack", haystack, "--tokens", "512", "--samples", "1", "--task",
                     "hex", "--hex-digits", "96", "--phrasing", "trained", "--json"}));
  EXPECT_EQ(longer["samples"][0]["crosses_block"], true);
  EXPECT_EQ(longer["crossing"].size(), 1u);
  // Found out before any work.
  const ProcessResult unwritable =
      Embedded({"niah", "--haystack", haystack, "--json", Path("none") + "/out.json"});
  EXPECT_EQ(unwritable.exit_code, kInvalid);
  EXPECT_THAT(unwritable.err, HasSubstr("--json: cannot write"));
  EXPECT_EQ(Embedded({"niah", "--haystack", haystack, "--tokens", "1m"}).exit_code, kInvalid);
  EXPECT_EQ(Embedded({"niah", "--haystack", haystack, "--tokens", "lots"}).exit_code, kInvalid);
}

TEST_F(CliTest, NiahAsksForTheHaystackItself) {
  const std::string haystack = File("haystack.txt", Haystack());
  std::vector<std::string> arguments = {
      "niah",          "--haystack",  haystack, "--tokens",        "1k",
      "--samples",     "2",           "--task", "quote,reread",    "--cue",
      "whole,thinned", "--cue-words", "6",      "--passage-bytes", "300",
      "--json"};
  const auto json = Json(Embedded(arguments));
  ASSERT_EQ(json["cells"].size(), 3u);
  const auto &thinned = json["cells"][0], &whole = json["cells"][1], &reread = json["cells"][2];
  EXPECT_EQ(thinned["variant"], "thinned");
  EXPECT_EQ(thinned["judged"], 0);
  EXPECT_EQ(thinned["gold_hit_rate"].size(), 2u);
  EXPECT_EQ(whole["judged"], 2);
  EXPECT_EQ(whole["bm25_hit_rate"], 1.0);
  EXPECT_EQ(whole["numbers"]["next 20 words"], 0.0);
  EXPECT_EQ(reread["documents"], 2);
  EXPECT_GT(reread["numbers"]["bits per byte: nothing mounted"], 0.0);
  EXPECT_EQ(reread["numbers"].size(), 3u);
  arguments.insert(arguments.end(), {"--control", "removed"});
  const ProcessResult controlled = Embedded(arguments);
  EXPECT_EQ(controlled.exit_code, kInvalid);
  EXPECT_THAT(controlled.out + controlled.err, HasSubstr("--control removed"));
}

TEST_F(CliTest, NiahAsksForRecordsAndInRulersWords) {
  const std::string haystack = File("haystack.txt", Haystack());
  const auto json =
      Json(Embedded({"niah", "--haystack", haystack, "--tokens", "4k", "--samples", "1", "--task",
                     "records,ruler", "--distractors", "2", "--shard-tokens", "2k", "--json"}));
  std::map<std::string, nlohmann::json> all;
  for (const auto& cell : json["cells"]) {
    EXPECT_EQ(cell["gold_hit_rate"].size(), 2u) << cell;
    EXPECT_TRUE(cell.contains("bm25_hit_rate")) << cell;
    if (cell["variant"] == "(all)") all[cell["task"]] = cell;
  }
  EXPECT_EQ(all["ruler"]["judged"], 9);
  EXPECT_TRUE(all["ruler"]["numbers"].contains("strings found"));
  EXPECT_GE(all["records"]["judged"], 20);
  EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
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
