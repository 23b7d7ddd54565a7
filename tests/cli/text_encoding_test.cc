#include "cli/common/text_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace recollect::cli {
namespace {

constexpr auto kNotText = absl::StatusCode::kInvalidArgument;

absl::Status Check(const std::string& text, const std::string& path = "notes.txt") {
  Utf8Check check(path);
  const absl::Status taken = check.Take(0, text);
  return taken.ok() ? check.Take(static_cast<int64_t>(text.size()), "") : taken;
}

// Each character as two bytes.
std::string Utf16(const std::string& ascii, bool low_first) {
  std::string text;
  for (const char c : ascii) text += low_first ? std::string{c, '\0'} : std::string{'\0', c};
  return text;
}

TEST(TextEncodingTest, TextOfOneByteACharacterIsToldHowToConvertIt) {
  EXPECT_THAT(Check("caf\xe9 noir"),
              StatusIs(kNotText,
                       "text is not valid UTF-8 at byte 3: it looks like Latin-1 or another "
                       "set of one byte a character; if so, convert it with: iconv -f "
                       "WINDOWS-1252 -t UTF-8 notes.txt"));
  EXPECT_THAT(Check("caf\xe9 \x81"), StatusIs(kNotText, "iconv -f ISO-8859-1"));
}

TEST(TextEncodingTest, Utf16IsToldByItsMarkOrItsZeros) {
  const std::string words = "A text of some words.";
  EXPECT_THAT(Check("\xff\xfe" + Utf16(words, true)), StatusIs(kNotText, "iconv -f UTF-16 -t"));
  EXPECT_THAT(Check("\xfe\xff" + Utf16(words, false)), StatusIs(kNotText, "iconv -f UTF-16 -t"));
  EXPECT_THAT(Check(Utf16(words, true)), StatusIs(kNotText, "not UTF-8, it looks like UTF-16LE"));
  EXPECT_THAT(Check(Utf16(words, false)), StatusIs(kNotText, "it looks like UTF-16BE"));
  EXPECT_THAT(Check(std::string("one\0two\0and three", 17)), IsOk());
}

TEST(TextEncodingTest, BinaryFilesAndDamagedTextAreTold) {
  EXPECT_THAT(Check("caf\xe9"), StatusIs(kNotText, "at byte 3: it looks like Latin-1"));
  EXPECT_THAT(Check(std::string("\x7f\x45LF\x02\x01\0\0\xe8 more", 14)),
              StatusIs(kNotText, "a binary file"));
  EXPECT_THAT(Check("na\xc3\xafve \xff!"), StatusIs(kNotText, "at byte 7: other parts are UTF-8"));
}

TEST(TextEncodingTest, CommandsNameTheFileForAShell) {
  EXPECT_THAT(Check("\xe9", "my 'notes'.txt"),
              StatusIs(kNotText, "UTF-8 'my '\\''notes'\\''.txt'"));
  EXPECT_THAT(std::string(Check("\xe9", "-").message()), testing::EndsWith("-t UTF-8"));
}

TEST(TextEncodingTest, PiecesMayCutCharactersAndBeginInOne) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  Utf8Check check("-");
  for (size_t i = 0; i < text.size(); ++i)
    EXPECT_THAT(check.Take(static_cast<int64_t>(i), text.substr(i, 1)), IsOk()) << i;
  EXPECT_THAT(check.Take(4, text.substr(4)), IsOk()) << "resumed within a character";
  EXPECT_THAT(check.Take(100, "ok \xe2\x82"), IsOk());
  EXPECT_THAT(check.Take(105, "!"), StatusIs(kNotText, "at byte 103"));
}

}  // namespace
}  // namespace recollect::cli
