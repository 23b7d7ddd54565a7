#include "http/net/ranges.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::http {
namespace {

using ::testing::HasSubstr;

TEST(ContentRangeTest, APartOfATextOfAKnownLength) {
  const auto range = ParseContentRange("bytes 0-9/25");
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->begin, 0);
  EXPECT_EQ(range->end, 10);
  EXPECT_EQ(range->total, 25);
  EXPECT_FALSE(range->last());
  EXPECT_TRUE(ParseContentRange("bytes 10-24/25")->last());
}

TEST(ContentRangeTest, OfAnUnknownLengthItIsTheLast) {
  const auto range = ParseContentRange("bytes 7-7/*");
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->size(), 1);
  EXPECT_TRUE(range->last());
}

TEST(ContentRangeTest, AllElseIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "expected 'bytes FIRST-LAST/TOTAL"},
      {"bytes", "expected"},
      {"bytes 0-9", "expected"},
      {"bytes */25", "expected"},
      {"bytes 0/9-25", "expected"},
      {"bytes -5-9/25", "expected"},
      {"bytes +0-9/25", "expected"},
      {"bytes 0 -9/25", "expected"},
      {"bytes 0-9/25,", "expected"},
      {"bytes 0-/25", "expected"},
      {"items 0-9/25", "expected"},
      {"bytes 0-99999999999999999999/*", "expected"},
      {"bytes 0-9223372036854775807/*", "expected"},
      {"bytes 9-8/25", "'bytes 9-8/25', the last byte comes before the first"},
      {"bytes 0-25/25", "the last byte is beyond the total"},
      {"bytes 0-1/" + std::string(5000, 'x'), "expected"}};
  for (const auto& [header, why] : cases) {
    const absl::Status refused = ParseContentRange(header).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << header;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why)) << header;
    EXPECT_LT(refused.message().size(), 300u);
  }
}

}  // namespace
}  // namespace recollect::http
