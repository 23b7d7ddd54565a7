#include "model/weights/gguf.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GgufTest : public ::testing::Test {
 protected:
  std::string path() const {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
  }
  absl::StatusOr<GgufFile> OpenBytes(const std::string& bytes) const {
    WriteFile(path(), bytes);
    return GgufFile::Open(path());
  }
  // The message names the file, and every fragment.
  template <typename... Fragments>
  void ExpectRefused(const std::string& bytes, Fragments... fragments) const {
    const absl::Status status = OpenBytes(bytes).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(HasSubstr(path()), HasSubstr(fragments)...));
  }
  template <typename... Fragments>
  void ExpectRefused(const GgufWriter& writer, Fragments... fragments) const {
    ExpectRefused(writer.Bytes(), fragments...);
  }
};

// Two tensors of 16 and 2 numbers, and a key of each sort.
GgufWriter SmallWriter() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.SetArray("tokens", std::vector<std::string>{"a", "", "bc"});
  writer.SetArray("types", std::vector<int32_t>{1, -2, 3});
  writer.AddFloats("a", {2, 8}, std::vector<float>(16, 1.5f));
  writer.AddFloats("b", {2}, {7, 8});
  return writer;
}

TEST_F(GgufTest, ReadsWhatWasWritten) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = SmallWriter();
    writer.version = version;
    const auto file = OpenBytes(writer.Bytes());
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ(file->tensors().size(), 2u);
    const TensorInfo& a = file->tensors().at("a");
    EXPECT_EQ(a.dtype, "F32");
    EXPECT_THAT(a.shape, ElementsAre(2, 8));
    EXPECT_EQ(a.bytes, 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % 8, 0u);
    EXPECT_EQ(*file->ReadFloats("a"), std::vector<float>(16, 1.5f));
    EXPECT_THAT(*file->ReadFloats("b"), ElementsAre(7, 8));
    EXPECT_THAT(file->ReadFloats("c"), StatusIs(StatusCode::kNotFound, "c"));
    EXPECT_THAT(*file->metadata().GetStrings("tokens"), ElementsAre("a", "", "bc"));
  }
}

TEST_F(GgufTest, MissingFileIsNotFound) {
  EXPECT_THAT(GgufFile::Open(path() + ".none"), StatusIs(StatusCode::kNotFound, ".none"));
  EXPECT_THAT(GgufFile::Open(::testing::TempDir()),
              StatusIs(StatusCode::kInvalidArgument, "cannot be mapped"));
}

TEST_F(GgufTest, ReadsEveryType) {
  GgufWriter writer;
  const auto bytes_of = [](auto... items) {
    std::string bytes;
    (AppendGguf(bytes, items), ...);
    return bytes;
  };
  // In half precision 1, -3, the least subnormal; in bfloat16 1, -3.
  writer.Add("f16", {3}, GgufTensorType::kF16,
             bytes_of(uint16_t{0x3c00}, uint16_t{0xc200}, uint16_t{1}));
  writer.Add("bf16", {2}, GgufTensorType::kBF16, bytes_of(uint16_t{0x3f80}, uint16_t{0xc040}));
  // Scale 0.5, minimum 1; quants of 0x53: 3 of number 0 to 15, 5 of the others.
  const std::string nibbles(16, '\x53');
  writer.Add("q4_0", {32}, GgufTensorType::kQ4_0, bytes_of(uint16_t{0x3800}) + nibbles);
  writer.Add("q4_1", {1, 32}, GgufTensorType::kQ4_1,
             bytes_of(uint16_t{0x3800}, uint16_t{0x3c00}) + nibbles);
  writer.Add("q8_0", {32}, GgufTensorType::kQ8_0,
             bytes_of(uint16_t{0x3800}) + std::string(32, '\xfe'));
  writer.Add("q5_0", {32}, GgufTensorType::kQ5_0, std::string(22, '\0'));
  writer.Add("q5_1", {32}, GgufTensorType::kQ5_1, std::string(24, '\0'));
  writer.Add("q4_k", {256}, GgufTensorType::kQ4_K, std::string(144, '\0'));
  writer.Add("q5_k", {2, 256}, GgufTensorType::kQ5_K, std::string(2 * 176, '\0'));
  writer.Add("q6_k", {256}, GgufTensorType::kQ6_K, std::string(210, '\0'));
  const auto file = OpenBytes(writer.Bytes());
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(*file->ReadFloats("f16"), ElementsAre(1, -3, 0x1p-24f));
  EXPECT_THAT(*file->ReadFloats("bf16"), ElementsAre(1, -3));
  for (const auto& [name, low, high] :
       {std::tuple("q4_0", -2.5f, -1.5f), {"q4_1", 2.5f, 3.5f}, {"q8_0", -1.0f, -1.0f}}) {
    const std::vector<float> numbers = *file->ReadFloats(name);
    ASSERT_EQ(numbers.size(), 32u) << name;
    EXPECT_EQ(numbers[0], low) << name;
    EXPECT_EQ(numbers[31], high) << name;
  }
  EXPECT_EQ(file->tensors().at("q5_k").dtype, "Q5_K");
  EXPECT_EQ(file->ReadFloats("q5_k")->size(), 512u);
}

