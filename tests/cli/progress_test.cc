#include "cli/common/progress.h"

#include <gtest/gtest.h>

#include "cli/common/exit_code.h"

namespace recollect::cli {
namespace {

TEST(ProgressTest, ShowsShareNoteAndTimeLeft) {
  EXPECT_EQ(FormatProgress("books", 50, 100, "7 tokens", absl::Seconds(30)),
            "books [###############...............]  50 %  7 tokens  30s left");
  EXPECT_EQ(FormatProgress("books", 100, 100, "", absl::Seconds(30)),
            "books [##############################] 100 %  ");
  // Half of it was there from before: what is left takes as long as a quarter did.
  EXPECT_EQ(FormatProgress("books", 75, 100, "", absl::Seconds(30), 50),
            "books [######################........]  75 %    30s left");
  EXPECT_EQ(FormatProgress("books", 50, 100, "", absl::Seconds(30), 50),
            "books [###############...............]  50 %  ");
  EXPECT_EQ(FormatProgress("books", 50, 0, "7 tokens", absl::Seconds(30)), "books  7 tokens");
}

TEST(ExitCodeTest, IsDocumentedForEveryCode) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCode(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCode(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCode(absl::InvalidArgumentError("")), 4);
  EXPECT_EQ(ExitCode(absl::OutOfRangeError("")), 4);
  EXPECT_EQ(ExitCode(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitCode(absl::DeadlineExceededError("")), 6);
  EXPECT_EQ(ExitCode(absl::CancelledError("")), 6);
  EXPECT_EQ(ExitCode(absl::AlreadyExistsError("")), 7);
  EXPECT_EQ(ExitCode(absl::FailedPreconditionError("")), 7);
  EXPECT_EQ(ExitCode(absl::AbortedError("")), 7);
  EXPECT_EQ(ExitCode(absl::ResourceExhaustedError("")), 8);
  EXPECT_EQ(ExitCode(absl::DataLossError("")), 9);
}

}  // namespace
}  // namespace recollect::cli
