#include "base/io/log.h"

#include <gmock/gmock.h>

#include "base/io/log_fields.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

TEST(LogTest, LevelsBelowTheSetOneAreSilent) {
  SetLogLevel(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  LogInfo("quiet {}", 1);
  LogWarning("chunk {}: {} tokens", 17, 63);
  LogError("broken");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("quiet")));
  EXPECT_THAT(text, HasSubstr("warning chunk 17: 63 tokens\n"));
  EXPECT_THAT(text, HasSubstr("error broken\n"));
  SetLogLevel(LogLevel::kInfo);
}

TEST(LogTest, LevelsHaveNames) {
  EXPECT_TRUE(SetLogLevel("debug").ok());
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug));
  EXPECT_THAT(SetLogLevel("loud"), StatusIs(absl::StatusCode::kInvalidArgument, "\"loud\""));
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug));
  EXPECT_TRUE(SetLogLevel("off").ok());
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  EXPECT_TRUE(SetLogLevel("info").ok());
}

TEST(LogTest, JsonIsAnObjectOnEachLine) {
  EXPECT_TRUE(SetLogFormat("json").ok());
  ::testing::internal::CaptureStderr();
  LogWarning("a \"quoted\"\nline {}", "\xff");
  LogEvent(LogLevel::kInfo, "call", {{"method", "A/B"}, {"request", int64_t{7}}, {"ms", 0.5}},
           "call 7 A/B 0.5 ms");
  LogEvent(LogLevel::kDebug, "not logged", {}, "not logged");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(SetLogFormat("text").ok());
  const size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  const auto first = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["message"], "a \"quoted\"\nline \xef\xbf\xbd");
  EXPECT_THAT(first["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:.*"));
  const auto second = nlohmann::json::parse(text.substr(end + 1), nullptr, false);
  EXPECT_EQ(second["message"], "call");
  EXPECT_EQ(second["method"], "A/B");
  EXPECT_EQ(second["request"], 7);
  EXPECT_EQ(second["ms"], 0.5);
  EXPECT_THAT(text, Not(HasSubstr("not logged")));
}

TEST(LogTest, TextOfAnEventIsItsLine) {
  ::testing::internal::CaptureStderr();
  LogEvent(LogLevel::kInfo, "call", {{"request", int64_t{7}}}, "call 7 A/B");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(" info call 7 A/B\n"));
  EXPECT_THAT(SetLogFormat("xml"), StatusIs(absl::StatusCode::kInvalidArgument, "\"xml\""));
}

}  // namespace
}  // namespace recollect
