#include "model/text/tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer =
      Tokenizer::Load(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model").value().release();
  return *tokenizer;
}

// Texts and their ids as train/data/tokenizer.py gives them (make_tokenizer_cases.py).
nlohmann::json Cases() {
  return nlohmann::json::parse(
      ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/tokenizer_cases.json"));
}

TEST(TokenizerTest, AgreesWithTheOracle) {
  const nlohmann::json cases = Cases();
  ASSERT_GT(cases.size(), 40u);
  for (const auto& entry : cases) {
    const std::string text = entry["text"];
    const auto ids = TinyTokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << text;
  }
}

TEST(TokenizerTest, TheShippedOneAgreesWithTheOracle) {
  const auto loaded = Tokenizer::Load(RECOLLECT_SOURCE_DIR "/models/recollect-7m/tokenizer.model");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& shipped = **loaded;
  EXPECT_EQ(shipped.vocab_size(), 4096);
  int compared = 0;
  for (const auto& entry : Cases()) {
    if (!entry.contains("shipped")) continue;
    const std::string text = entry["text"];
    const auto ids = shipped.Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["shipped"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(shipped.Decode(*ids), text);
    ++compared;
  }
  EXPECT_GT(compared, 20);
  // Each digit is a token of its own.
  const std::vector<int32_t> number = shipped.Encode("7482130956").value();
  const auto digits = std::ranges::count_if(number, [&](int32_t id) {
    const std::string_view bytes = shipped.TokenBytes(id);
    return bytes.size() == 1 && absl::ascii_isdigit(static_cast<unsigned char>(bytes[0]));
  });
  EXPECT_EQ(digits, 10);
}

TEST(TokenizerTest, TextComesBackByteForByteWithoutControlSymbols) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const std::vector<int32_t> ids = TinyTokenizer().Encode(text).value();
    EXPECT_EQ(TinyTokenizer().Decode(ids), text);
    for (const int32_t id : ids) EXPECT_GT(id, 2) << text;
  }
}

// However the text arrives: any first cut, and then byte by byte.
TEST(TokenizerTest, EverySplitGivesTheSameTokens) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const std::vector<int32_t> whole = entry["ids"];
    const size_t step = text.size() > 600 ? 37 : 1;
    for (size_t cut = 0; cut <= text.size(); cut += step) {
      const auto first =
          TinyTokenizer().EncodePrefix(std::string_view(text).substr(0, cut), false, 0);
      ASSERT_TRUE(first.ok()) << first.status();
      const auto rest = TinyTokenizer().EncodePrefix(
          std::string_view(text).substr(static_cast<size_t>(first->consumed)), true,
          first->consumed);
      ASSERT_TRUE(rest.ok()) << rest.status();
      std::vector<int32_t> joined = first->ids;
      joined.insert(joined.end(), rest->ids.begin(), rest->ids.end());
      ASSERT_EQ(joined, whole) << "cut at " << cut << " of " << text;
    }
    std::vector<int32_t> streamed;
    std::string pending;
    for (size_t i = 0; i <= text.size(); ++i) {
      const bool final = i == text.size();
      if (!final) pending += text[i];
      const auto part = TinyTokenizer().EncodePrefix(pending, final, 0);
      ASSERT_TRUE(part.ok()) << part.status();
      streamed.insert(streamed.end(), part->ids.begin(), part->ids.end());
      pending.erase(0, static_cast<size_t>(part->consumed));
      ASSERT_LE(pending.size(), 260u);
    }
    EXPECT_EQ(streamed, whole) << text;
    EXPECT_EQ(pending, "");
  }
}

TEST(TokenizerTest, TokenBytesCoverTheConsumedText) {
  for (const auto& entry : Cases()) {
    const std::string text = entry["text"];
    const auto encoded = TinyTokenizer().EncodePrefix(text, true, 0);
    ASSERT_EQ(encoded->ids.size(), encoded->token_bytes.size());
    size_t offset = 0;
    for (size_t i = 0; i < encoded->ids.size(); ++i) {
      const size_t length = static_cast<size_t>(encoded->token_bytes[i]);
      EXPECT_GE(length, 1u);
      EXPECT_EQ(TinyTokenizer().TokenBytes(encoded->ids[i]), text.substr(offset, length));
      offset += length;
    }
    EXPECT_EQ(offset, text.size());
    EXPECT_EQ(encoded->consumed, static_cast<int64_t>(text.size()));
  }
}

