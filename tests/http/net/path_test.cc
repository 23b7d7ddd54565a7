#include "http/net/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace recollect::http {
namespace {

using Query = std::map<std::string, std::string>;

TEST(PathTest, PercentIsDecodedOnce) {
  EXPECT_EQ(DecodePercent("a%2Fb%2fc%2520+").value(), "a/b/c%20+");
  EXPECT_EQ(DecodePercent("%e6%97%a5").value(), "日");
  for (const char* bad : {"%", "%2", "a%zz", "%2x", "%%20"})
    EXPECT_EQ(DecodePercent(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
}

TEST(PathTest, QueriesHaveEachNameOnce) {
  EXPECT_EQ(DecodeQuery("after=a%26b+c&limit=3&flag").value(),
            (Query{{"after", "a&b c"}, {"limit", "3"}, {"flag", ""}}));
  EXPECT_EQ(DecodeQuery("").value(), Query());
  EXPECT_EQ(DecodeQuery("a=b=c").value(), (Query{{"a", "b=c"}}));
  for (const char* bad : {"a=1&a=2", "a=%", "%f=1"})
    EXPECT_EQ(DecodeQuery(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
}

}  // namespace
}  // namespace recollect::http
