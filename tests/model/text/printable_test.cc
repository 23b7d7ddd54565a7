#include "model/text/printable.h"

#include <string>

#include "gtest/gtest.h"

namespace recollect::model {
namespace {

TEST(PrintableTest, WhatShowsStaysAsItIs) {
  for (const char* text : {"", "moby-dick 1851.txt", "Přílohy – č. 4", "白鲸記", "🐳", "a\\b\"c"}) {
    EXPECT_TRUE(IsPrintable(text)) << text;
    EXPECT_EQ(EscapeInvisible(text), text);
  }
}

TEST(PrintableTest, WhatDoesNotShowIsEscaped) {
  const struct {
    std::string text, escaped;
  } kCases[] = {{std::string("a\0b", 3), "a\\u{0}b"},
                {"\x1b[2J", "\\u{1b}[2J"},
                {"a\n\x7f", "a\\u{a}\\u{7f}"},
                {"\u0085\u009b", "\\u{85}\\u{9b}"},
                {"left\u202etfel\u202c", "left\\u{202e}tfel\\u{202c}"},
                {"\u2066a\u2069\u200f\u061c", "\\u{2066}a\\u{2069}\\u{200f}\\u{61c}"},
                {"a\u200bb\u200d\u2060\ufeff", "a\\u{200b}b\\u{200d}\\u{2060}\\u{feff}"},
                {"so\u00adft\u3164", "so\\u{ad}ft\\u{3164}"},
                {"\U000e0041", "\\u{e0041}"},
                {"a\xff\xe2\x80", "a\\xff\\xe2\\x80"},
                {"\xc0\xaf", "\\xc0\\xaf"}};
  for (const auto& [text, escaped] : kCases) {
    EXPECT_FALSE(IsPrintable(text)) << escaped;
    EXPECT_EQ(EscapeInvisible(text), escaped);
    EXPECT_TRUE(IsPrintable(EscapeInvisible(text)));
  }
}

TEST(PrintableTest, TextKeepsItsLinesAndTabs) {
  EXPECT_EQ(PrintableText("name\tprice\r\nrye\t3.40\n"), "name\tprice\nrye\t3.40\n");
  EXPECT_EQ(PrintableText("\x1b[2J\u202e"), "\\u{1b}[2J\\u{202e}");
}

TEST(PrintableTest, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(Shortened("four", 4), "four");
  EXPECT_EQ(Shortened("fives", 4), "five… (5 bytes)");
  EXPECT_EQ(Shortened("aééé", 4), "aé… (7 bytes)");
  EXPECT_LT(Shortened(std::string(5 << 20, 'x'), 100).size(), 130u);
}

}  // namespace
}  // namespace recollect::model
