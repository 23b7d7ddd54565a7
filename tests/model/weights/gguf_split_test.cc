// Models that are split into several GGUF files.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "model/gguf_parts.h"
#include "model/weights/gguf.h"
#include "tests/model/model_testing.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Three parts with one tensor each.
class GgufSplitTest : public ::testing::Test {
 protected:
  struct Part {
    uint16_t number = 0, count = 3;
    int32_t tensors = 3;
    std::string tensor, name;
  };

  void SetUp() override {
    directory_ = Directory("parts");
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    for (uint16_t i = 0; i < 3; ++i) {
      parts_[i].number = i;
      parts_[i].tensor = absl::StrCat("t", i);
    }
  }
  std::string Path(int64_t part) const { return GgufPartPath(directory_ + "/m", part, 3); }
  void Write(const std::string& path, const Part& part) const {
    GgufWriter writer;
    writer.Set("split.no", part.number).Set("split.count", part.count);
    writer.Set("split.tensors.count", part.tensors);
    if (!part.name.empty()) writer.Set("general.name", part.name);
    writer.AddFloats(part.tensor, {2}, {part.number + 0.5f, 7});
    WriteFile(path, writer.Bytes());
  }
  absl::StatusOr<GgufFile> Open() const {
    for (size_t i = 0; i < 3; ++i) Write(Path(static_cast<int64_t>(i) + 1), parts_[i]);
    return GgufFile::Open(Path(1));
  }

  std::string directory_;
  Part parts_[3];
};

TEST_F(GgufSplitTest, TheFirstPartOpensAll) {
  const auto file = Open();
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->paths(), ElementsAre(Path(1), Path(2), Path(3)));
  EXPECT_EQ(file->tensors().size(), 3u);
  EXPECT_THAT(*file->ReadFloats("t0"), ElementsAre(0.5f, 7));
  EXPECT_THAT(*file->ReadFloats("t2"), ElementsAre(2.5f, 7));
}

TEST_F(GgufSplitTest, AMissingPartIsNamed) {
  ASSERT_THAT(Open(), IsOk());
  std::filesystem::remove(Path(2));
  const auto missing = GgufFile::Open(Path(1));
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kNotFound, "part 2 of 3: "));
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kNotFound, Path(2)));
}

TEST_F(GgufSplitTest, TheFirstPartMustBeNamedAndHaveItsName) {
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(GgufFile::Open(Path(2)),
              StatusIs(kInvalid, absl::StrCat("part 2 of 3, expected the first one, ", Path(1))));
  const std::string other = directory_ + "/other.gguf";
  std::filesystem::copy(Path(1), other);
  EXPECT_THAT(GgufFile::Open(other),
              StatusIs(kInvalid,
                       "other.gguf: split.count is 3, expected a name that ends with "
                       "-00001-of-00003.gguf"));
  const std::string of_four = GgufPartPath(directory_ + "/m", 1, 4);
  std::filesystem::copy(Path(1), of_four);
  EXPECT_THAT(GgufFile::Open(of_four), StatusIs(kInvalid, "split.count is 3, expected a name"));
}

TEST_F(GgufSplitTest, PartsMustAgree) {
  const auto changed = [&](int part, auto change) {
    const Part before = parts_[part];
    change(parts_[part]);
    const absl::Status status = Open().status();
    parts_[part] = before;
    return status;
  };
  EXPECT_THAT(changed(2, [](Part& p) { p.number = 1; }),
              StatusIs(kInvalid, "m-00003-of-00003.gguf: split.no is 1, expected 2"));
  EXPECT_THAT(changed(1, [](Part& p) { p.count = 4; }),
              StatusIs(kInvalid, "m-00002-of-00003.gguf: split.count is 4, expected 3"));
  EXPECT_THAT(changed(0, [](Part& p) { p.count = 0; }),
              StatusIs(kInvalid, "m-00001-of-00003.gguf: split.count is 0, expected 1 to 99999"));
  EXPECT_THAT(changed(2, [](Part& p) { p.tensors = 9; }),
              StatusIs(kInvalid,
                       "m-00003-of-00003.gguf: split.tensors.count is 9, the 3 parts "
                       "have 3"));
  EXPECT_THAT(changed(2, [](Part& p) { p.tensor = "t0"; }),
              StatusIs(kInvalid, "m-00003-of-00003.gguf: tensor t0 is in "));
  parts_[0].name = "whale";
  EXPECT_THAT(changed(1, [](Part& p) { p.name = "ship"; }),
              StatusIs(kInvalid, "m-00002-of-00003.gguf: general.name is \"ship\", that of "));
  EXPECT_THAT(changed(1, [](Part& p) { p.name = "whale"; }), IsOk());
}

