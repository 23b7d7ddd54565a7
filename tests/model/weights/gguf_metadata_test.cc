#include "model/weights/gguf_metadata.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/gguf_cursor.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/status_matchers.h"

namespace recollect::model {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;

// Metadata, and the bytes that it borrows from.
struct ReadMetadata {
  explicit ReadMetadata(const GgufWriter& writer) : bytes(writer.Header()) {
    GgufCursor cursor(std::as_bytes(std::span(bytes)));
    EXPECT_THAT(cursor.Take(16), IsOk());
    const auto keys = cursor.Read<uint64_t>();
    EXPECT_THAT(keys, IsOk());
    EXPECT_THAT(metadata.Read(cursor, *keys), IsOk());
    EXPECT_EQ(cursor.left(), 0u);
  }
  std::string bytes;
  GgufMetadata metadata;
};

TEST(GgufMetadataTest, ReadsScalars) {
  GgufWriter writer;
  writer.Set("u8", uint8_t{255}).Set("i8", int8_t{-128}).Set("u16", uint16_t{65535});
  writer.Set("i16", int16_t{-32768}).Set("u32", 4294967295u).Set("i32", int32_t{-5});
  writer.Set("u64", uint64_t{1} << 62).Set("i64", std::numeric_limits<int64_t>::min());
  writer.Set("f32", 1e-5f).Set("f64", 0.1).Set("yes", true).Set("no", false);
  writer.Set("text", std::string("a\0b", 3)).Set("empty", "");
  const ReadMetadata read(writer);
  const GgufMetadata& metadata = read.metadata;
  EXPECT_EQ(*metadata.GetInt("u8"), 255);
  EXPECT_EQ(*metadata.GetInt("i8"), -128);
  EXPECT_EQ(*metadata.GetInt("u16"), 65535);
  EXPECT_EQ(*metadata.GetInt("i16"), -32768);
  EXPECT_EQ(*metadata.GetInt("u32"), 4294967295);
  EXPECT_EQ(*metadata.GetInt("i32"), -5);
  EXPECT_EQ(*metadata.GetInt("u64"), int64_t{1} << 62);
  EXPECT_EQ(*metadata.GetInt("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*metadata.GetFloat("f32"), 1e-5f);
  EXPECT_EQ(*metadata.GetFloat("f64"), 0.1);
  EXPECT_TRUE(*metadata.GetBool("yes"));
  EXPECT_FALSE(*metadata.GetBool("no"));
  EXPECT_EQ(*metadata.GetString("text"), std::string_view("a\0b", 3));
  EXPECT_EQ(*metadata.GetString("empty"), "");
  EXPECT_TRUE(metadata.Has("empty"));
  EXPECT_FALSE(metadata.Has("emptier"));
}

TEST(GgufMetadataTest, ReadsArrays) {
  GgufWriter writer;
  writer.SetArray("words", std::vector<std::string>{"a", "", "\xc3\xa9"});
  writer.SetArray("bytes", std::vector<uint8_t>{0, 255});
  writer.SetArray("numbers", std::vector<int64_t>{-1, 1});
  writer.SetArray("scores", std::vector<float>{0.5f, -2});
  writer.SetArray("doubles", std::vector<double>{0.25});
  writer.SetArray("nothing", std::vector<std::string>{});
  const ReadMetadata read(writer);
  const GgufMetadata& metadata = read.metadata;
  const auto words = metadata.GetStrings("words");
  EXPECT_THAT(*words, ElementsAre("a", "", "\xc3\xa9"));
  // Not copied.
  EXPECT_GE(words->front().data(), read.bytes.data());
  EXPECT_LT(words->front().data(), read.bytes.data() + read.bytes.size());
  EXPECT_THAT(*metadata.GetInts("bytes"), ElementsAre(0, 255));
  EXPECT_THAT(*metadata.GetInts("numbers"), ElementsAre(-1, 1));
  EXPECT_THAT(*metadata.GetFloats("scores"), ElementsAre(0.5f, -2));
  EXPECT_THAT(*metadata.GetFloats("doubles"), ElementsAre(0.25f));
  EXPECT_THAT(*metadata.GetStrings("nothing"), ElementsAre());
  EXPECT_THAT(metadata.keys(),
              ElementsAre("bytes", "doubles", "nothing", "numbers", "scores", "words"));
}

TEST(GgufMetadataTest, NamesTheKeyAndBothTypes) {
  GgufWriter writer;
  writer.Set("text", "a").Set("number", uint32_t{1}).Set("flag", true).Set("rate", 1.5f);
  writer.SetArray("words", std::vector<std::string>{"a"});
  writer.SetArray("nothing", std::vector<int32_t>{});
  const ReadMetadata read(writer);
  const GgufMetadata& metadata = read.metadata;
  constexpr StatusCode kWrong = StatusCode::kInvalidArgument;
  EXPECT_THAT(metadata.GetInt("text"),
              StatusIs(kWrong, "text is of type string, expected integer"));
  EXPECT_THAT(metadata.GetInt("rate"), StatusIs(kWrong, "float32, expected integer"));
  EXPECT_THAT(metadata.GetInt("flag"), StatusIs(kWrong, "bool, expected integer"));
  EXPECT_THAT(metadata.GetBool("number"), StatusIs(kWrong, "uint32, expected bool"));
  EXPECT_THAT(metadata.GetFloat("number"), StatusIs(kWrong, "uint32, expected float"));
  EXPECT_THAT(metadata.GetString("words"), StatusIs(kWrong, "array of string, expected string"));
  EXPECT_THAT(metadata.GetStrings("text"), StatusIs(kWrong, "string, expected array of string"));
  EXPECT_THAT(metadata.GetInts("words"), StatusIs(kWrong, "string, expected array of integer"));
  EXPECT_THAT(metadata.GetFloats("nothing"), StatusIs(kWrong, "int32, expected array of float"));
  EXPECT_THAT(metadata.GetString("none"), StatusIs(StatusCode::kNotFound, "no key none"));
  EXPECT_THAT(metadata.GetInts("none"), StatusIs(StatusCode::kNotFound, "no key none"));
}

TEST(GgufMetadataTest, RefusesValuesThatItCannotReturn) {
  GgufWriter writer;
  writer.Set("large", ~uint64_t{0}).SetRaw("two", GgufValueType<bool>(), "\2");
  writer.SetArray("list", std::vector<uint64_t>{1, ~uint64_t{0}});
  const ReadMetadata read(writer);
  EXPECT_THAT(read.metadata.GetInt("large"),
              StatusIs(StatusCode::kInvalidArgument, "large: 18446744073709551615, limit"));
  EXPECT_THAT(read.metadata.GetBool("two"),
              StatusIs(StatusCode::kInvalidArgument, "two: 2, expected 0 or 1"));
  EXPECT_THAT(read.metadata.GetInts("list"),
              StatusIs(StatusCode::kInvalidArgument, "list[1]: 18446744073709551615"));
}

// Somebody wrote to the file after it was opened: no item reaches beyond its value.
TEST(GgufMetadataTest, BoundsHoldWhenBytesChange) {
  GgufWriter writer;
  writer.SetArray("words", std::vector<std::string>{"first", "second"});
  ReadMetadata read(writer);
  const size_t length = read.bytes.find("second") - sizeof(uint64_t);
  read.bytes[length + 2] = 1;
  EXPECT_THAT(read.metadata.GetStrings("words"),
              StatusIs(StatusCode::kInvalidArgument, "words[1]: 65542 bytes"));
}

}  // namespace
}  // namespace recollect::model
