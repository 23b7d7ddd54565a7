// The verbs that measure: niah and bench.
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

// A tenth of 400 words are keys: enough for few needles.
std::vector<std::string> HideAll(const std::string& haystack) {
  return {"niah",
          "--haystack",
          haystack,
          "--hide",
          "all",
          "--tokens",
          "4k",
          "--task",
          "passkey,hex,quote,records",
          "--distractors",
          "0",
          "--samples",
          "2",
          "--samples-per-shape",
          "1",
          "--cue-words",
          "6",
          "--json"};
}

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(CliTest, NiahHidesAllInOneDocumentThatIsReadOnce) {
  const std::string haystack = File("haystack.txt", Haystack());
  const auto text_of_document = [&] {
    const auto documents = Json(Embedded({"docs", "list", "--json"}))["documents"];
    EXPECT_EQ(documents.size(), 1u);
    return Embedded({"docs", "text", documents[0]["id"].get<std::string>()}).out;
  };
  const auto delete_document = [&] {
    const auto documents = Json(Embedded({"docs", "list", "--json"}))["documents"];
    EXPECT_EQ(Embedded({"docs", "delete", documents[0]["id"].get<std::string>()}).exit_code, 0);
  };
  const auto json = Json(Embedded(With(HideAll(haystack), {"--keep"})));
  std::map<std::string, int> samples;
  int that_read = 0;
  for (const auto& cell : json["cells"]) {
    if (cell["variant"] == "(all)") continue;
    samples[cell["task"]] += cell["samples"].get<int>();
    that_read += cell["ingest_tokens_per_s"] > 0 ? 1 : 0;
    EXPECT_EQ(cell["documents"], 1);
    EXPECT_EQ(cell["mounted_tokens"], json["cells"][0]["mounted_tokens"]);
  }
  EXPECT_EQ(samples["passkey"], 4);  // two wordings
  EXPECT_EQ(samples["hex"], 4);
  EXPECT_EQ(samples["quote"], 2);
  EXPECT_GE(samples["records"], 20);
  EXPECT_EQ(that_read, 1);
  const std::string text = text_of_document();
  for (const auto& sample : json["samples"]) {
    EXPECT_THAT(text, HasSubstr(sample["value"].get<std::string>()));
    EXPECT_GE(sample["depth"], 0);
    EXPECT_LE(sample["depth"], 1);
  }
  // Asked again: the document is there. Controls ask the first of the same samples.
  const auto again = Json(Embedded(
      With(HideAll(haystack), {"--control", "none,unmounted,random", "--control-samples", "1"})));
  ASSERT_EQ(again["samples"].size(), json["samples"].size());
  for (size_t i = 0; i < json["samples"].size(); ++i) {
    for (const char* field : {"question", "value", "answer", "depth", "gold_hit"}) {
      EXPECT_EQ(json["samples"][i][field], again["samples"][i][field]);
    }
  }
  EXPECT_EQ(again["cells"][0]["ingest_tokens_per_s"], 0);
  ASSERT_EQ(again["controls"].size(), 2u);
  EXPECT_EQ(again["controls"][0]["control"], "unmounted");
  EXPECT_EQ(again["controls"][1]["control"], "random");
  for (const auto& control : again["controls"]) {
    EXPECT_EQ(control["cells"][0]["samples"], 1);
    EXPECT_EQ(control["samples"][0]["question"], json["samples"][0]["question"]);
    EXPECT_EQ(control["samples"][0]["mounted_tokens"] == 0, control["control"] == "unmounted");
  }
  EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
  // Without what is asked for.
  const auto removed = Json(Embedded(With(HideAll(haystack), {"--control", "removed", "--keep"})));
  const std::string rest = text_of_document();
  ASSERT_EQ(removed["samples"].size(), json["samples"].size());
  for (const auto& sample : removed["samples"]) {
    if (sample["task"] == "records") continue;  // times of day come twice
    EXPECT_THAT(rest, Not(HasSubstr(sample["value"].get<std::string>())));
  }
  delete_document();
  const ProcessResult refused =
      Embedded({"niah", "--haystack", haystack, "--hide", "all", "--task", "passkey,ruler"});
  EXPECT_EQ(refused.exit_code, kInvalid);
  EXPECT_THAT(refused.err, HasSubstr("--hide all: not for --task ruler"));
}

