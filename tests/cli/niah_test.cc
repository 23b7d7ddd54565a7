// The parts of niah that need no model: needles, haystacks, judging, counting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/niah/haystack.h"
#include "cli/niah/needle.h"
#include "cli/niah/phrases.h"
#include "cli/niah/report.h"

namespace recollect::cli::niah {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NiahPhrasesTest, TheBuiltInListsParseAndDoNotOverlap) {
  const Phrases phrases = ParsePhrases(BuiltInPhrases()).value();
  for (const std::string& needle : phrases.held_out.needles)
    EXPECT_THAT(phrases.trained.needles, Not(Contains(needle)));
  for (const std::string& noun : phrases.held_out.nouns)
    EXPECT_THAT(phrases.trained.nouns, Not(Contains(noun)));
  for (const auto* list : {&phrases.trained, &phrases.held_out}) {
    for (const std::string& needle : list->needles) {
      EXPECT_THAT(needle, HasSubstr("{key}"));
      EXPECT_THAT(needle, HasSubstr("{value}"));
    }
    for (const std::string& question : list->questions) EXPECT_THAT(question, HasSubstr("{key}"));
  }
}

TEST(NiahPhrasesTest, WrongFilesAreInvalid) {
  EXPECT_EQ(ParsePhrases("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ParsePhrases(R"({"train": {"needles": ["x"]}})").status().message()),
              HasSubstr("train.questions"));
}

TEST(NiahNeedleTest, Crc32IsTheOneTrainingUses) {
  EXPECT_EQ(Crc32("123456789"), 0xcbf43926u);  // zlib.crc32
}

TEST(NiahNeedleTest, WordsOfKeysAreThoseTrainingLeavesOut) {
  std::string text;
  for (int i = 0; i < 3; ++i)
    text += "Alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron ";
  const std::vector<std::string> words = TestWords(text);
  for (const std::string& word : words) EXPECT_EQ(Crc32(word) % 10, 0u) << word;
  for (const char* word :
       {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"}) {
    EXPECT_EQ(std::count(words.begin(), words.end(), word), Crc32(word) % 10 == 0 ? 1 : 0) << word;
  }
}

TEST(NiahNeedleTest, NeedlesFollowTheirFormAndSeed) {
  const Form form{"vault code", "In the ledger, under {key}, one finds the {noun} {value}.",
                  "The {noun} of {key} is", ValueKind::kDigits, 32};
  const std::vector<std::string> words = {"putney", "ledger", "amber"};
  std::vector<std::string> taken, again;
  Random random(7), same(7);
  std::set<std::string> keys;
  for (int i = 0; i < 20; ++i) {
    const Needle needle = MakeNeedle(random, form, words, &taken);
    EXPECT_EQ(needle.sentence, MakeNeedle(same, form, words, &again).sentence);
    EXPECT_TRUE(keys.insert(needle.key).second) << needle.key;
    EXPECT_EQ(needle.sentence, " In the ledger, under " + needle.key +
                                   ", one finds the vault code " + needle.value + ".");
    EXPECT_EQ(needle.question, "The vault code of " + needle.key + " is");
    EXPECT_EQ(needle.sentence.substr(needle.value_offset, needle.value.size()), needle.value);
    EXPECT_GE(needle.value.size(), 5u);
    EXPECT_LE(needle.value.size(), 7u);
  }
}

TEST(NiahNeedleTest, KeysApartShareNoWordWhileThereAreWords) {
  const Form form{"code", "The {noun} of {key} is {value}.", "The {noun} of {key} is",
                  ValueKind::kDigits, 32};
  std::vector<std::string> words;
  for (char c = 'a'; c <= 'z'; ++c) words.push_back(std::string(4, c));
  std::vector<std::string> taken;
  Random random(11);
  std::multiset<std::string> used;
  for (int i = 0; i < 5; ++i) {
    MakeNeedle(random, form, words, &taken, /*apart=*/true);
    for (const absl::string_view word : absl::StrSplit(taken.back(), absl::ByAnyChar(" -"))) {
      used.insert(std::string(word));
    }
  }
  // A key may have a word twice.
  for (size_t i = 0; i < taken.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const std::string& word : used) {
        EXPECT_FALSE(absl::StrContains(taken[i], word) && absl::StrContains(taken[j], word))
            << word;
      }
    }
  }
  // Then keys are merely different.
  const std::vector<std::string> two = {"amber", "putney"};
  std::vector<std::string> few;
  for (int i = 0; i < 4; ++i) MakeNeedle(random, form, two, &few, /*apart=*/true);
  EXPECT_EQ(std::set<std::string>(few.begin(), few.end()).size(), 4u);
}