TEST_F(GgufTest, ReadsUnusualShapesAndOrders) {
  GgufWriter writer;
  writer.AddFloats("scalar", {}, {5});
  writer.AddFloats("cube", {1, 2, 1, 2}, {1, 2, 3, 4});
  writer.AddFloats("none", {3, 0}, {});
  // In the directory in another order than in the data.
  std::swap(writer.tensors[0], writer.tensors[1]);
  writer.tensors[0].offset = 0;
  writer.tensors[1].offset = 32;
  const auto file = OpenBytes(writer.Bytes());
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->tensors().at("cube").shape, ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(*file->ReadFloats("cube"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*file->ReadFloats("scalar"), ElementsAre(5));
  EXPECT_THAT(*file->ReadFloats("none"), ElementsAre());
}

TEST_F(GgufTest, TheLastTensorNeedsNoPadding) {
  const std::string bytes = SmallWriter().Bytes();
  EXPECT_THAT(OpenBytes(bytes.substr(0, bytes.size() - 24)), IsOk());
  EXPECT_THAT(OpenBytes(GgufWriter().Header()), IsOk());
}

TEST_F(GgufTest, HonoursTheAlignment) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    GgufWriter writer = SmallWriter();
    writer.Set("general.alignment", alignment);
    writer.alignment = alignment;
    const auto file = OpenBytes(writer.Bytes());
    ASSERT_THAT(file, IsOk()) << alignment;
    EXPECT_THAT(*file->ReadFloats("b"), ElementsAre(7, 8));
  }
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u}) {
    GgufWriter writer = SmallWriter();
    ExpectRefused(writer.Set("general.alignment", alignment), "general.alignment",
                  absl::StrCat(alignment, ", expected a power of two"));
  }
  GgufWriter large = SmallWriter();
  ExpectRefused(large.Set("general.alignment", uint64_t{1} << 62), "tensor a");
  GgufWriter text = SmallWriter();
  ExpectRefused(text.Set("general.alignment", "32"), "general.alignment", "string", "integer");
}

TEST_F(GgufTest, RefusesOtherFiles) {
  ExpectRefused("", "4 bytes at byte 0");
  ExpectRefused("GGU", "3 are left");
  ExpectRefused("PK\3\4" + std::string(100, '\0'), "not a GGUF file", "PK");
  GgufWriter writer = SmallWriter();
  for (const uint32_t version : {0u, 1u, 4u}) {
    writer.version = version;
    ExpectRefused(writer, absl::StrCat("version ", version), "expected 2 or 3");
  }
  writer.version = 0x03000000;
  ExpectRefused(writer, "version 3 of a big-endian machine");
}