TEST_F(CliTest, NiahGoesOnWhereItWasInterrupted) {
  const std::string haystack = File("haystack.txt", Haystack());
  const std::string report = Path("out.json"), unfinished = report + ".unfinished";
  for (const char* hide : {"all", "each"}) {
    SCOPED_TRACE(hide);
    const std::vector<std::string> arguments = {
        "niah",   "--haystack", haystack,    "--tokens", "1k",     "--task", "passkey,quote",
        "--hide", hide,         "--samples", "3",        "--json", report};
    ASSERT_EQ(Embedded(arguments).exit_code, 0);
    const auto whole = nlohmann::json::parse(ReadFile(report));
    EXPECT_FALSE(std::filesystem::exists(unfinished));
    // The picture cannot be written when all is done: an end as by an interruption.
    EXPECT_NE(Embedded(With(arguments, {"--heat-map", "/dev/full"})).exit_code, 0);
    std::vector<std::string> lines = absl::StrSplit(ReadFile(unfinished), '\n');
    ASSERT_EQ(lines.size(), 11u);  // what is run, 9 samples, and the end of the last line
    lines.resize(4);
    auto known = nlohmann::json::parse(lines[3]);
    known["sample"]["answer"] = "known";
    lines[3] = known.dump();
    WriteFile(unfinished, absl::StrJoin(lines, "\n") + "\n{\"name\": \"pass");
    // Another run is none of this one's.
    const ProcessResult other = Embedded(With(arguments, {"--seed", "9"}));
    EXPECT_EQ(other.exit_code, kConflict);
    EXPECT_THAT(other.err, HasSubstr("--seed 1, this one has 9"));
    ASSERT_EQ(Embedded(With(arguments, {"--heat-map", Path("map.svg")})).exit_code, 0);
    EXPECT_THAT(ReadFile(Path("map.svg")), HasSubstr("</svg>"));
    const auto resumed = nlohmann::json::parse(ReadFile(report));
    EXPECT_FALSE(std::filesystem::exists(unfinished));
    ASSERT_EQ(resumed["samples"].size(), 9u);
    for (size_t i = 0; i < 9; ++i) {
      EXPECT_EQ(resumed["samples"][i]["question"], whole["samples"][i]["question"]);
      EXPECT_EQ(resumed["samples"][i]["answer"],
                i == 2 ? nlohmann::json("known") : whole["samples"][i]["answer"]);
    }
    EXPECT_THAT(Json(Embedded({"docs", "list", "--json"}))["documents"], IsEmpty());
  }
}

TEST_F(CliTest, WhatDoesNotFitIsSaidBeforeTheWork) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += Haystack();
  const std::string path = File("text", text);
  // Too short, for a later size.
  const ProcessResult short_text = Embedded({"niah", "--haystack", path, "--tokens", "512,16m"});
  EXPECT_EQ(short_text.exit_code, kInvalid);
  EXPECT_THAT(short_text.err, HasSubstr(absl::StrCat(text.size(), " bytes of text")));
  EXPECT_THAT(short_text.err, HasSubstr("--tokens 16777216 needs about"));
  // Keys for half of it. What niah reads to learn the size of tokens fits.
  const auto document = Json(Embedded({"ingest", "--id", "whole", path, "--json"}));
  const auto model = Json(Embedded({"model", "--json"}));
  const int64_t keys =
      document["chunks"].get<int64_t>() * model["retrieval_width"].get<int64_t>() * 2;
  const std::string budget = absl::StrCat(keys / 2);
  const ProcessResult niah = Embedded({"niah", "--haystack", path, "--tokens",
                                       absl::StrCat(document["tokens"].get<int64_t>() * 9 / 10),
                                       "--landmark-budget", budget});
  EXPECT_EQ(niah.exit_code, kExhausted);
  EXPECT_THAT(niah.err, HasSubstr("for its landmark keys, the budget (--landmark-budget) is"));
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
