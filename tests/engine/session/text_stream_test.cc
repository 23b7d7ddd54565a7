#include "engine/session/text_stream.h"

#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

TEST(TextStreamTest, HoldsBackUnfinishedCharacters) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("a\xe2"), "a");
  EXPECT_EQ(stream.Push("\x82"), "");
  EXPECT_EQ(stream.Push("\xac!"), "\xe2\x82\xac!");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TextStreamTest, ReplacesWhatCanNeverBeACharacter) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(stream.Push("\xe2\x82"), "");
  EXPECT_EQ(stream.Push("x"), "\xef\xbf\xbdx");
  EXPECT_EQ(stream.Push("\xed\xa0"), "\xef\xbf\xbd\xef\xbf\xbd") << "half of a surrogate";
  EXPECT_EQ(stream.Push("\xc3"), "");
  EXPECT_EQ(stream.Flush(), "\xef\xbf\xbd");
}

TEST(TextStreamTest, HoldsBackWhatMayBecomeAStop) {
  TextStream stream({"END", "\n\n"});
  EXPECT_EQ(stream.Push("the E"), "the ");
  EXPECT_EQ(stream.Push("N"), "");
  EXPECT_EQ(stream.Push("T\n"), "ENT");
  EXPECT_EQ(stream.Push("EN"), "\n");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.Push("D and more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Push("never"), "");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TextStreamTest, TheFirstOfSeveralStopsCounts) {
  TextStream stream({"later", "so"});
  EXPECT_EQ(stream.Push("and so later"), "and ");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStreamTest, FlushGivesOutAnUnfinishedStop) {
  TextStream stream({"stop"});
  EXPECT_EQ(stream.Push("a sto"), "a ");
  EXPECT_EQ(stream.Flush(), "sto");
}

TEST(TextStreamTest, AStopMaySpanTokensAndCharacters) {
  TextStream stream({"\xc3\xa9!"});
  EXPECT_EQ(stream.Push("caf\xc3"), "caf");
  EXPECT_EQ(stream.Push("\xa9"), "");
  EXPECT_EQ(stream.Push("!"), "");
  EXPECT_TRUE(stream.stopped());
}

}  // namespace
}  // namespace recollect::engine