TEST_F(GgufTest, RefusesEveryTruncation) {
  const std::string whole = SmallWriter().Bytes();
  const size_t last_number = whole.size() - 24;
  for (size_t size = 0; size < last_number; ++size) {
    EXPECT_THAT(OpenBytes(whole.substr(0, size)), StatusIs(StatusCode::kInvalidArgument, path()))
        << size;
  }
  ExpectRefused(whole.substr(0, last_number - 1), "tensor b: 8 bytes from byte 64",
                "71 bytes of data");
}

// Every count and length that is larger than the file, up to what no memory holds.
TEST_F(GgufTest, RefusesCountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{100}, uint64_t{1} << 32, uint64_t{1} << 60, ~uint64_t{0}}) {
    GgufWriter tensors = SmallWriter();
    tensors.tensor_count = count;
    ExpectRefused(tensors, "tensor");
    GgufWriter keys = SmallWriter();
    keys.key_count = count;
    ExpectRefused(keys, "key");
    std::string length;
    AppendGguf(length, count);
    ExpectRefused(GgufWriter().SetRaw("name", 8, length), "name", "truncated");
    for (const uint32_t item : {0u, 8u, 12u}) {
      std::string array;
      AppendGguf(array, item);
      ExpectRefused(GgufWriter().SetRaw("list", 9, array + length), "list",
                    absl::StrCat("an array of ", count));
    }
  }
  // What aligns the data is no tensor without a name.
  GgufWriter one_more = SmallWriter();
  one_more.tensor_count = 3;
  ExpectRefused(one_more, "the name of tensor 2 has 0 bytes");
}

TEST_F(GgufTest, RefusesKeys) {
  ExpectRefused(GgufWriter().Set("", 1.0f), "key 0 has 0 bytes");
  ExpectRefused(GgufWriter().Set(std::string(70000, 'k'), 1.0f), "70000 bytes", "65535");
  ExpectRefused(SmallWriter().Set("tokens", 1.0f), "key tokens is there twice");
  ExpectRefused(GgufWriter().SetRaw("odd", 13, ""), "odd: type 13");
  std::string nested;
  AppendGguf(nested, uint32_t{9});
  AppendGguf(nested, uint64_t{1});
  AppendGguf(nested, uint32_t{0});
  AppendGguf(nested, uint64_t{0});
  ExpectRefused(GgufWriter().SetRaw("deep", 9, nested), "deep", "array of arrays");
  std::string unknown;
  AppendGguf(unknown, uint32_t{99});
  AppendGguf(unknown, uint64_t{0});
  ExpectRefused(GgufWriter().SetRaw("odd", 9, unknown), "odd: type 99");
}

