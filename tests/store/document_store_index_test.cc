// Indexes over landmark keys, and documents that are kept as text, in every implementation of
// DocumentStore.
#include <random>

#include "absl/strings/str_cat.h"
#include "store/document_store.h"
#include "tests/store/document_store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

// A string that is a function of its arguments alone.
std::string IndexBytes(uint64_t seed, int64_t size) {
  std::mt19937_64 random(seed);
  std::string bytes(static_cast<size_t>(size), 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST_P(DocumentStoreTest, AnIndexIsReplacedAndKeptAndGoesWithItsDocument) {
  Content content{.seed = 11}, other{.seed = 12};
  const auto info = Ingest(*store_, "d", &content, 2, 20, 10, 100);
  const auto neighbour = Ingest(*store_, "e", &other, 2, 20, 10, 100);
  ASSERT_THAT(info, IsOk());
  ASSERT_THAT(neighbour, IsOk());
  EXPECT_THAT(store_->ReadIndex(info->owner), StatusIs(StatusCode::kNotFound, "no index"));
  const std::string most = IndexBytes(1, (int64_t{3} << 20) + 17), few = IndexBytes(2, 5);
  for (const std::string& bytes : {few, most, few, IndexBytes(3, int64_t{1} << 20), most}) {
    ASSERT_THAT(store_->PutIndex(info->owner, bytes), IsOk());
    const auto read = store_->ReadIndex(info->owner);
    ASSERT_THAT(read, IsOk());
    EXPECT_TRUE(*read == bytes) << bytes.size();
  }
  ASSERT_THAT(store_->PutIndex(neighbour->owner, few), IsOk());
  ExpectContent(*store_, info->owner, content);
  if (GetParam().reopens) Open();
  EXPECT_TRUE(*store_->ReadIndex(info->owner) == most);

  // A reader may still hold the removed document.
  ASSERT_THAT(store_->Remove("d"), IsOk());
  EXPECT_TRUE(*store_->ReadIndex(info->owner) == most);
  EXPECT_THAT(store_->PutIndex(info->owner, few), StatusIs(StatusCode::kNotFound, "owner"));
  ASSERT_THAT(store_->Free(info->owner), IsOk());
  EXPECT_THAT(store_->ReadIndex(info->owner), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(store_->PutIndex(info->owner, few), StatusIs(StatusCode::kNotFound, "owner"));
  EXPECT_EQ(*store_->ReadIndex(neighbour->owner), few);
  ExpectContent(*store_, neighbour->owner, other);
}

TEST_P(DocumentStoreTest, OnlyPublishedDocumentsHaveAnIndex) {
  const auto begun = store_->BeginIngest("d", "f", false, "");
  ASSERT_THAT(begun, IsOk());
  EXPECT_THAT(store_->PutIndex(begun->owner, "x"), StatusIs(StatusCode::kNotFound, "owner"));
  const auto session = store_->NewSessionOwner();
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(store_->PutIndex(*session, "x"), StatusIs(StatusCode::kNotFound, "owner"));
  EXPECT_THAT(store_->PutIndex(OwnerId{1 << 30}, "x"), StatusIs(StatusCode::kNotFound, "owner"));
  EXPECT_THAT(store_->ReadIndex(OwnerId{1 << 30}), StatusIs(StatusCode::kNotFound, "owner"));
  Content content{.seed = 12};
  const auto info = Ingest(*store_, "e", &content, 1, 2, 10, 100);
  EXPECT_THAT(store_->PutIndex(info->owner, ""), StatusIs(StatusCode::kInvalidArgument, "0 bytes"));
}

TEST_P(DocumentStoreTest, TextIsKeptWithoutStatesOrKeys) {
  // More chunks than a segment has keys.
  Content content{.seed = 21, .width = 0, .d_k = 0};
  const auto info = Ingest(*store_, "text", &content, 3, 500, 20000, 70000);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->kind(), DocumentKind::kText);
  EXPECT_EQ(info->chunks, 1500);
  // Of each chunk 28 bytes, of each piece of text and tokens its header.
  EXPECT_EQ(info->stored_bytes, 210000 + 60000 * 4 + 1500 * 28 + (4 + 4) * 8);
  ExpectContent(*store_, info->owner, content);
  EXPECT_THAT(store_->ReadLandmarkKeys(info->owner, 1500, 4), StatusIs(StatusCode::kDataLoss, ""));
  Content states{.seed = 22};
  EXPECT_EQ(Ingest(*store_, "states", &states, 2, 3, 40, 300)->kind(), DocumentKind::kChunks);
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->Get("text")->kind(), DocumentKind::kText);
  EXPECT_EQ(store_->List("", 2)->at(0).kind(), DocumentKind::kChunks);
  EXPECT_EQ(store_->List("", 2)->at(1).kind(), DocumentKind::kText);
  ExpectContent(*store_, info->owner, content);
}

TEST_P(DocumentStoreTest, ChunksWithStatesAndWithoutDoNotMix) {
  for (const bool states_first : {true, false}) {
    const auto progress = store_->BeginIngest(absl::StrCat("mixed", states_first), "f", false, "");
    ASSERT_THAT(progress, IsOk());
    Content content{.seed = 23};
    if (!states_first) content.width = content.d_k = 0;
    const IngestBatch first = NextBatch(content, 2, 20, 30);
    ASSERT_THAT(store_->CommitIngest(progress->owner, first), IsOk());
    Append(&content, first);
    content.width = content.d_k = states_first ? 0 : 8;
    EXPECT_THAT(store_->CommitIngest(progress->owner, NextBatch(content, 2, 20, 30)),
                StatusIs(StatusCode::kInvalidArgument, "chunk 2"));
    // Nor do keys without states.
    content.width = 0;
    content.d_k = 8;
    EXPECT_THAT(store_->CommitIngest(progress->owner, NextBatch(content, 2, 20, 30)),
                StatusIs(StatusCode::kInvalidArgument, ""));
  }
}

}  // namespace
}  // namespace recollect::store
