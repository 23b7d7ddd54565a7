// Files of documents that are damaged, or of something else: each is refused, and leaves nothing.
#include <cstring>
#include <string>
#include <string_view>

#include "store/document_transfer.h"
#include "tests/store/document_transfer_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

TEST_P(DocumentTransferTest, ACutFileLeavesNothing) {
  Publish("d", 3, 50, 500);
  const std::string file = File("d");
  const auto other = Other();
  for (size_t size = 0; size < file.size(); size += size < 40 ? 1 : 37) {
    const absl::Status status = Import(*other, file.substr(0, size)).status();
    EXPECT_EQ(status.code(), size == 0 ? StatusCode::kInvalidArgument : StatusCode::kDataLoss)
        << size << " " << status;
  }
  EXPECT_THAT(Import(*other, file.substr(0, file.size() - 1)),
              StatusIs(StatusCode::kDataLoss, absl::StrCat("ends after ", file.size() - 1)));
  ExpectNothing(*other);
  EXPECT_THAT(Import(*other, file), IsOk());
}

TEST_P(DocumentTransferTest, EveryFlippedByteIsFound) {
  Publish("d", 3, 50, 500);
  const std::string file = File("d");
  const auto other = Other();
  for (size_t i = 0; i < file.size(); i += i < 300 ? 1 : 11) {
    std::string flipped = file;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    EXPECT_FALSE(Import(*other, flipped).ok()) << i;
  }
  ExpectNothing(*other);
  EXPECT_THAT(Import(*other, file + "x"), StatusIs(StatusCode::kDataLoss, "behind its end"));
  EXPECT_THAT(Import(*other, file + file), StatusIs(StatusCode::kDataLoss, "behind its end"));
  ExpectNothing(*other);
}

TEST_P(DocumentTransferTest, MovedAndMissingRecordsAreFound) {
  // Two pieces of text of the same size, so that one in the other's place has a good checksum
  // but for its key.
  Publish("d", 3, 50, 2 * kTextPieceBytes);
  const std::string file = File("d");
  const auto size_at = [&](size_t at) {
    uint32_t size;
    std::memcpy(&size, file.data() + at, sizeof(size));
    return sizeof(size) + size;
  };
  const size_t first = 16 + size_at(16), second = first + size_at(first);
  const size_t end = second + size_at(second);
  ASSERT_EQ(second - first, end - second);
  const std::string one = file.substr(first, second - first),
                    two = file.substr(second, end - second);
  const std::string before = file.substr(0, first), after = file.substr(end);
  const auto other = Other();
  EXPECT_THAT(Import(*other, before + two + one + after),
              StatusIs(StatusCode::kDataLoss, "record 1"));
  EXPECT_THAT(Import(*other, before + one + one + after),
              StatusIs(StatusCode::kDataLoss, "record 2"));
  EXPECT_THAT(Import(*other, before + two + after), StatusIs(StatusCode::kDataLoss, "record 1"));
  ExpectNothing(*other);
  ASSERT_THAT(Import(*other, before + one + two + after), IsOk());
}

TEST_P(DocumentTransferTest, OtherFilesAreRefused) {
  Publish("d", 3, 50, 500);
  const std::string file = File("d");
  EXPECT_THAT(Import(*store_, "Call me Ishmael. Some years ago", "x"),
              StatusIs(StatusCode::kInvalidArgument, "it begins with \"Call me \""));
  EXPECT_THAT(Import(*store_, "RECOL", "x"), StatusIs(StatusCode::kDataLoss, "ends after 5 bytes"));
  std::string newer = file;
  newer[8] = 9;
  EXPECT_THAT(Import(*store_, newer, "x"),
              StatusIs(StatusCode::kFailedPrecondition,
                       "of version 9, this program reads versions 1 to 2"));
  ImportRules rules = Rules();
  rules.fingerprint = "another";
  const absl::Status status = Import(*store_, file, "x", rules).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("fingerprint fingerprint; this model has another"));
}

