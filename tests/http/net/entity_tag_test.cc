#include "http/net/entity_tag.h"

#include "gtest/gtest.h"

namespace recollect::http {
namespace {

TEST(EntityTagTest, AListNamesItsTags) {
  for (const char* header : {"\"a\"", "W/\"a\"", " \"a\" ", "*", " * ", "\"b\", \"a\"",
                             "\"b\",W/\"a\"", "\"b,c\" , \"a\"", "\"a\", none"})
    EXPECT_TRUE(NamesTag(header, "\"a\"", TagComparison::kWeak)) << header;
  for (const char* header : {"", "a", "\"b\"", "\"a", "\"A\"", "\"aa\"", "w/\"a\"", "W/", "W/*",
                             "\"b\" \"a\"", "\"b\", a", "\"b,\"a\"", ",\"a\"", "**"})
    EXPECT_FALSE(NamesTag(header, "\"a\"", TagComparison::kWeak)) << header;
}

TEST(EntityTagTest, AStrongComparisonTakesNoWeakTag) {
  for (const char* header : {"\"a\"", "*", "W/\"a\", \"a\"", "W/\"b\", \"a\""})
    EXPECT_TRUE(NamesTag(header, "\"a\"", TagComparison::kStrong)) << header;
  for (const char* header : {"W/\"a\"", "\"b\", W/\"a\"", "W/*"})
    EXPECT_FALSE(NamesTag(header, "\"a\"", TagComparison::kStrong)) << header;
}

}  // namespace
}  // namespace recollect::http