TEST(NiahNeedleTest, AnswersAreJudgedWhole) {
  EXPECT_TRUE(IsRight(" 12345", "12345"));
  EXPECT_TRUE(IsRight("12345]", "12345"));
  EXPECT_TRUE(IsRight("\n12345, and", "12345"));
  EXPECT_FALSE(IsRight(" 123456", "12345"));
  EXPECT_FALSE(IsRight(" 1234", "12345"));
  EXPECT_FALSE(IsRight(" the 12345", "12345"));
  EXPECT_FALSE(IsRight("", "12345"));
}

TEST(NiahHaystackTest, CutsAtCharactersWithoutLosingAny) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "żółw ";
  const Haystack haystack = Haystack::Cut(text, 0, static_cast<int64_t>(text.size()), 7);
  std::string joined;
  for (const std::string& shard : haystack.shards()) {
    EXPECT_NE(static_cast<unsigned char>(shard.front()) & 0xc0, 0x80);
    joined += shard;
  }
  EXPECT_EQ(joined, text);
}

TEST(NiahHaystackTest, NeedlesReplaceTextAndStayWhereTheirPlacesSay) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "word" + std::to_string(i) + (i % 9 == 8 ? "\n" : " ");
  Haystack haystack = Haystack::Cut(text, 0, static_cast<int64_t>(text.size()), 4);
  const int64_t before = haystack.bytes();
  Random random(3);
  std::vector<std::string> sentences;
  for (int i = 0; i < 40; ++i) {
    sentences.push_back(" Needle number " + std::to_string(1000 + i) + " lies here.");
    const Place place = haystack.Replace(random.Unit(), sentences.back()).value();
    EXPECT_EQ(haystack.shards()[place.shard].substr(place.begin, place.end - place.begin),
              sentences.back());
  }
  for (const std::string& sentence : sentences) {
    int found = 0;
    for (const std::string& shard : haystack.shards())
      found += shard.find(sentence) != std::string::npos ? 1 : 0;
    EXPECT_EQ(found, 1) << sentence;
  }
  EXPECT_LE(before - haystack.bytes(), 40 * 10);  // the rest of a word each
  EXPECT_GE(before, haystack.bytes());
}

TEST(NiahHaystackTest, DepthChoosesThePlace) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abcd ";
  Haystack haystack = Haystack::Cut(text, 0, 5000, 5);
  EXPECT_EQ(haystack.Replace(0.5, " xx").value().shard, 2);
  EXPECT_EQ(haystack.Replace(0.99, " xx").value().shard, 4);
  EXPECT_EQ(haystack.Replace(0, " xx").value().shard, 0);
}

TEST(NiahHaystackTest, PlacesFollowWhatIsPlacedBeforeThem) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word" + std::to_string(i) + " ";
  Haystack haystack = Haystack::Cut(text, 0, std::ssize(text), 2);
  std::vector<std::string> sentences;
  for (int i = 0; i < 8; ++i) {
    sentences.push_back(" Needle number " + std::to_string(i) + ".");
    ASSERT_TRUE(haystack.Replace(0.9 - 0.1 * i, sentences.back()).ok());
  }
  for (size_t i = 0; i < sentences.size(); ++i) {
    const Place place = haystack.places()[i];
    EXPECT_EQ(haystack.shards()[place.shard].substr(place.begin, place.end - place.begin),
              sentences[i]);
  }
}

TEST(NiahHaystackTest, PlacesFollowWhatIsRemovedBeforeThem) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word" + std::to_string(i) + " ";
  Haystack haystack = Haystack::Cut(text, 0, std::ssize(text), 1);
  for (const double depth : {0.8, 0.2, 0.5}) {
    ASSERT_TRUE(haystack.Replace(depth, absl::StrCat(" Needle at ", depth, ".")).ok());
  }
  const auto at = [&](int i) {
    const Place place = haystack.places()[i];
    return haystack.shards()[0].substr(place.begin, place.end - place.begin);
  };
  haystack.Remove(haystack.places()[1]);
  EXPECT_EQ(at(0), " Needle at 0.8.");
  EXPECT_EQ(at(1), "");
  EXPECT_EQ(at(2), " Needle at 0.5.");
  const Place middle = haystack.places()[2];
  EXPECT_TRUE(haystack.Touches({0, middle.begin - 10, middle.begin + 1}));
  EXPECT_FALSE(haystack.Touches({0, middle.begin - 10, middle.begin}));
  haystack.Remove({0, middle.begin - 5, middle.begin + 7});  // a part of it
  EXPECT_EQ(at(2), " at 0.5.");
  EXPECT_EQ(at(0), " Needle at 0.8.");
}

