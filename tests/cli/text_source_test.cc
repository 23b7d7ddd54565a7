#include "cli/common/text_source.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace recollect::cli {
namespace {

std::string TempFile(const std::string& text) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = ::testing::TempDir() + "/" + test->name() + ".txt";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(TextSourceTest, ReadsFilesFromAnyOffsetAndAgain) {
  const auto source = TextSource::Open(TempFile("0123456789")).value();
  EXPECT_TRUE(source->seekable());
  EXPECT_EQ(source->size(), 10);
  EXPECT_EQ(source->Read(4, 3).value(), "456");
  EXPECT_EQ(source->Read(7, 100).value(), "789");
  EXPECT_EQ(source->Read(10, 100).value(), "");
  EXPECT_EQ(source->Read(0, 2).value(), "01");
}

TEST(TextSourceTest, AFileShorterThanWhatWasCommittedIsOutOfRange) {
  const auto source = TextSource::Open(TempFile("0123")).value();
  const absl::Status status = source->Read(9, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

TEST(TextSourceTest, MissingFilesAndDirectoriesAreNamed) {
  EXPECT_EQ(TextSource::Open("/nowhere/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TextSource::Open(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Not UNAVAILABLE, which an ingest tries again.
TEST(TextSourceTest, AReadErrorIsBadInput) {
  const auto source = TextSource::Open("/proc/self/mem").value();  // nothing lies at address 0
  const absl::Status status = source->Read(0, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace recollect::cli
