// Documents to files and back, over both implementations of DocumentStore.
#include "store/document_transfer.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/store/document_store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

constexpr int64_t kWidth = 8, kKeyWidth = 4, kVocabulary = 4096;
constexpr char kPattern[] = "(window 8, dilation 4)";

ImportRules Rules(bool pointer = false) {
  return {.fingerprint = "fingerprint",
          .width = kWidth,
          .key_width = kKeyWidth,
          .vocab_size = kVocabulary,
          .chunk_tokens = 63,
          .pointer = pointer};
}

class DocumentTransferTest : public DocumentStoreTest {
 protected:
  // Publishes a document that the rules accept.
  Content Publish(const std::string& id, int64_t chunks, int64_t tokens, int64_t bytes,
                  bool pointer = false) {
    Content content{.seed = 7};
    IngestBatch batch = NextBatch(content, chunks, tokens, bytes);
    for (ChunkRecord& chunk : batch.chunks) {
      chunk.tokens.assign(pointer ? static_cast<size_t>(chunk.rows) : 0, 17);
    }
    for (int32_t& token : batch.tokens) token = (token & 0x7fffffff) % kVocabulary;
    const auto progress = store_->BeginIngest(id, "fingerprint", false, "");
    EXPECT_THAT(progress, IsOk());
    EXPECT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
    Append(&content, batch);
    return content;
  }
  void PublishPrefix(const std::string& id, const std::string& state) {
    const auto progress = store_->BeginIngest(id, "fingerprint", true, kPattern);
    ASSERT_THAT(progress, IsOk());
    IngestBatch batch;
    batch.tokens = {1, 2, 3};
    batch.text = "abc";
    batch.state_bytes = std::ssize(state);
    for (int64_t i = 0; i * kStatePartBytes < std::ssize(state); ++i) {
      ASSERT_THAT(store_->PutStatePart(
                      progress->owner, i,
                      state.substr(static_cast<size_t>(i * kStatePartBytes), kStatePartBytes)),
                  IsOk());
    }
    ASSERT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
  }

  std::string File(const std::string& id) {
    const auto info = store_->Get(id);
    EXPECT_THAT(info, IsOk());
    DocumentExport out(*store_, *info, kKeyWidth);
    std::string file;
    while (true) {
      const auto bytes = out.Next();
      EXPECT_THAT(bytes, IsOk());
      if (!bytes.ok() || bytes->empty()) return file;
      file += *bytes;
    }
  }
  static absl::StatusOr<DocumentInfo> Import(DocumentStore& store, const std::string& file,
                                             const std::string& id = "",
                                             const ImportRules& rules = Rules(),
                                             size_t at_once = 1 << 20) {
    DocumentImport in(store, rules, id, [](const DocumentInfo&) { return absl::OkStatus(); });
    for (size_t at = 0; at < file.size(); at += at_once) {
      RETURN_IF_ERROR(in.Append(absl::string_view(file).substr(at, at_once)));
    }
    return in.Finish();
  }
  void ExpectNothing(DocumentStore& store) {
    EXPECT_TRUE(store.List("", 10)->empty());
    EXPECT_TRUE(store.ListIngests()->empty());
  }
  // Another store of the kind.
  std::unique_ptr<DocumentStore> Other() { return GetParam().open(other_.path()); }

  TempDir other_;
};

TEST_P(DocumentTransferTest, ADocumentIsTheSameElsewhere) {
  // Several pieces, segments and groups of each kind.
  const Content content = Publish("d", 1500, 40000, 200000);
  const DocumentInfo info = *store_->Get("d");
  const std::string file = File("d");
  const auto other = Other();
  for (const size_t at_once : {size_t{1} << 20, size_t{4099}}) {
    const std::string id = absl::StrCat("e", at_once);
    const auto imported = Import(*other, file, id, Rules(), at_once);
    ASSERT_THAT(imported, IsOk());
    EXPECT_EQ(imported->id, id);
    EXPECT_EQ(imported->fingerprint, info.fingerprint);
    EXPECT_EQ(imported->sha256, info.sha256);
    EXPECT_EQ(imported->stored_bytes, info.stored_bytes);
    EXPECT_EQ(imported->from_tokens, info.from_tokens);
    ExpectContent(*other, imported->owner, content);
  }
  EXPECT_THAT(Import(*other, file), IsOk());
  EXPECT_EQ(other->List("", 10)->size(), 3u);
  EXPECT_EQ(other->Get("d")->chunks, 1500);
  EXPECT_TRUE(other->ListIngests()->empty());
}

