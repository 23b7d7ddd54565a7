#include "model/text/sentence.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

// The sentence of `text` around `part`, in one line.
std::string Around(std::string_view text, std::string_view part) {
  const size_t begin = text.find(part);
  const TextRange range = SentenceAround(text, {begin, begin + part.size()});
  return InOneLine(text.substr(range.begin, range.end - range.begin));
}

TEST(SentenceTest, EndsWhereSentencesEnd) {
  const std::string text =
      "It rained. The pool is closed on Sundays, from 9 a.m. to 3.30 p.m. “Why?” he asked. Nobody "
      "knew…";
  EXPECT_EQ(Around(text, "rained"), "It rained.");
  EXPECT_EQ(Around(text, "Sundays"), "The pool is closed on Sundays, from 9 a.m. to 3.30 p.m.");
  EXPECT_EQ(Around(text, "Nobody knew"), "Nobody knew…");
  EXPECT_EQ(Around(text, " Nobody "), "Nobody knew…");
  EXPECT_EQ(Around(text, "rained. The"),
            "It rained. The pool is closed on Sundays, from 9 a.m. to 3.30 p.m.");
  EXPECT_EQ(Around("No end at all", "end"), "No end at all");
  EXPECT_EQ(Around("他来了。我们走吧。", "我们"), "我们走吧。");
}

TEST(SentenceTest, ThoseOfAPartAreWhole) {
  const std::string text = "It rained. Ask Dr. Moss. \n\nPrices\n- Soup 3.20\n  \nNobody knew…";
  const auto in = [&](std::string_view part) {
    std::vector<std::string> sentences;
    const size_t begin = text.find(part);
    for (const TextRange& one : SentencesIn(text, {begin, begin + part.size()}))
      sentences.push_back(InOneLine(std::string_view(text).substr(one.begin, one.end - one.begin)));
    return sentences;
  };
  EXPECT_THAT(in(text),
              ElementsAre("It rained.", "Ask Dr. Moss.", "Prices", "Soup 3.20", "Nobody knew…"));
  EXPECT_THAT(in("rained. Ask"), ElementsAre("It rained.", "Ask Dr. Moss."));
  EXPECT_THAT(in(" Ask Dr"), ElementsAre("Ask Dr. Moss."));
  EXPECT_THAT(in(" \n\nPrices"), ElementsAre("Prices"));
  EXPECT_THAT(in("\n  \n"), ::testing::IsEmpty());
  EXPECT_THAT(in("knew…"), ElementsAre("Nobody knew…"));
}

TEST(SentenceTest, AbbreviationsEndNone) {
  EXPECT_EQ(Around("Ask Dr. J. R. Moss of No. 5 St. Mary's Road. She knows.", "Moss"),
            "Ask Dr. J. R. Moss of No. 5 St. Mary's Road.");
  EXPECT_EQ(Around("See pp. 30 f. Mr. Lamb and Mrs. Orr wrote them.", "Orr"),
            "Mr. Lamb and Mrs. Orr wrote them.");
  EXPECT_EQ(Around("So did I. Then he left.", "Then"), "Then he left.");
}

TEST(SentenceTest, LinesOfListsAndTablesAreSentences) {
  EXPECT_EQ(Around("Prices:\n- Perch with potatoes 6.50\n- Soup 3.20\n", "Perch"),
            "Perch with potatoes 6.50");
  EXPECT_EQ(
      Around("| Monday | 9:00 to 17:00, and in summer until 20:00 | all |\n| Friday | closed |",
             "closed"),
      "| Friday | closed |");
  EXPECT_EQ(Around("1. Turn the red valve to the left until it does not move.\n2. Wait.", "Wait"),
            "2. Wait.");
  EXPECT_EQ(Around("-5 degrees\n", "degrees"), "-5 degrees");
}

