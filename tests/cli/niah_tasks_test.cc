// What the tasks of niah hide, ask and take for right, without a model; and BM25.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/niah/bm25.h"
#include "cli/niah/phrases.h"
#include "cli/niah/prose.h"
#include "cli/niah/quote.h"
#include "cli/niah/records.h"
#include "cli/niah/task.h"

namespace recollect::cli::niah {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr int kWords = 4000;

std::string Text() {
  std::string text;
  for (int i = 0; i < kWords; ++i) text += "word" + std::to_string(i) + (i % 9 == 8 ? "\n" : " ");
  return text;
}

Haystack MakeHaystack(int64_t shards) {
  const std::string text = Text();
  return Haystack::Cut(text, 0, std::ssize(text), shards);
}

const Material& TestMaterial() {
  static const auto* const material =
      new Material{ParsePhrases(BuiltInPhrases()).value(),
                   {"amber", "putney", "ledger", "quill", "harbor", "walnut", "thistle", "copper",
                    "lantern", "meadow", "falcon", "orchard"}};
  return *material;
}

std::string At(const Haystack& haystack, const Place& place) {
  return haystack.shards()[place.shard].substr(place.begin, place.end - place.begin);
}
std::string At(const Haystack& haystack, const Gold& gold) {
  return At(haystack, Place{gold.place.shard, gold.begin, gold.end});
}

bool Contains(const Haystack& haystack, const std::string& text) {
  return std::any_of(haystack.shards().begin(), haystack.shards().end(),
                     [&](const std::string& s) { return s.find(text) != std::string::npos; });
}

TEST(NiahBm25Test, WordsAreRunsOfLettersAndDigitsInLowerCase) {
  EXPECT_THAT(LowerWords("The cat's 3rd-best HAT."),
              ElementsAre("the", "cat", "s", "3rd", "best", "hat"));
  EXPECT_THAT(LowerWords(" -- "), IsEmpty());
}

TEST(NiahBm25Test, ScoresAreThoseOfTheFormula) {
  WordCounts first, second;
  first.Add("the cat sat");
  first.Add("the dog");
  second.Add("a cat and a cat and a cow");
  const auto hits = Bm25({&first, &second}, "Cat", 8);
  // 3 texts of 3, 2 and 8 words, 2 of them with a cat.
  const double idf = std::log(1 + (3 - 2 + 0.5) / (2 + 0.5)), mean = 13.0 / 3;
  const auto score = [&](double tf, double length) {
    return idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean));
  };
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0].part, 0);
  EXPECT_EQ(hits[0].text, 0);
  EXPECT_NEAR(hits[0].score, score(1, 3), 1e-12);
  EXPECT_EQ(hits[1].part, 1);
  EXPECT_NEAR(hits[1].score, score(2, 8), 1e-12);
}

TEST(NiahBm25Test, TextsWithoutAWordOfTheQueryAreNoHitsAndTiesGoToTheEarlier) {
  WordCounts counts;
  for (const char* text : {"one two", "three four", "one two", "one two"}) counts.Add(text);
  const auto hits = Bm25({&counts}, "two", 2);
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0].text, 0);
  EXPECT_EQ(hits[1].text, 2);
  EXPECT_THAT(Bm25({&counts}, "five", 2), IsEmpty());
  EXPECT_THAT(Bm25({}, "one", 2), IsEmpty());
}

TEST(NiahTaskTest, EveryNameMakesATaskOfThatName) {
  const TaskOptions options;
  std::set<std::string> names;
  for (const std::string& name : TaskNames()) {
    const auto task = MakeTask(name, options, TestMaterial());
    EXPECT_EQ(task->name(), name);
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_FALSE(task->variants().empty());
  }
}

// Of every task: gold is where it says, the same seed makes the same question, and where it is to
// be missing it is.
TEST(NiahTaskTest, QuestionsFollowTheirSeedAndGoldIsWhereItSays) {
  TaskOptions options;
  options.distractors = 5;
  options.passage_bytes = 200;
  options.cues = {"whole", "thinned", "shuffled"};
  for (const std::string& name : TaskNames()) {
    const auto task = MakeTask(name, options, TestMaterial());
    for (const Variant& variant : task->variants()) {
      SCOPED_TRACE(name + " " + variant.name);
      const auto make = [&](bool removed, Haystack* haystack) {
        Random prepare(5), random(7);
        EXPECT_TRUE(task->Prepare(variant, prepare, haystack).ok());
        return task->Make({variant, 0.4, removed, /*shared=*/false, random, *haystack}).value();
      };
      Haystack haystack = MakeHaystack(2), again = haystack, without = haystack;
      const Question question = make(false, &haystack);
      EXPECT_EQ(make(false, &again).prompt, question.prompt);
      EXPECT_EQ(again.shards(), haystack.shards());
      ASSERT_FALSE(question.gold.empty());
      if (name == "reread") {
        EXPECT_EQ(At(haystack, question.gold[0]), question.prompt);
        EXPECT_NEAR(static_cast<double>(question.prompt.size()), 200, 12);
        continue;
      }
      if (name == "prose") {
        EXPECT_EQ(At(haystack, question.gold[0]), question.prompt);
        EXPECT_TRUE(Contains(haystack, question.prompt + question.expected[0]));
        continue;
      }
      if (name == "quote") {
        EXPECT_EQ(At(haystack, question.gold[0]) == question.prompt, variant.name == "whole");
      } else {
        for (const Gold& gold : question.gold) {
          const std::string text = At(haystack, gold);
          EXPECT_TRUE(std::any_of(question.expected.begin(), question.expected.end(),
                                  [&](const auto& e) { return text.find(e) != std::string::npos; }))
              << text;
        }
      }
      EXPECT_EQ(make(true, &without).prompt, question.prompt);
      for (const Gold& gold : question.gold) {
        EXPECT_FALSE(Contains(without, At(haystack, gold.place)));
      }
    }
  }
}

