#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace recollect {
namespace {

std::string Message(const std::string& text, EqualKeys equal = EqualKeys::kLastCounts) {
  const absl::StatusOr<nlohmann::json> value = ParseJson(text, equal);
  if (value.ok()) return value->dump();
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(value.status().message());
}

std::string Nested(size_t depth) {
  return absl::StrCat(std::string(depth, '['), std::string(depth, ']'));
}

TEST(JsonTest, ValuesComeAsTheyAre) {
  const std::string text =
      R"({"a":[1,-2,0.5,true,null,"é"],"b":{"c":18446744073709551615,"d":{}}})";
  EXPECT_EQ(Message(text), text);
  EXPECT_EQ(Message("\xef\xbb\xbf 7 "), "7");  // a byte order mark
}

TEST(JsonTest, PlaceAndReasonAreToldWithoutTheText) {
  EXPECT_EQ(Message("{\"key\": \"rk_secret\n\"}"),
            "not JSON in UTF-8 at byte 18 of 21: parse error at line 2, column 0: syntax error "
            "while parsing value - invalid string: control character U+000A (LF) must be escaped "
            "to \\u000A or \\n");
  EXPECT_EQ(Message(""),
            "not JSON in UTF-8 at byte 0 of 0: parse error at line 1, column 1: syntax error while "
            "parsing value - unexpected end of input; expected '[', '{', or a literal");
  EXPECT_EQ(Message(std::string(1'000'000, '1')),
            "not JSON in UTF-8: it has a number beyond the range of a double");
  EXPECT_LT(Message("[\"" + std::string(1'000'000, 'x')).size(), 300u);
}

TEST(JsonTest, DepthIsBounded) {
  EXPECT_EQ(Message(Nested(kMaxJsonDepth)), Nested(kMaxJsonDepth));
  EXPECT_EQ(Message(Nested(kMaxJsonDepth + 1)), "nested 65 deep, expected at most 64");
  EXPECT_EQ(Message(Nested(2'000'000)), "nested 2000000 deep, expected at most 64");
  const std::string beside = absl::StrCat("[", Nested(50), ",", Nested(50), "]");
  EXPECT_EQ(Message(beside), beside);
  // Brackets in a string are text.
  const std::string quoted = absl::StrCat("[\"\\\"", std::string(1000, '['), "\"]");
  EXPECT_EQ(Message(quoted), quoted);
  // Before keys, of which a text that is too deep may have any number.
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":1,"a":)";
  EXPECT_EQ(Message(objects + "1" + std::string(100'000, '}'), EqualKeys::kRefused),
            "nested 100000 deep, expected at most 64");
}

TEST(JsonTest, EqualKeysAreRefusedWhereItIsAskedFor) {
  const std::string text = R"([{"a":1},{"a":{"a":2},"b":3,"a":4}])";
  EXPECT_EQ(Message(text), R"([{"a":1},{"a":4,"b":3}])");
  EXPECT_EQ(Message(text, EqualKeys::kRefused), "key \"a\" appears twice");
  const std::string key = absl::StrCat(std::string(255, 'x'), "é", std::string(100'000, 'y'));
  const std::string twice = absl::StrCat("{\"", key, "\":1,\"", key, "\":2}");
  EXPECT_EQ(Message(twice, EqualKeys::kRefused),
            absl::StrCat("key \"", std::string(255, 'x'), "… (100257 bytes)\" appears twice"));
}

// A list of objects, which the library's parser with a callback would walk through at each of them:
// then this takes hours.
TEST(JsonTest, ManyObjectsTakeTimeByTheirNumber) {
  std::string text = "[{}";
  for (int i = 0; i < 1'000'000; ++i) text += ",{}";
  EXPECT_EQ(ParseJson(text + "]", EqualKeys::kRefused)->size(), 1'000'001u);
}

}  // namespace
}  // namespace recollect