TEST_F(GgufSplitTest, AFileThatIsNoPartIsRefusedAsOne) {
  ASSERT_THAT(Open(), IsOk());
  WriteFile(Path(3), GgufWriter().AddFloats("t2", {1}, {1}).Bytes());
  EXPECT_THAT(GgufFile::Open(Path(1)), StatusIs(kInvalid, "m-00003-of-00003.gguf: "));
}

// What tells it from other models is the bytes of all parts.
TEST_F(GgufSplitTest, AModelInPartsIsTheModelInOne) {
  const std::string hub = directory_ + "/hub", whole = directory_ + "/whole.gguf";
  WriteTinyLlama(hub);
  WriteGguf(hub, whole);
  const std::string folder = directory_ + "/split";
  std::filesystem::create_directories(folder);
  const auto write = [&](float change) {
    GgufWriter first = GgufOf(hub), rest;
    const size_t half = first.tensors.size() / 2;
    const auto count = static_cast<int32_t>(first.tensors.size());
    rest.tensors.assign(first.tensors.begin() + static_cast<int64_t>(half), first.tensors.end());
    first.tensors.resize(half);
    if (change != 0) rest.AddFloats("unexpected", {1}, {change});
    uint16_t number = 0;
    for (GgufWriter* part : {&first, &rest}) {
      part->Set("split.no", number++).Set("split.count", uint16_t{2});
      part->Set("split.tensors.count", count + (change != 0 ? 1 : 0));
      WriteFile(GgufPartPath(folder + "/tiny", number, 2), part->Bytes());
    }
  };
  write(0);
  const std::string path = GgufPartPath(folder + "/tiny", 1, 2);
  const std::vector<int32_t> tokens = {900, 17, 3000, 4, 4, 1234, 77};
  const auto expected = CpuModel::Load(whole);
  ASSERT_THAT(expected, IsOk());
  for (const std::string& named : {path, folder}) {
    const auto model = CpuModel::Load(named);
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ(RunTokens(**model, (*model)->config().local, tokens, 64),
              RunTokens(**expected, (*expected)->config().local, tokens, 64));
    EXPECT_NE((*model)->fingerprint(), (*expected)->fingerprint());
  }
  const std::string before = (*CpuModel::Load(path))->fingerprint();
  std::string second = ReadFile(GgufPartPath(folder + "/tiny", 2, 2));
  second[second.size() - 40] ^= 1;
  WriteFile(GgufPartPath(folder + "/tiny", 2, 2), second);
  EXPECT_NE((*CpuModel::Load(path))->fingerprint(), before);
  write(1);
  EXPECT_THAT(CpuModel::Load(path), StatusIs(kInvalid, "unexpected [1] is not a tensor"));
}

TEST(GgufPartsTest, NamesSayWhichPartTheyAre) {
  const auto name = ParseGgufPartName("/models/a-b-00002-of-00012.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->stem, "/models/a-b");
  EXPECT_EQ(name->part, 2);
  EXPECT_EQ(name->count, 12);
  for (const char* other : {"", "a.gguf", "a-00003-of-00002.gguf", "a-00000-of-00002.gguf",
                            "a-0001-of-0002.gguf", "a-00001-of-00002.bin", "a-00001-0f-00002.gguf",
                            "a_00001-of-00002.gguf", "a-0000x-of-00002.gguf", "-of-00002.gguf"}) {
    EXPECT_EQ(ParseGgufPartName(other), std::nullopt) << other;
    EXPECT_THAT(GgufPartPaths(other), ElementsAre(other));
  }
  EXPECT_THAT(GgufPartPaths("m-00002-of-00002.gguf"),
              ElementsAre("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"));
}

}  // namespace
}  // namespace recollect::model