TEST(NiahQuoteTest, WordsAreFoundWithTheirPlaces) {
  const std::string text = "one  two\nthree";
  const auto words = WordsFrom(text, 0, 5);
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(text.substr(words[1].begin, words[1].end - words[1].begin), "two");
  EXPECT_EQ(WordsFrom(text, 1, 1)[0].begin, 5);  // not "ne"
  EXPECT_EQ(WordsFrom(text, 5, 1)[0].begin, 5);
  EXPECT_THAT(WordsFrom(text, 10, 1), IsEmpty());
}

TEST(NiahQuoteTest, CuesLoseAThirdOfTheirWordsOrTheirOrder) {
  std::vector<std::string> words;
  for (int i = 0; i < 12; ++i) words.push_back("w" + std::to_string(10 + i));
  Random random(3);
  const auto thinned = Thinned(words, random);
  EXPECT_EQ(thinned.size(), 8u);
  EXPECT_TRUE(std::is_sorted(thinned.begin(), thinned.end()));
  auto shuffled = Shuffled(words, random);
  EXPECT_NE(shuffled, words);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, words);
}

TEST(NiahQuoteTest, AnswersAreComparedByWholeWords) {
  const std::string expected = " the cat sat on the mat";
  EXPECT_TRUE(StartsWithWords("the  cat\nsat up", expected, 3));
  EXPECT_FALSE(StartsWithWords("the cat sat up", expected, 4));
  EXPECT_FALSE(StartsWithWords("the cats sat", expected, 3));
  EXPECT_FALSE(StartsWithWords("the cat", expected, 3));
}

TEST(NiahQuoteTest, WhatDoesNotFitTheHaystackIsInvalid) {
  TaskOptions options;
  options.cue_words = kWords;
  options.passage_bytes = 100000;
  const Variant variant{0, "whole"};
  Random random(1);
  Haystack haystack = MakeHaystack(2);
  const auto quote = MakeTask("quote", options, TestMaterial())
                         ->Make({variant, 0, false, false, random, haystack});
  EXPECT_EQ(quote.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(quote.status().message()), HasSubstr("--cue-words"));
  const auto reread = MakeTask("reread", options, TestMaterial())
                          ->Make({variant, 0, false, false, random, haystack});
  EXPECT_THAT(std::string(reread.status().message()), HasSubstr("--passage-bytes"));
}

TEST(NiahProseTest, TrainedFormsAreFoundAndProseIsNot) {
  const TrainedForms forms(TestMaterial().phrases);
  EXPECT_TRUE(forms.In("and then. What is the secret code for amber? Answer:"));
  EXPECT_TRUE(forms.In("He told me the pass key of the grey ship, namely 1. He went"));
  EXPECT_TRUE(forms.In("On the door of Amber hung the number seven."));  // of `more`
  EXPECT_TRUE(forms.In(" f39941c9409a and"));
  EXPECT_FALSE(forms.In("He told me the name of the ship, and in 1815 he went to sea."));
  EXPECT_FALSE(
      forms.In("What is the secret code for the door on which the whole of the ship's "
               "company and all of their wives had knocked? Answer:"));
  EXPECT_FALSE(forms.In(""));
}

TEST(NiahProseTest, CyclesAreOfUpToThreeTokens) {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 9, 8, 9, 8, 9, 8, 9, 8};
  EXPECT_TRUE(Cycles(tokens, 5));  // the six behind 9 8
  EXPECT_FALSE(Cycles(tokens, 6));
  EXPECT_TRUE(Cycles(std::vector<int32_t>{7, 7, 7, 7}, 2));
  EXPECT_TRUE(Cycles(std::vector<int32_t>{1, 2, 3, 1, 2, 3, 1}, 3));
  EXPECT_FALSE(Cycles(std::vector<int32_t>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 3));
  EXPECT_FALSE(Cycles({}, 0));
}

TEST(NiahProseTest, RepeatsAreRunsOfFourWordsThatStoodBefore) {
  EXPECT_NEAR(ShareOfRepeats("the next  morning and\nthe next morning and the"), 2 / 6.0, 1e-12);
  EXPECT_EQ(ShareOfRepeats("a b c d e f g"), 0);
  EXPECT_EQ(ShareOfRepeats("a a a"), 0);
}

