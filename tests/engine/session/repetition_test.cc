// When an answer only repeats itself, and where it begins to.
#include "engine/session/repetition.h"

#include <string>

#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

// Where it begins, of a text that comes as a whole.
int64_t BeginOf(const std::string& text) {
  Repetition repetition;
  repetition.Push(text);
  return repetition.begin();
}

TEST(RepetitionTest, BeginsAfterTheFirstTimeOfWhatIsRepeated) {
  const std::string begin = "The lease: ", again = "a lease of 13 years and of 13 years more. ";
  std::string text = begin;
  for (int i = 0; i < 3; ++i) {
    text += again;
    EXPECT_EQ(BeginOf(text), 0) << "may be a refrain";
  }
  text += again;
  EXPECT_LE(BeginOf(text), std::ssize(begin + again));
  EXPECT_GE(BeginOf(text), std::ssize(again));
  EXPECT_EQ(BeginOf(text + "And then?"), 0);
  EXPECT_EQ(BeginOf(std::string(159, '-')), 0);
  EXPECT_EQ(BeginOf(std::string(160, '-')), 1);
  const std::string line = std::string(60, 'x') + std::string(60, 'y') + ".";
  EXPECT_GT(BeginOf(line + " " + line + " " + line), 0) << "a paragraph";
  EXPECT_EQ(BeginOf(""), 0);
}

// A sentence that is said twice, with others between: with documents the answer ends there.
TEST(RepetitionTest, OfDocumentsASentenceIsSaidOnce) {
  const std::string sentence =
      "The pupils of School No. 5 named her Kettle because of her voice, which nobody forgets.";
  const std::string said = sentence + " On 11 August she leaves the tundra. ";
  Repetition documents(true), nothing;
  for (Repetition* each : {&documents, &nothing}) {
    each->Push(said);
    for (const char letter : sentence.substr(0, 47)) each->Push(std::string(1, letter));
    EXPECT_EQ(each->begin(), 0);
    each->Push(sentence.substr(47, 1));
  }
  EXPECT_EQ(documents.begin(), std::ssize(said));
  EXPECT_EQ(nothing.begin(), 0);
  Repetition row(true);
  row.Push(std::string(95, '-'));
  EXPECT_EQ(row.begin(), 0);
}

// It is found while the text comes, and stays what it was.
TEST(RepetitionTest, OfAStreamItIsKeptOnceFound) {
  const std::string piece = "round and round it goes, ";
  Repetition repetition;
  for (int i = 0; i < 2000; ++i) repetition.Push("word " + std::to_string(i) + ", ");
  const int64_t bytes = 2000 * 7 + 10 + 90 * 2 + 900 * 3 + 1000 * 4;
  EXPECT_EQ(repetition.begin(), 0);
  for (int i = 0; i < 6; ++i) repetition.Push(piece);
  EXPECT_EQ(repetition.begin(), 0);
  repetition.Push(piece);
  EXPECT_EQ(repetition.begin(), bytes - 2 + std::ssize(piece)) << "a comma stood there before";
  repetition.Push("and on");
  EXPECT_EQ(repetition.begin(), bytes - 2 + std::ssize(piece));
}

// The first letters differ, but for their last bytes: what is kept ends with a whole one.
TEST(RepetitionTest, WhatIsKeptIsWholeCharacters) {
  const std::string again = "again and again, \xc3\xa3 ";
  std::string text = "\xc4\xa3 ";
  for (int i = 0; i < 9; ++i) text += again;
  EXPECT_EQ(BeginOf(text), 2 + std::ssize(again)) << "without the space";
}

}  // namespace
}  // namespace recollect::engine
