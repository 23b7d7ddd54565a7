#include <filesystem>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/safetensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;

// Two files, of the tensors a and b, and c.
class ShardedSafetensorsTest : public ::testing::Test {
 protected:
  ShardedSafetensorsTest()
      : directory_(::testing::TempDir() + "/sharded_" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        index_(directory_ + "/model.safetensors.index.json") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    WriteSafetensors(directory_ + "/one", {{"a", {{2}, {1, 2}}}, {"b", {{1}, {3}}}});
    WriteSafetensors(directory_ + "/two", {{"c", {{1, 2}, {4, 5}}}});
  }
  absl::StatusOr<SafetensorsFile> Open(const std::string& index) const {
    WriteFile(index_, index);
    return SafetensorsFile::OpenIndex(index_);
  }
  std::string directory_, index_;
};

TEST_F(ShardedSafetensorsTest, ReadsTheTensorsOfAllFiles) {
  auto opened =
      Open(R"({"metadata":{"total_size":20},"weight_map":{"a":"one","c":"two","b":"one"}})");
  ASSERT_THAT(opened, IsOk());
  const SafetensorsFile file = *std::move(opened);
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_THAT(file.tensors().at("c").shape, ElementsAre(1, 2));
  EXPECT_THAT(*file.ReadFloats("a"), ElementsAre(1, 2));
  EXPECT_THAT(*file.ReadFloats("b"), ElementsAre(3));
  EXPECT_THAT(*file.ReadFloats("c"), ElementsAre(4, 5));
  EXPECT_THAT(file.ReadFloats("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(file.paths(), ElementsAre(directory_ + "/one", directory_ + "/two"));
}

TEST_F(ShardedSafetensorsTest, NamesWhatIsMissing) {
  EXPECT_THAT(SafetensorsFile::OpenIndex(index_), StatusIs(StatusCode::kNotFound, index_));
  EXPECT_THAT(Open(R"({"weight_map":{"a":"one","b":"one","c":"three"}})"),
              StatusIs(StatusCode::kNotFound, directory_ + "/three"));
  EXPECT_THAT(Open(R"({"weight_map":{"a":"one","b":"one","c":"two","d":"two"}})"),
              StatusIs(StatusCode::kInvalidArgument, "tensor d is not in " + directory_ + "/two"));
}

TEST_F(ShardedSafetensorsTest, RefusesTensorsInOtherPlaces) {
  EXPECT_THAT(Open(R"({"weight_map":{"a":"one","c":"two"}})"),
              StatusIs(StatusCode::kInvalidArgument, "/one: has tensor b, which the index"));
  EXPECT_THAT(Open(R"({"weight_map":{"a":"one","b":"two","c":"two"}})"),
              StatusIs(StatusCode::kInvalidArgument, "/one: has tensor b, not in two"));
}

TEST_F(ShardedSafetensorsTest, RefusesOtherIndexes) {
  for (const char* index :
       {"", "[]", "7", "{}", R"({"weight_map":[]})", R"({"weight_map":"one"})"}) {
    EXPECT_THAT(Open(index), StatusIs(StatusCode::kInvalidArgument, index_)) << index;
  }
  for (const char* place : {R"("../one")", R"("/etc/passwd")", R"("..")", R"("")", R"("one\u0000")",
                            "1", "null", R"(["one"])"}) {
    EXPECT_THAT(Open(absl::StrCat(R"({"weight_map":{"a":)", place, "}}")),
                StatusIs(StatusCode::kInvalidArgument, "tensor a is in "))
        << place;
  }
}

// A file that is cut off says so, as it does on its own.
TEST_F(ShardedSafetensorsTest, RefusesWhatItsFilesRefuse) {
  const std::string whole = ReadFile(directory_ + "/two");
  WriteFile(directory_ + "/two", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(Open(R"({"weight_map":{"a":"one","b":"one","c":"two"}})"),
              StatusIs(StatusCode::kInvalidArgument, "/two: truncated"));
}

}  // namespace
}  // namespace recollect::model
