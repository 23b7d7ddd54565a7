#include "base/log.h"

#include <gmock/gmock.h>

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
  const absl::Status status = SetLogLevel("loud");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"loud\""));
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug));
  EXPECT_TRUE(SetLogLevel("off").ok());
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  EXPECT_TRUE(SetLogLevel("info").ok());
}

}  // namespace
}  // namespace recollect