TEST(SentenceTest, AListBelongsToTheSentenceBeforeIt) {
  const auto with_list = [](std::string_view text) {
    const TextRange range =
        WithList(text, SentenceAround(text, {text.find("bring"), text.find("bring") + 5}));
    return InOneLine(text.substr(range.begin, range.end - range.begin));
  };
  EXPECT_EQ(with_list("Come early. Please bring:\n- a towel\n- soap\n\nNo pets."),
            "Please bring: - a towel - soap");
  EXPECT_EQ(with_list("Please bring: \r\n\r\n1. a towel\r\n2. soap"),
            "Please bring: 1. a towel 2. soap");
  EXPECT_EQ(with_list("Please bring:\n\n\nNo pets."), "Please bring:");
  EXPECT_EQ(with_list("Please bring: a towel.\n- soap\n"), "Please bring: a towel.");
  EXPECT_EQ(with_list("Please bring:\n"), "Please bring:");
  EXPECT_EQ(with_list("No pets.\n\n6. What to bring\n\n- a towel\n- soap\n\n7. Pets:\n"),
            "6. What to bring - a towel - soap");
  EXPECT_EQ(with_list("# What to bring\n* soap\n"), "What to bring * soap");
  EXPECT_EQ(with_list("What to bring\n- a towel,\n  dry\n- soap\nWhat to leave\n- phones\n"),
            "What to bring - a towel, dry - soap");
  EXPECT_EQ(with_list("To bring:\nA towel is enough. Soap is there.\n\nNo pets."),
            "To bring: A towel is enough. Soap is there.");
  EXPECT_EQ(with_list("What to bring\n\n# Soap\n"), "What to bring");
  EXPECT_EQ(with_list("- a towel to bring\n- soap\n"), "a towel to bring");
  EXPECT_EQ(with_list("What to bring?\n- soap\n"), "What to bring?");
  EXPECT_EQ(with_list("To bring\nMonday: a towel\nOther days – soap\nNo pets.\n"),
            "To bring Monday: a towel Other days – soap");
  EXPECT_EQ(with_list("To bring\nMonday: a towel\nNo pets.\n"), "To bring");
  EXPECT_EQ(with_list("To bring: all\nMonday: a towel\nOther days: soap\n"), "To bring: all");
  EXPECT_EQ(with_list("Day 2 - what to bring\n- a towel\n"), "Day 2 - what to bring - a towel");
  EXPECT_EQ(with_list("To bring\nE1 - a leak\nE2 - the drain\nis blocked\nThe end\n"),
            "To bring E1 - a leak E2 - the drain is blocked");
  EXPECT_EQ(with_list("To bring\n\n# Part 1: Safety\nNote: soap\n"), "To bring");
}

TEST(SentenceTest, ItemsHaveMarksOrNumbers) {
  for (const char* item : {"- soap", " * soap", "1. soap", "12) soap"})
    EXPECT_TRUE(IsListItem(item)) << item;
  for (const char* other : {"soap", "", "3 towels", "-5 degrees", "12"})
    EXPECT_FALSE(IsListItem(other)) << other;
}

TEST(SentenceTest, BrokenLinesOfAParagraphBelongTogether) {
  const std::string text =
      "Any person may copy this licence, and may hand it on to others as long as\r\n"
      "this notice is kept. It ends\n\nHere is another paragraph.";
  EXPECT_EQ(Around(text, "notice"),
            "Any person may copy this licence, and may hand it on to others as long as this notice "
            "is kept.");
  EXPECT_EQ(Around(text, "It ends"), "It ends");
}

TEST(SentenceTest, LinesThatWereBrokenByHandGoOn) {
  const std::string line = "Two fitters were asked, and both of them came on Monday. The one from";
  EXPECT_EQ(Unbroken("\n" + line + "\nGrado wants more.\nThe\nend"),
            "\n" + line + " Grado wants more.\nThe\nend");
  for (const std::string next : {"- a list", "[18:06] a chat", "7,a table", "\nA paragraph",
                                 "• a point", "  b) an item", "(c) one"})
    EXPECT_EQ(Unbroken(line + "\n" + next), line + "\n" + next);
  EXPECT_EQ(Unbroken(line + ".\nThe end\n"), line + ".\nThe end\n");
  const std::string label = "E2 - ";
  EXPECT_EQ(Unbroken(label + line + "\nE4 - a leak"), label + line + "\nE4 - a leak");
  EXPECT_EQ(Unbroken(line + "\nGrado - the elder - left."), line + " Grado - the elder - left.");
  EXPECT_EQ(Unbroken("  " + line + "\n  (or near) Grado\n"), "  " + line + "   (or near) Grado\n");
  EXPECT_EQ(Unbroken(""), "");
}