// What a message quotes is bounded, and shows on a terminal as what it is.
TEST_F(GgufTest, MessagesQuoteSafely) {
  const std::string key = "\x1b[31m" + std::string(5000, 'k');
  const absl::Status status = OpenBytes(GgufWriter().SetRaw(key, 13, "").Bytes()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_LT(status.message().size(), 400u + path().size());
  EXPECT_EQ(status.message().find('\x1b'), absl::string_view::npos);
}

TEST_F(GgufTest, RefusesTensors) {
  GgufWriter twice = SmallWriter();
  ExpectRefused(twice.AddFloats("a", {1}, {1}), "tensor a is there twice");
  ExpectRefused(GgufWriter().AddFloats(std::string(65, 'n'), {1}, {1}),
                "65 bytes, expected 1 to 64");
  ExpectRefused(GgufWriter().AddFloats("five", {1, 1, 1, 1, 1}, {1}), "five", "5 extents");
  GgufWriter negative = SmallWriter();
  negative.tensors[0].shape = {-1};
  ExpectRefused(negative, "tensor a", "extent of 18446744073709551615");
  for (const auto& [type, name] : {std::pair(10u, "type 10 (Q2_K)"),
                                   {4u, "type 4 is"},
                                   {26u, "type 26 (I32)"},
                                   {4000000000u, "type 4000000000 is"}}) {
    GgufWriter writer = SmallWriter();
    writer.tensors[1].type = type;
    ExpectRefused(writer, "tensor b", name, "Q4_K");
  }
}

TEST_F(GgufTest, RefusesExtentsThatOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  for (const auto& shape : std::vector<std::vector<int64_t>>{{kLarge, kLarge},
                                                             {INT64_MAX},
                                                             {2, INT64_MAX / 4},
                                                             {kLarge, kLarge, 0},
                                                             {kLarge, 1, 1, kLarge / 4}}) {
    GgufWriter writer = SmallWriter();
    writer.tensors[0].shape = shape;
    ExpectRefused(writer, "tensor a", "F32", "64 bits");
  }
  // The blocks are fewer bytes than 64 bits count, their numbers as fp32 more.
  GgufWriter blocks = SmallWriter();
  blocks.tensors[0].type = static_cast<uint32_t>(GgufTensorType::kQ4_0);
  blocks.tensors[0].shape = {kLarge, kLarge / 4};
  ExpectRefused(blocks, "tensor a", "Q4_0", "64 bits");
}

TEST_F(GgufTest, RefusesPartsOfBlocks) {
  ExpectRefused(GgufWriter().Add("q", {2, 16}, GgufTensorType::kQ8_0, std::string(34, '\0')),
                "tensor q", "rows of 16 numbers", "blocks of Q8_0 have 32");
  ExpectRefused(GgufWriter().Add("k", {32, 96}, GgufTensorType::kQ6_K, std::string(2520, '\0')),
                "tensor k", "rows of 96 numbers", "blocks of Q6_K have 256");
  ExpectRefused(GgufWriter().Add("s", {}, GgufTensorType::kQ4_1, std::string(20, '\0')), "tensor s",
                "rows of 1 numbers");
}

TEST_F(GgufTest, RefusesOffsets) {
  const auto with_offset = [](size_t tensor, uint64_t offset) {
    GgufWriter writer = SmallWriter();
    writer.tensors[tensor].offset = offset;
    return writer;
  };
  ExpectRefused(with_offset(1, 32), "tensors a and b overlap by 32 bytes");
  ExpectRefused(with_offset(1, 0), "tensors b and a overlap by 8 bytes");
  ExpectRefused(with_offset(1, 72), "tensor b: offset 72, expected a multiple of 32");
  ExpectRefused(with_offset(1, 128), "tensor b: 8 bytes from byte 128", "96 bytes of data");
  ExpectRefused(with_offset(1, ~uint64_t{31}), "tensor b: 8 bytes from byte 18446744073709551584");
  ExpectRefused(with_offset(0, 64), "tensor a: 64 bytes from byte 64", "96 bytes of data");
  ExpectRefused(with_offset(0, 32), "32 bytes before tensor a");
}

TEST_F(GgufTest, RefusesDataOfNoTensor) {
  GgufWriter writer = SmallWriter();
  ExpectRefused(writer.Bytes() + std::string(5, '\0'), "72 bytes of data", "has 101");
  writer.AddFloats("c", {8}, std::vector<float>(8, 1));
  const std::string with_c = writer.Bytes();
  writer.tensors.pop_back();
  const std::string data = with_c.substr(with_c.size() - 128);
  std::string header = writer.Header();
  header.resize((header.size() + 31) / 32 * 32);
  ExpectRefused(header + data, "72 bytes of data", "has 128");
  writer.tensors[1].offset = 96;
  header = writer.Header();
  header.resize((header.size() + 31) / 32 * 32);
  ExpectRefused(header + data, "32 bytes before tensor b");
}

}  // namespace
}  // namespace recollect::model
