#include "model/weights/safetensors.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string path() const {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
  }
  // A file of this header and `data_bytes` bytes of data.
  std::string Make(const std::string& header, size_t data_bytes) const {
    const uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
    file += header;
    for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
    return file;
  }
  absl::Status OpenBytes(const std::string& bytes) const {
    WriteFile(path(), bytes);
    return SafetensorsFile::Open(path()).status();
  }
  void ExpectRefused(const std::string& header, size_t data_bytes,
                     const std::string& fragment) const {
    const absl::Status status = OpenBytes(Make(header, data_bytes));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << header;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fragment)) << header;
  }
};

TEST_F(SafetensorsTest, ReadsWhatWasWritten) {
  WriteSafetensors(path(),
                   {{"a", {{2, 2}, {1, 2, 3, 4}}}, {"b", {{}, {5}}}, {"none", {{0, 3}, {}}}});
  const auto file = SafetensorsFile::Open(path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 3u);
  EXPECT_THAT(file->tensors().at("a").shape, ElementsAre(2, 2));
  EXPECT_THAT(*file->ReadFloats("a"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*file->ReadFloats("b"), ElementsAre(5));
  EXPECT_THAT(*file->ReadFloats("none"), ElementsAre());
  EXPECT_EQ(file->ReadFloats("c").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, ConvertsHalfFormats) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
      R"("h":{"dtype":"F16","shape":[4],"data_offsets":[4,12]},"i":{"dtype":"I32","shape":[1],"data_offsets":[12,16]}})";
  std::string bytes = Make(header, 0);
  const uint16_t items[] = {0x3f80, 0xc040, 0x3c00, 0xc200, 0x0001, 0x7c00, 0, 0};
  bytes.append(reinterpret_cast<const char*>(items), sizeof(items));
  WriteFile(path(), bytes);
  const auto file = SafetensorsFile::Open(path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->ReadFloats("b"), ElementsAre(1.0f, -3.0f));
  EXPECT_THAT(*file->ReadFloats("h"),
              ElementsAre(1.0f, -3.0f, 0x1p-24f, std::numeric_limits<float>::infinity()));
  EXPECT_EQ(file->ReadFloats("i").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, MissingFileIsNotFound) {
  EXPECT_EQ(SafetensorsFile::Open(path() + ".none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, RefusesEveryTruncation) {
  WriteSafetensors(path(), {{"a", {{2, 2}, {1, 2, 3, 4}}}, {"b", {{1}, {5}}}});
  const std::string whole = ReadFile(path());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(OpenBytes(whole.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_THAT(std::string(OpenBytes(whole.substr(0, whole.size() - 3)).message()),
              HasSubstr("describes 20 bytes of data, the file has 17"));
  EXPECT_THAT(std::string(OpenBytes(whole + "x").message()),
              HasSubstr("describes 20 bytes of data, the file has 21"));
}

TEST_F(SafetensorsTest, RefusesMalformedHeaders) {
  const auto tensor = [](const std::string& name, const std::string& shape, int begin, int end) {
    return absl::StrCat("\"", name, R"(":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[)",
                        begin, ",", end, "]}");
  };
  ExpectRefused(absl::StrCat("{", tensor("a", "[2]", 0, 8), ",", tensor("b", "[2]", 4, 12), "}"),
                12, "tensors a and b overlap by 4 bytes");
  ExpectRefused(absl::StrCat("{", tensor("a", "[1]", 0, 4), ",", tensor("b", "[1]", 8, 12), "}"),
                12, "4 bytes before tensor b belong to no tensor");
  ExpectRefused(absl::StrCat("{", tensor("a", "[3]", 0, 8), "}"), 8,
                "a: shape [3] of F32 is 12 bytes, data_offsets span 8");
  ExpectRefused(absl::StrCat("{", tensor("a", "[1]", 8, 4), "}"), 8, "a: data_offsets [8,4]");
  ExpectRefused(absl::StrCat("{", tensor("a", "[-1]", 0, 4), "}"), 4, "a: shape [-1]");
  ExpectRefused(absl::StrCat("{", tensor("a", "[4611686018427387904,4]", 0, 4), "}"), 4,
                "a: shape");
  ExpectRefused(absl::StrCat("{", tensor("a", "[1]", 0, 4), ",", tensor("a", "[1]", 4, 8), "}"), 8,
                "\"a\" appears twice");
  ExpectRefused(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8, "dtype \"F64\"");
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[1]}})", 4,
                "expected dtype, shape and data_offsets");
  ExpectRefused(R"({"a":3})", 4, "expected dtype, shape and data_offsets");
  ExpectRefused("[1]", 0, "not a JSON object");
  ExpectRefused("{\"a\"", 0, "not JSON");
  std::string huge = Make("{}", 0);
  huge[7] = '\x7f';
  EXPECT_EQ(OpenBytes(huge).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::model
