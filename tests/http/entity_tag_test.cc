#include "http/entity_tag.h"

#include "gtest/gtest.h"

namespace recollect::http {
namespace {

TEST(EntityTagTest, AListNamesItsTags) {
  for (const char* header : {"\"a\"", "W/\"a\"", " \"a\" ", "*", " * ", "\"b\", \"a\"",
                             "\"b\",W/\"a\"", "\"b,c\" , \"a\"", "\"a\", none"})
    EXPECT_TRUE(NamesTag(header, "\"a\"")) << header;
  for (const char* header : {"", "a", "\"b\"", "\"a", "\"A\"", "\"aa\"", "w/\"a\"", "W/", "W/*",
                             "\"b\" \"a\"", "\"b\", a", "\"b,\"a\"", ",\"a\"", "**"})
    EXPECT_FALSE(NamesTag(header, "\"a\"")) << header;
}

}  // namespace
}  // namespace recollect::http