TEST_P(DocumentTransferTest, WhatDoesNotFitTheModelIsRefused) {
  Publish("d", 3, 50, 500);
  const std::string file = File("d");
  const auto with = [](auto change) {
    ImportRules rules = Rules();
    change(rules);
    return rules;
  };
  const ImportRules all[] = {with([](ImportRules& r) { r.width = 16; }),
                             with([](ImportRules& r) { r.key_width = 2; }),
                             with([](ImportRules& r) { r.vocab_size = 10; }),
                             with([](ImportRules& r) { r.chunk_tokens = 1; }),
                             with([](ImportRules& r) { r.pointer = true; }),
                             with([](ImportRules& r) { r.kind = DocumentKind::kPrefix; })};
  for (const ImportRules& rules : all) {
    EXPECT_EQ(Import(*store_, file, "x", rules).status().code(), StatusCode::kDataLoss);
  }
  EXPECT_THAT(store_->Get("x"), StatusIs(StatusCode::kNotFound, "x"));
}

// The offset of the first byte above 0x7f that is not the first of two, the second of which is
// below 0xc0: enough of UTF-8 for a test.
int64_t FindInvalidPair(std::string_view text, bool allow_partial_end) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (byte(i) < 0x80) continue;
    if (i + 1 == text.size()) return allow_partial_end && byte(i) >= 0xc0 ? -1 : int64_t(i);
    if (byte(i) < 0xc0 || byte(i + 1) < 0x80 || byte(i + 1) >= 0xc0) return int64_t(i);
    ++i;
  }
  return -1;
}

TEST_P(DocumentTransferTest, TextThatIsNotUtf8IsRefused) {
  ImportRules rules = Rules();
  rules.find_invalid_utf8 = FindInvalidPair;
  const auto file = [&](const std::string& id, const std::string& text, bool from_tokens = false) {
    const auto progress = store_->BeginIngest(id, "fingerprint", from_tokens, "");
    EXPECT_THAT(progress, IsOk());
    IngestBatch batch;
    batch.text = text;
    batch.tokens = {1};
    batch.chunks.push_back(MakeChunk(/*seed=*/1, /*index=*/0, kWidth, /*rows=*/1));
    batch.chunks[0].text_end = 1;
    batch.landmark_keys.resize(kKeyWidth);
    EXPECT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
    return File(id);
  };
  const auto other = Other();
  const auto invalid = [](int64_t at) {
    return StatusIs(StatusCode::kInvalidArgument, absl::StrCat("not valid UTF-8 at byte ", at));
  };
  // A character of two bytes over the end of a piece, and a piece that begins with one's second.
  std::string over(2 * kTextPieceBytes, 'x');
  over[kTextPieceBytes - 1] = '\xc3';
  over[kTextPieceBytes] = '\xbc';
  EXPECT_THAT(Import(*other, file("over", over), "", rules), IsOk());
  EXPECT_EQ(other->ReadText(other->Get("over")->owner, 0, std::ssize(over)).value(), over);
  std::string torn = over;
  torn[kTextPieceBytes] = 'x';
  EXPECT_THAT(Import(*other, file("torn", torn), "", rules), invalid(kTextPieceBytes - 1));
  std::string headless = over;
  headless[kTextPieceBytes - 1] = 'x';
  EXPECT_THAT(Import(*other, file("headless", headless), "", rules), invalid(kTextPieceBytes));
  EXPECT_THAT(Import(*other, file("end", "abc\xc3"), "", rules), invalid(3));
  EXPECT_EQ(other->List("", 10)->size(), 1u);
  EXPECT_TRUE(other->ListIngests()->empty());
  // Tokens may stand for any bytes.
  EXPECT_THAT(Import(*other, file("tokens", "abc\xc3", true), "", rules), IsOk());
}

}  // namespace
}  // namespace recollect::store
