#include "base/io/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

std::string Path(const std::string& name) { return ::testing::TempDir() + "/mapped_" + name; }

std::string TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

MappedFile Map(const std::string& name, const std::string& text) {
  std::ofstream(Path(name), std::ios::binary) << text;
  auto file = MappedFile::Open(Path(name));
  EXPECT_THAT(file, IsOk());
  return *std::move(file);
}

TEST(MappedFileTest, HasTheBytes) {
  const std::string text(100'000, 'x');
  EXPECT_EQ(TextOf(Map("bytes", text)), text);
  EXPECT_EQ(TextOf(Map("empty", "")), "");
}

TEST(MappedFileTest, BytesStayWhereTheyAreWhenItMoves) {
  MappedFile first = Map("first", "one");
  const std::byte* address = first.bytes().data();
  MappedFile moved = std::move(first);
  EXPECT_EQ(moved.bytes().data(), address);
  MappedFile other = Map("other", "two");
  other = std::move(moved);
  EXPECT_EQ(other.bytes().data(), address);
  EXPECT_EQ(TextOf(other), "one");
}

TEST(MappedFileTest, NamesWhatCannotBeMapped) {
  EXPECT_THAT(MappedFile::Open(Path("none")),
              StatusIs(absl::StatusCode::kNotFound, Path("none") + ": No such file"));
  EXPECT_THAT(MappedFile::Open(::testing::TempDir()),
              StatusIs(absl::StatusCode::kInvalidArgument, "cannot be mapped"));
}

}  // namespace
}  // namespace recollect
