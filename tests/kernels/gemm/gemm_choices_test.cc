#include "kernels/gemm/gemm_choices.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

constexpr GemmShape kUp{1280, 256, DType::kBf16, DType::kFloat32, false};
constexpr GemmShape kDown{256, 1280, DType::kFloat32, DType::kFloat32, true};
constexpr const char* kDevice = "NVIDIA H200, 9.0";

class GemmChoicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/choices-",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    path_ = folder_ + "/below/products.txt";
  }
  GemmChoices Open(const std::string& device = kDevice, uint64_t library = 130000) const {
    return {path_, device, library};
  }
  std::string Read() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string folder_, path_;
};

// Two algorithms, in three ranges with a gap.
GemmChoice Several() {
  return {{{{1, 64, 0}, {65, 128, 1}, {256, 4096, 0}}},
          {{1, 2, 3, 4, 5, 6, 7, ~uint64_t{0}}, {8, 0, 0, 0, 0, 0, 0, 9}}};
}
GemmChoice One() { return {{{{1, 8192, 0}}}, {{42}}}; }

void ExpectSame(const std::optional<GemmChoice>& found, const GemmChoice& expected) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.ranges, expected.plan.ranges);
  EXPECT_EQ(found->algorithms, expected.algorithms);
}

TEST_F(GemmChoicesTest, AreThereAtTheNextStart) {
  GemmChoices first = Open();
  EXPECT_FALSE(first.Find(kUp).has_value());
  EXPECT_EQ(first.Keep(kUp, Several()), absl::OkStatus());
  EXPECT_EQ(first.Keep(kDown, One()), absl::OkStatus());
  ExpectSame(first.Find(kUp), Several());
  const GemmChoices second = Open();
  ExpectSame(second.Find(kUp), Several());
  ExpectSame(second.Find(kDown), One());
  GemmShape other = kUp;
  other.out = DType::kBf16;
  EXPECT_FALSE(second.Find(other).has_value());
}

TEST_F(GemmChoicesTest, OfAnotherDeviceOrLibraryAreIgnoredAndWrittenAnew) {
  EXPECT_EQ(Open().Keep(kUp, Several()), absl::OkStatus());
  EXPECT_FALSE(Open("NVIDIA H100, 9.0").Find(kUp).has_value());
  EXPECT_FALSE(Open(kDevice, 130001).Find(kUp).has_value());
  EXPECT_EQ(Open(kDevice, 130001).Keep(kDown, One()), absl::OkStatus());
  EXPECT_FALSE(Open(kDevice, 130001).Find(kUp).has_value());
  ExpectSame(Open(kDevice, 130001).Find(kDown), One());
}

// Every byte of a file, changed, and every beginning of it.
TEST_F(GemmChoicesTest, DamagedAreIgnoredAndWrittenAnew) {
  EXPECT_EQ(Open().Keep(kUp, Several()), absl::OkStatus());
  const std::string whole = Read();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    Write(damaged);
    EXPECT_FALSE(Open().Find(kUp).has_value()) << "byte " << i;
    Write(whole.substr(0, i));
    EXPECT_FALSE(Open().Find(kUp).has_value()) << i << " bytes";
  }
  EXPECT_EQ(Open().Keep(kUp, Several()), absl::OkStatus());
  EXPECT_EQ(Read(), whole);
}

TEST_F(GemmChoicesTest, PlansThatNobodyTriedAreIgnored) {
  for (const GemmPlan& plan : {GemmPlan{{{0, 64, 0}}}, GemmPlan{{{64, 1, 0}}},
                               GemmPlan{{{1, 64, 0}, {64, 128, 0}}}, GemmPlan{{{1, 8193, 0}}}}) {
    EXPECT_EQ(Open().Keep(kUp, {plan, {{1}}}), absl::OkStatus());
    EXPECT_FALSE(Open().Find(kUp).has_value()) << NameOf(plan);
  }
  const GemmShape odd{7, 5, DType::kBf16};
  EXPECT_EQ(Open().Keep(odd, One()), absl::OkStatus());
  EXPECT_FALSE(Open().Find(odd).has_value());
}

TEST_F(GemmChoicesTest, ProcessesAddToOneFile) {
  GemmChoices first = Open(), second = Open();
  EXPECT_EQ(first.Keep(kUp, Several()), absl::OkStatus());
  EXPECT_EQ(second.Keep(kDown, One()), absl::OkStatus());
  ExpectSame(Open().Find(kUp), Several());
  ExpectSame(Open().Find(kDown), One());
  // Nothing is left beside it.
  const std::filesystem::directory_iterator files(folder_ + "/below");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(GemmChoicesTest, AreRememberedWhereNoFileCanBe) {
  std::ofstream(folder_) << "a file where the directory should be";
  GemmChoices choices = Open();
  EXPECT_THAT(choices.Keep(kUp, One()).message(), HasSubstr("cannot write " + path_));
  ExpectSame(choices.Find(kUp), One());
  GemmChoices nowhere("", kDevice, 1);
  EXPECT_EQ(nowhere.Keep(kUp, One()), absl::OkStatus());
  ExpectSame(nowhere.Find(kUp), One());
}

TEST_F(GemmChoicesTest, TheFileIsUnderTheCacheOfTheUser) {
  const auto path = [](const char* cache, const char* home) {
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
    return GemmChoicesPath(kDevice, 130000);
  };
  EXPECT_EQ(path("/c", "/h"), "/c/recollect/products-NVIDIA-H200--9.0-130000.txt");
  EXPECT_EQ(path("", "/h"), "/h/.cache/recollect/products-NVIDIA-H200--9.0-130000.txt");
  EXPECT_EQ(path("relative", "/h"), path("", "/h"));
  EXPECT_EQ(path("", ""), "");
}

}  // namespace
}  // namespace recollect::kernels