TEST(NiahHaystackTest, AFullHaystackSaysSo) {
  Haystack haystack = Haystack::Cut("one two three four", 0, 18, 1);
  EXPECT_TRUE(haystack.Replace(0, " 12345").ok());
  EXPECT_EQ(haystack.Replace(0, " 1234567890123").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NiahReportTest, IntervalsAreWilsons) {
  const auto [low, high] = Interval(50, 50);
  EXPECT_NEAR(low, 0.9287, 1e-4);
  EXPECT_NEAR(high, 1, 1e-9);
  EXPECT_NEAR(Interval(5, 10).first, 0.2366, 1e-4);
  EXPECT_NEAR(Interval(5, 10).second, 0.7634, 1e-4);
}

TEST(NiahReportTest, CellsCountApartWhatIsReportedApart) {
  std::vector<Sample> samples(4);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].task = "passkey";
    samples[i].variant = "trained";
    samples[i].tokens_asked = 4096;
    samples[i].tokens_mounted = 4000;
    samples[i].depth = 0.25 * static_cast<double>(i);
    samples[i].right = i != 3;
    samples[i].span = i == 3 ? Sample::Span::kTwoChunks : Sample::Span::kOneChunk;
    samples[i].found = {{true, i == 0, 0.5}, {i < 2, false, 0.25}};
    samples[i].bm25 = Finding{i != 2, false, 0};
    samples[i].numbers = {{"strings", 0.25 * static_cast<double>(i)}};
  }
  const Json json = ToJson(samples, 2);
  ASSERT_EQ(json["cells"].size(), 1u);
  const Json& cell = json["cells"][0];
  EXPECT_EQ(cell["samples"], 4);
  EXPECT_EQ(cell["right"], 3);
  EXPECT_EQ(cell["rate"], 0.75);
  EXPECT_EQ(cell["gold_hit_rate"][0], 1.0);
  EXPECT_EQ(cell["gold_hit_rate"][1], 0.5);
  EXPECT_EQ(cell["gold_first_rate"][0], 0.25);
  EXPECT_EQ(cell["gold_weight"][1], 0.25);
  EXPECT_EQ(cell["bm25_hit_rate"], 0.75);
  EXPECT_EQ(cell["bm25_first_rate"], 0.0);
  EXPECT_EQ(cell["numbers"]["strings"], 0.375);
  EXPECT_EQ(json["one_chunk"][0]["rate"], 1.0);
  EXPECT_EQ(json["straddling"][0]["right"], 0);
  EXPECT_EQ(json["by_depth"].size(), 2u);
  EXPECT_EQ(json["by_depth"][1]["right"], 1);
  EXPECT_EQ(json["samples"].size(), 4u);
  EXPECT_THAT(FormatTable(samples, 2), HasSubstr("needle straddles two chunks"));
}

TEST(NiahReportTest, SamplesWithoutAnAnswerAreNotWrongOnes) {
  std::vector<Sample> samples(2);
  for (Sample& s : samples) s.task = "quote";
  samples[0].right = true;
  const Json cell = ToJson(samples, 1)["cells"][0];
  EXPECT_EQ(cell["samples"], 2);
  EXPECT_EQ(cell["judged"], 1);
  EXPECT_EQ(cell["rate"], 1.0);
}

TEST(NiahReportTest, ManyVariantsGetALineOverAllOfThem) {
  std::vector<Sample> samples(5);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].task = "records";
    samples[i].variant = "shape" + std::to_string(i);
    samples[i].right = i != 0;
  }
  const Json json = ToJson(samples, 1);
  ASSERT_EQ(json["cells"].size(), 6u);
  EXPECT_EQ(json["cells"][0]["variant"], "(all)");
  EXPECT_EQ(json["cells"][0]["right"], 4);
  EXPECT_EQ(json["by_depth"].size(), 1u);
  samples.resize(3);
  EXPECT_EQ(ToJson(samples, 1)["cells"].size(), 3u);
}

}  // namespace
}  // namespace recollect::cli::niah