TEST_P(DocumentTransferTest, MetadataGoesWithTheDocument) {
  Publish("d", 3, 40, 2000);
  EXPECT_EQ(File("d")[8], 1);  // the version that earlier releases read
  ASSERT_THAT(store_->ChangeMetadata("d", [](const std::string&) { return R"({"year":1851})"; }),
              IsOk());
  const std::string file = File("d");
  EXPECT_EQ(file[8], 2);
  const auto other = Other();
  const auto imported = Import(*other, file);
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->metadata, R"({"year":1851})");
  EXPECT_EQ(other->Get("d")->metadata, R"({"year":1851})");
  // What no writer would have written.
  for (const char* metadata : {R"({"year": 1851})", R"({"a":[1]})", "{}", "x"}) {
    ASSERT_THAT(store_->ChangeMetadata("d", [&](const std::string&) { return metadata; }), IsOk());
    EXPECT_THAT(Import(*other, File("d"), "e"),
                StatusIs(absl::StatusCode::kDataLoss, "does not parse"));
  }
}

TEST_P(DocumentTransferTest, WhatWasImportedIsThereAfterwards) {
  const Content content = Publish("d", 100, 3000, 20000, /*pointer=*/true);
  const std::string file = File("d");
  ASSERT_THAT(Import(*store_, file, "e", Rules(/*pointer=*/true)), IsOk());
  if (GetParam().reopens) Open();
  ASSERT_THAT(store_->Get("e"), IsOk());
  ExpectContent(*store_, store_->Get("e")->owner, content);
  // And goes as any other does.
  const auto removed = store_->Remove("e");
  ASSERT_THAT(removed, IsOk());
  EXPECT_THAT(store_->Free(removed->owner), IsOk());
  ASSERT_THAT(Import(*store_, file, "e", Rules(/*pointer=*/true)), IsOk());
}

TEST_P(DocumentTransferTest, APrefixIsTheSameElsewhere) {
  std::string state(3 * kStatePartBytes + 12345, 'x');
  for (size_t i = 0; i < state.size(); i += 1000) state[i] = static_cast<char>(i / 1000);
  PublishPrefix("p", state);
  ImportRules rules = Rules();
  rules.kind = DocumentKind::kPrefix;
  const auto other = Other();
  const auto imported = Import(*other, File("p"), "", rules, 1 << 18);
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->pattern, kPattern);
  EXPECT_EQ(imported->state_bytes, std::ssize(state));
  EXPECT_TRUE(imported->from_tokens);
  std::string read;
  for (int64_t i = 0; i < 4; ++i) read += other->ReadStatePart(imported->owner, i).value();
  EXPECT_TRUE(read == state);
  // A model with landmarks mounts none.
  EXPECT_THAT(Import(*other, File("p"), "q"),
              StatusIs(StatusCode::kDataLoss, "a prefix with landmark keys"));
}

TEST_P(DocumentTransferTest, ATextIsTheSameElsewhere) {
  Content content{.seed = 8, .width = 0, .d_k = 0};
  IngestBatch batch = NextBatch(content, 1500, 40000, 200000);
  for (int32_t& token : batch.tokens) token = (token & 0x7fffffff) % kVocabulary;
  const auto progress = store_->BeginIngest("t", "fingerprint", false, "");
  ASSERT_THAT(progress, IsOk());
  ASSERT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
  Append(&content, batch);
  ImportRules rules = Rules();
  rules.kind = DocumentKind::kText;
  rules.width = 0;
  const std::string file = File("t");
  const auto other = Other();
  const auto imported = Import(*other, file, "", rules, 4099);
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->kind(), DocumentKind::kText);
  EXPECT_EQ(imported->stored_bytes, store_->Get("t")->stored_bytes);
  ExpectContent(*other, imported->owner, content);
  EXPECT_THAT(Import(*other, file, "x"),
              StatusIs(StatusCode::kDataLoss, "text with landmark keys"));
  rules.chunk_tokens = 1;
  EXPECT_THAT(Import(*other, file, "x", rules), StatusIs(StatusCode::kDataLoss, "does not fit"));
}

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

TEST_P(DocumentTransferTest, AnIdThatIsThereIsRefused) {
  Publish("d", 3, 50, 500);
  const std::string file = File("d");
  EXPECT_THAT(Import(*store_, file), StatusIs(StatusCode::kAlreadyExists, "document 'd' exists"));
  ASSERT_THAT(store_->BeginIngest("u", "fingerprint", false, ""), IsOk());
  EXPECT_THAT(Import(*store_, file, "u"), StatusIs(StatusCode::kAlreadyExists, "not finished"));
  // One that comes while the file is being read.
  DocumentImport in(*store_, Rules(), "e", [](const DocumentInfo&) { return absl::OkStatus(); });
  ASSERT_THAT(in.Append(file), IsOk());
  const Content other = Publish("e", 1, 10, 100);
  EXPECT_THAT(in.Finish(), StatusIs(StatusCode::kAlreadyExists, "document 'e' exists"));
  ExpectContent(*store_, store_->Get("e")->owner, other);
}