TEST(TokenizerTest, NamesOfControlSymbolsAreOrdinaryText) {
  for (const char* name : {"<lmk>", "<eos>", "<unk>", "<0x41>"}) {
    const std::vector<int32_t> ids = TinyTokenizer().Encode(name).value();
    EXPECT_GT(ids.size(), 1u);
    EXPECT_EQ(TinyTokenizer().Decode(ids), name);
  }
  EXPECT_EQ(TinyTokenizer().TokenBytes(0), "");
  EXPECT_EQ(TinyTokenizer().TokenBytes(1), "");
  EXPECT_EQ(TinyTokenizer().vocab_size(), 320);
}

TEST(TokenizerTest, InvalidUtf8NamesTheByte) {
  const auto whole = TinyTokenizer().Encode("abc\xff");
  EXPECT_EQ(whole.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(whole.status().message()), HasSubstr("at byte 3"));
  const auto later = TinyTokenizer().EncodePrefix("abc\xff", false, 1000);
  EXPECT_THAT(std::string(later.status().message()), HasSubstr("at byte 1003"));
  // A character that is still arriving is an error only once nothing follows.
  EXPECT_TRUE(TinyTokenizer().EncodePrefix("abc\xe4\xb8", false, 0).ok());
  EXPECT_THAT(std::string(TinyTokenizer().EncodePrefix("abc\xe4\xb8", true, 0).status().message()),
              HasSubstr("at byte 3"));
}

TEST(TokenizerTest, RefusesFilesThatAreNoModel) {
  const std::string path = ::testing::TempDir() + "/not_a_tokenizer.model";
  EXPECT_EQ(Tokenizer::Load(path + ".none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Tokenizer::Load(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
  WriteFile(path, "not a model");
  EXPECT_EQ(Tokenizer::Load(path).status().code(), absl::StatusCode::kInvalidArgument);
}

// A user-defined symbol without text would be found in any text without end.
TEST(TokenizerTest, RefusesPiecesWhoseTextCannotBeUsed) {
  constexpr char kNormal = 1, kControl = 3, kUserDefined = 4, kByte = 6;
  const std::string model = ReadFile(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model");
  const std::string path = ::testing::TempDir() + "/tokenizer_with_one_more_piece.model";
  // The model with piece 320 added: field 1 of the file, with its text in field 1, its type in 3.
  const auto load = [&](const std::string& text, char type) {
    std::string piece = "\x0a";
    piece.append(1, static_cast<char>(text.size())).append(text).append("\x18").append(1, type);
    WriteFile(path,
              absl::StrCat(model, "\x0a", std::string(1, static_cast<char>(piece.size())), piece));
    const absl::Status status = Tokenizer::Load(path).status();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    }
    return std::string(status.message());
  };
  EXPECT_THAT(load("", kUserDefined),
              HasSubstr("piece 320 is the user-defined symbol \"\", expected some text"));
  for (const char type : {kNormal, kControl}) EXPECT_EQ(load("", type), "");
  EXPECT_EQ(load("<0xaF>", kByte), "");
  for (const char* text : {"", "A", "<0x4", "<0x41", "<0x4>", "<0x041>", "<0x4g>", "<0x-4>",
                           "<0x 4>", "<0X41>", "[0x41>", "<0x41]", "<0x41> "}) {
    EXPECT_THAT(load(text, kByte),
                HasSubstr(absl::StrCat("piece 320 is the byte \"", text,
                                       "\", expected two hex digits as in \"<0x41>\"")));
  }
  EXPECT_THAT(load(std::string(100, '\x1b'), kByte), Not(HasSubstr("\x1b")));
}

TEST(Utf8Test, FindsTheFirstByteThatIsWrong) {
  struct Case {
    std::string text;
    int64_t strict, partial;
  };
  const std::vector<Case> cases = {
      {"", -1, -1},
      {"a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", -1, -1},
      {std::string("\0a", 2), -1, -1},
      {"\x80", 0, 0},              // continuation without a lead
      {"a\xc0\x80", 1, 1},         // overlong
      {"\xe0\x80\x80", 0, 0},      // overlong
      {"\xf0\x80\x80\x80", 0, 0},  // overlong
      {"ab\xed\xa0\x80", 2, 2},    // surrogate
      {"\xf4\x90\x80\x80", 0, 0},  // above U+10FFFF
      {"\xf5", 0, 0},
      {"a\xe4\xb8", 1, -1},  // cut off
      {"a\xe4", 1, -1},
      {"a\xf0\x9f\x98", 1, -1},
      {"\xe4\xb8"
       "a",
       0, 0},
      {"\xed\xa0", 0, 0},  // cut off, but wrong already
  };
  for (const Case& c : cases) {
    EXPECT_EQ(FindInvalidUtf8(c.text, false), c.strict) << ::testing::PrintToString(c.text);
    EXPECT_EQ(FindInvalidUtf8(c.text, true), c.partial) << ::testing::PrintToString(c.text);
  }
}

}  // namespace
}  // namespace recollect::model
