// A folder to import from and one to import into, for tests of Import.
#ifndef RECOLLECT_TESTS_CONVERT_IMPORT_TESTING_H_
#define RECOLLECT_TESTS_CONVERT_IMPORT_TESTING_H_

#include <filesystem>
#include <string>
#include <vector>

#include "convert/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/convert_testing.h"

namespace recollect::convert {

namespace fs = std::filesystem;

inline constexpr char kTokenizer[] = RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model";

class ImportFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / "recollect_import" /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ / "in");
    fs::copy_file(kTokenizer, root_ / "in" / "tokenizer.model");
    options_.from_dir = (root_ / "in").string();
    options_.out_dir = (root_ / "out").string();
    options_.plan.family = HubFamily::kRatPlus;
    options_.type = WeightType::kF32;
  }
  void TearDown() override { fs::remove_all(root_); }

  void UseFixture(const std::string& name) const {
    fs::copy_file(fs::path(RECOLLECT_SOURCE_DIR "/tests/golden/hub") / name, root_ / "in" / name);
  }
  void Use(const std::vector<TestTensor>& tensors, const std::string& config = "") const {
    WriteCheckpoint((root_ / "in/a.pt").string(), tensors, config);
  }

  void ExpectNothingLeft() const {
    EXPECT_FALSE(fs::exists(root_ / "out"));
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    EXPECT_THAT(names, ::testing::ElementsAre("in"));
  }
  void ExpectError(absl::StatusCode code, const std::vector<std::string>& fragments) const {
    const auto report = Import(options_);
    EXPECT_EQ(report.status().code(), code) << report.status();
    for (const std::string& fragment : fragments)
      EXPECT_THAT(std::string(report.status().message()), ::testing::HasSubstr(fragment));
    ExpectNothingLeft();
  }

  fs::path root_;
  ImportOptions options_;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_TESTS_CONVERT_IMPORT_TESTING_H_