TEST_P(DocumentTransferTest, WhatWasNotFinishedIsFreed) {
  Publish("d", 100, 3000, 20000);
  const std::string file = File("d");
  const int64_t before = store_->state().bytes;
  {
    DocumentImport in(*store_, Rules(), "e", [](const DocumentInfo&) { return absl::OkStatus(); });
    ASSERT_THAT(in.Append(file.substr(0, file.size() - 20)), IsOk());
    EXPECT_EQ(store_->List("", 10)->size(), 1u);
    EXPECT_TRUE(store_->ListIngests()->empty());
  }
  // RocksDB gives space back in its own time.
  if (!GetParam().reopens) {
    EXPECT_EQ(store_->state().bytes, before);
  }
  EXPECT_THAT(Import(*store_, file, "e"), IsOk());
}

// The process ends in the middle.
TEST_P(DocumentTransferTest, WhatACrashLeavesIsFreedAtTheNextOpen) {
  if (!GetParam().reopens) GTEST_SKIP() << "a store in memory is gone with its process";
  DocumentInfo info;
  info.id = "e";
  info.fingerprint = "fingerprint";
  const auto owner = store_->BeginImport(info);
  ASSERT_THAT(owner, IsOk());
  Content content{.seed = 3};
  const IngestBatch batch = NextBatch(content, 10, 100, 1000);
  ASSERT_THAT(store_->CommitIngest(*owner, batch), IsOk());
  ASSERT_THAT(store_->ReadText(*owner, 0, 1000), IsOk());
  Open();
  ExpectNothing(*store_);
  EXPECT_THAT(store_->ReadText(*owner, 0, 1000), StatusIs(StatusCode::kNotFound, "no owner"));
  // Neither the id nor the number is taken.
  const auto again = store_->BeginImport(info);
  ASSERT_THAT(again, IsOk());
  EXPECT_NE(*again, *owner);
  ASSERT_THAT(store_->PublishIngest(*again, NextBatch(content, 10, 100, 1000)), IsOk());
  EXPECT_THAT(store_->AbandonImport(*again), StatusIs(StatusCode::kNotFound, ""));
  Open();
  EXPECT_EQ(store_->Get("e")->chunks, 10);
}

TEST_P(DocumentTransferTest, AnErrorOfWhoTakesTheNameEndsIt) {
  Publish("d", 3, 50, 500);
  DocumentInfo asked;
  DocumentImport in(*store_, Rules(), "e", [&](const DocumentInfo& document) {
    asked = document;
    return absl::AbortedError("another one writes it");
  });
  EXPECT_THAT(in.Append(File("d")), StatusIs(StatusCode::kAborted, "another one"));
  EXPECT_EQ(asked.id, "e");
  EXPECT_EQ(asked.bytes, 500);
  EXPECT_EQ(store_->List("", 10)->size(), 1u);
}

TEST_P(DocumentTransferTest, KeysAreReadByRange) {
  const Content content = Publish("d", 2500, 10, 300000);
  const OwnerId owner = store_->Get("d")->owner;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 0},
                                   {0, 1},
                                   {1000, 1100},
                                   {1023, 1025},
                                   {1024, 2048},
                                   {2499, 2500},
                                   {0, 2500}}) {
    const auto keys = store_->ReadLandmarkKeyRange(owner, begin, end, kKeyWidth);
    ASSERT_THAT(keys, IsOk());
    EXPECT_EQ(*keys, std::vector<Bf16>(content.landmark_keys.begin() + begin * kKeyWidth,
                                       content.landmark_keys.begin() + end * kKeyWidth));
  }
  EXPECT_THAT(store_->ReadLandmarkKeyRange(owner, 0, 2501, kKeyWidth),
              StatusIs(StatusCode::kOutOfRange, "2500"));
  EXPECT_THAT(store_->ReadLandmarkKeyRange(owner, 3, 2, kKeyWidth),
              StatusIs(StatusCode::kOutOfRange, "2500"));
}

INSTANTIATE_TEST_SUITE_P(Stores, DocumentTransferTest, testing::ValuesIn(kImplementations), NameOf);

}  // namespace
}  // namespace recollect::store
