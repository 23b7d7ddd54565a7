// Documents to files and back, over both implementations of DocumentStore.
#include "store/document_transfer.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/store/document_transfer_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

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