TEST(SentenceTest, JointsAreThoseOfTheText) {
  const std::string text = "He said “no.”\nIt rained. \n\nPrices\nSoup 3.20 (or more!)\nThe end. 5";
  const auto joint = [&](std::string_view before, std::string_view sentence) {
    const auto range = [&](std::string_view part) {
      const size_t begin = text.find(part);
      return TextRange{begin, begin + part.size()};
    };
    return JointOf(text, range(before), range(sentence));
  };
  EXPECT_EQ(joint("He said “no.”", "It rained."), ' ');
  EXPECT_EQ(joint("It rained.", "Prices"), '\n');
  EXPECT_EQ(joint("Prices\n", "Soup"), '\n');
  EXPECT_EQ(joint("Soup 3.20 (or more!)", "The end."), ' ');
  EXPECT_EQ(joint("It rained.", "Soup"), 0) << "there is something between them";
  EXPECT_EQ(joint("Soup 3.20 (or more!)", "(or more!)"), 0) << "they overlap";
}

TEST(SentenceTest, BytesThatAreNoTextAreKept) {
  const std::string text = "\x9f half. A whole one.\xe2\x82";
  EXPECT_EQ(Around(text, "whole"), "A whole one.");
}

TEST(SentenceTest, AnyBytesHaveSentences) {
  const std::string_view bytes("ab. .?!\n\r\t-1|\xe2\x80\xa6\xff\xc3\0I: - E\n", 27);
  std::minstd_rand random(7);
  const auto below = [&](size_t count) { return random() % count; };
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t left = 1 + below(90); left > 0; --left) text += bytes[below(bytes.size())];
    const size_t begin = below(text.size()), end = begin + 1 + below(text.size() - begin);
    const TextRange range = SentenceAround(text, {begin, end});
    ASSERT_LT(range.begin, range.end) << text;
    ASSERT_LE(range.begin, end) << text;
    ASSERT_LE(begin, range.end) << text;
    ASSERT_LE(range.end, text.size()) << text;
    size_t last = 0;
    for (const TextRange& one : SentencesIn(text, {begin, end})) {
      ASSERT_LE(last, one.begin) << text;
      ASSERT_LT(std::max(one.begin, begin), std::min(one.end, end)) << text;
      const TextRange with_list = WithList(text, one);
      ASSERT_EQ(with_list.begin, one.begin) << text;
      ASSERT_GE(with_list.end, one.end) << text;
      ASSERT_LE(with_list.end, text.size()) << text;
      last = one.end;
    }
    ASSERT_LE(last, text.size()) << text;
    ASSERT_EQ(Unbroken(text).size(), text.size());
    InOneLine(text);
    for (const size_t clause : ClauseBegins(text, {0, text.size()}, text.size()))
      ASSERT_LE(clause, text.size());
  }
}

TEST(SentenceTest, ClausesBeginBehindCommasAndTheLike) {
  const std::string text = "No. At 1,000 m, he said: go — now; yes. No, no.";
  const TextRange sentence = {4, text.find(" No, no")};
  EXPECT_THAT(ClauseBegins(text, sentence, text.size()), ElementsAre(4, 16, 25, 32, 37));
  EXPECT_THAT(ClauseBegins(text, sentence, 25), ElementsAre(4, 16, 25));
  EXPECT_THAT(ClauseBegins(text, sentence, 24), ElementsAre(4, 16));
  EXPECT_THAT(ClauseBegins(text, sentence, 3), ElementsAre(4)) << "a span may begin with the blank";
}

}  // namespace
}  // namespace recollect::model