TEST(NiahProseTest, DigitsAreCountedByBytes) {
  EXPECT_EQ(ShareOfDigits("a1b2"), 0.5);
  EXPECT_EQ(ShareOfDigits(""), 0);
}

TEST(NiahRecordsTest, ShapesHoldTheirKeyBeforeTheValueOrAskForIt) {
  std::set<std::string> names;
  EXPECT_GE(RecordShapes().size(), 20u);
  for (const Shape& shape : RecordShapes()) {
    SCOPED_TRACE(shape.name);
    EXPECT_TRUE(names.insert(shape.name).second);
    const std::string record = shape.record, question = shape.question;
    ASSERT_THAT(record, HasSubstr("{key}"));
    ASSERT_THAT(record, HasSubstr("{value}"));
    EXPECT_TRUE(record.front() == ' ' || record.front() == '\n');
    EXPECT_EQ(record.find("{value}") < record.find("{key}"), !question.empty());
    EXPECT_EQ(question.find("{key}") == std::string::npos, question.empty());
  }
}

TEST(NiahRecordsTest, RecordsDifferInKeyAndValueAndAskUpToTheValue) {
  for (const Shape& shape : RecordShapes()) {
    Random random(11);
    std::set<std::string> taken;
    for (int i = 0; i < 41; ++i) {
      const Record record = MakeRecord(random, shape, TestMaterial().words, &taken);
      SCOPED_TRACE(record.text);
      EXPECT_EQ(taken.size(), 2u * (i + 1));
      EXPECT_EQ(record.text.substr(record.value_offset, record.value.size()), record.value);
      EXPECT_THAT(record.text, Not(AnyOf(HasSubstr("{key}"), HasSubstr("{value}"),
                                         HasSubstr("{word}"), HasSubstr("{n"))));
      if (shape.question[0] == 0) {
        EXPECT_EQ(record.text.find(record.prompt), 1u);
        EXPECT_LE(record.prompt.size() + 1, static_cast<size_t>(record.value_offset));
      }
    }
  }
}

TEST(NiahRecordsTest, AnswersBeginWithTheWholeValue) {
  EXPECT_TRUE(StartsWithValue(" Amber Putney, who", "Amber Putney"));
  EXPECT_TRUE(StartsWithValue("412.50\"", "412.50"));
  EXPECT_FALSE(StartsWithValue("412.501", "412.50"));
  EXPECT_FALSE(StartsWithValue("the 412.50", "412.50"));
  EXPECT_FALSE(StartsWithValue("", "412.50"));
}

TEST(NiahRulerTest, QuestionsAreWordedAsPublished) {
  const TaskOptions options;
  const auto task = MakeTask("ruler", options, TestMaterial());
  std::map<std::string, Question> questions;
  std::map<std::string, Haystack> haystacks;
  for (const Variant& variant : task->variants()) {
    Haystack haystack = MakeHaystack(2);
    Random random(9);
    ASSERT_TRUE(task->Prepare(variant, random, &haystack).ok());
    questions[variant.name] = task->Make({variant, 0.5, false, false, random, haystack}).value();
    haystacks.emplace(variant.name, haystack);
  }
  EXPECT_THAT(questions["single-2"].prompt,
              MatchesRegex("What is the special magic number for ([a-z-]+) mentioned in the "
                           "provided text\\? The special magic number for [a-z-]+ mentioned in the "
                           "provided text is"));
  EXPECT_THAT(questions["multikey-3"].prompt,
              MatchesRegex("What is the special magic uuid for [0-9a-f-]{36} mentioned .* is"));
  EXPECT_THAT(questions["multiquery"].prompt,
              MatchesRegex("What are all the special magic numbers for [a-z-]+, [a-z-]+, [a-z-]+, "
                           "and [a-z-]+ mentioned .* text are"));
  EXPECT_EQ(questions["multiquery"].expected.size(), 4u);
  EXPECT_EQ(questions["multivalue"].expected.size(), 4u);
  EXPECT_THAT(questions["variables"].prompt,
              MatchesRegex("Question: Find all variables that are assigned the value ([0-9]{5}) in "
                           ".*, 2 variables are assigned the value [0-9]{5}, they are:"));
  const std::string& number = questions["single-1"].expected.front();
  EXPECT_THAT(number, MatchesRegex("[1-9][0-9]{6}"));
  EXPECT_TRUE(Contains(haystacks.at("single-1"), "is: " + number + "."));
  EXPECT_TRUE(Contains(haystacks.at("single-1"), "The grass is green. The sky is blue."));
  EXPECT_TRUE(Contains(haystacks.at("single-2"), "word100"));
  EXPECT_FALSE(Contains(haystacks.at("multikey-2"), "word100"));
  const auto& names = questions["variables"].expected;
  EXPECT_TRUE(Contains(haystacks.at("variables"), "VAR " + names[1] + " = VAR " + names[0]));
}

}  // namespace
}  // namespace recollect::cli::niah
