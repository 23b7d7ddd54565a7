#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace recollect {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(value / 2);
}

absl::StatusOr<int> Quarter(int value) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(value));
  ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status Check(int value) {
  RETURN_IF_ERROR(Annotate(Half(value).status(), "value"));
  return absl::OkStatus();
}

TEST(StatusTest, AssignOrReturnPassesValuesAndErrors) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
}

TEST(StatusTest, AnnotateKeepsTheCode) {
  EXPECT_TRUE(Check(2).ok());
  EXPECT_EQ(Check(1), absl::InvalidArgumentError("value: odd"));
}

}  // namespace
}  // namespace recollect
