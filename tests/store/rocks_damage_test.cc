// A flipped byte anywhere in the data directory is DATA_LOSS or does no harm; it never becomes
// other data.
#include "base/io/log.h"
#include "store/format.h"
#include "store/rocks/db/database.h"
#include "store/rocks/documents/store_impl.h"
#include "store/rocks/rocks_store.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;
using ::absl::StatusCode;

absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const std::string& directory) {
  return OpenRocksStore({.directory = directory, .sync_commits = false});
}

class RocksDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    const auto info = Ingest(**store, "book", &content_, 3, 40, 5000, 50000);
    ASSERT_THAT(info, IsOk());
    owner_ = info->owner;
  }

  // Overwrites one record, as a bug or a fault above the database's own checksums would.
  void Damage(Family family, const std::string& key) {
    auto database = Database::Open({.directory = dir_.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    auto record = (*database)->Get(family, key, "record");
    ASSERT_THAT(record, IsOk());
    record->back() = static_cast<char>(record->back() ^ 1);
    Batch batch;
    batch.Put(family, key, *record);
    ASSERT_THAT((*database)->Write(batch, "damage"), IsOk());
  }

  // In both of its places.
  void DamageDocument(const std::string& id) {
    Damage(Family::kCatalog, DocumentKey(id));
    Damage(Family::kIngests, DocumentKey(id));
  }

  TempDir dir_;
  Content content_{.seed = 1, .width = 64};
  OwnerId owner_{};
};

// As after a crash whose log lost the record of the last owner numbers that were reserved.
TEST_F(RocksDamageTest, NumbersInUseAreNotGivenOutAgain) {
  {
    auto database = Database::Open({.directory = dir_.path()}, rocksdb::Env::Default());
    ASSERT_THAT(database, IsOk());
    Batch batch;
    for (const Family f : {Family::kMeta, Family::kCatalog, Family::kIngests}) {
      batch.Put(f, MetaKey(),
                EncodeMeta(MetaKey(), {kDatabaseVersion, static_cast<uint64_t>(owner_)}));
    }
    ASSERT_THAT((*database)->Write(batch, "older"), IsOk());
  }
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  Content other{.seed = 2, .width = 64};
  ASSERT_THAT(Ingest(**store, "other", &other, 1, 2, 10, 100), IsOk());
  EXPECT_GT((*store)->Get("other")->owner, owner_);
  ExpectContent(**store, owner_, content_);
}

TEST_F(RocksDamageTest, CatalogSurvivesTheDamageOfOneOfItsRecords) {
  Damage(Family::kCatalog, DocumentKey("book"));
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Get("book"), IsOk());
  EXPECT_EQ((*store)->List("", 10)->at(0).damage, "");
}

TEST_F(RocksDamageTest, DamagedBlockOfTheCatalogCostsNoDocument) {
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    Content other{.seed = 2, .width = 64};
    ASSERT_THAT(Ingest(**store, "other", &other, 1, 2, 10, 100), IsOk());
  }
  const auto files = TablesOf(dir_.path(), "catalog");
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) FlipByte(file, 20);
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    const auto list = (*store)->List("", 10);
    ASSERT_THAT(list, IsOk());
    ASSERT_EQ(list->size(), 2u);
    ExpectContent(**store, (*list)[0].owner, content_);
    EXPECT_EQ((*store)->List("book", 10)->at(0).id, "other");
    EXPECT_THAT((*store)->Get("none"), StatusIs(StatusCode::kNotFound, "none"));
    ASSERT_THAT((*store)->Remove("other"), IsOk());
  }
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ((*store)->List("", 10)->size(), 1u);
}

TEST_F(RocksDamageTest, DamagedChunkRecordCostsThatChunkOnly) {
  Damage(Family::kChunks, PieceKey(owner_, 17));
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  const auto chunks = (*store)->ReadChunks(AllChunks(owner_, 120));
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (i == 17) {
      EXPECT_THAT(chunks[i], StatusIs(StatusCode::kDataLoss, "chunk 17 of owner"));
      EXPECT_THAT(chunks[i], StatusIs(StatusCode::kDataLoss, "checksum"));
    } else {
      EXPECT_TRUE(chunks[i].ok() && *chunks[i] == content_.chunks[i]) << i;
    }
  }
}

TEST_F(RocksDamageTest, ADamagedIndexIsDataLossAndIsReplaced) {
  const std::string bytes(static_cast<size_t>(2 * kIndexPieceBytes + 3), 'x');
  for (const int64_t piece : {0, 1, 2}) {
    {
      auto store = Open(dir_.path());
      ASSERT_THAT(store, IsOk());
      ASSERT_THAT((*store)->PutIndex(owner_, bytes), IsOk());
    }
    Damage(Family::kLandmarks, PieceKey(owner_, kFirstIndexPiece + piece));
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->ReadIndex(owner_),
                StatusIs(StatusCode::kDataLoss, absl::StrCat("'book': index piece ", piece)));
    EXPECT_THAT((*store)->ReadLandmarkKeys(owner_, 120, content_.d_k), IsOk());
    ASSERT_THAT((*store)->PutIndex(owner_, bytes), IsOk());
    EXPECT_TRUE(*(*store)->ReadIndex(owner_) == bytes);
  }
}

// As a crash in the middle of writing leaves it: the first piece is the last to be written.
TEST_F(RocksDamageTest, AnIndexWithoutItsFirstPieceIsNone) {
  const auto drop = [&](int64_t piece) {
    auto database = Database::Open({.directory = dir_.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    Batch batch;
    batch.Delete(Family::kLandmarks, PieceKey(owner_, kFirstIndexPiece + piece));
    ASSERT_THAT((*database)->Write(batch, "crash"), IsOk());
  };
  {
    auto store = Open(dir_.path());
    ASSERT_THAT((*store)->PutIndex(owner_, std::string(3 << 20, 'x')), IsOk());
  }
  drop(1);
  EXPECT_THAT((*Open(dir_.path()))->ReadIndex(owner_),
              StatusIs(StatusCode::kDataLoss, "index piece 1 of owner"));
  drop(0);
  EXPECT_THAT((*Open(dir_.path()))->ReadIndex(owner_), StatusIs(StatusCode::kNotFound, "no index"));
}

TEST_F(RocksDamageTest, DamagedRecordsOfEveryKind) {
  Damage(Family::kText, PieceKey(owner_, 1));
  Damage(Family::kTokens, PieceKey(owner_, 0));
  Damage(Family::kLandmarks, PieceKey(owner_, 0));
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->ReadText(owner_, 0, 65536), IsOk());
    EXPECT_THAT((*store)->ReadText(owner_, 65536, 65537),
                StatusIs(StatusCode::kDataLoss, "text piece 1"));
    EXPECT_THAT((*store)->ReadTokens(owner_, 0, 1), StatusIs(StatusCode::kDataLoss, "token piece"));
    EXPECT_THAT((*store)->ReadLandmarkKeys(owner_, 1, 4),
                StatusIs(StatusCode::kDataLoss, "landmark segment 0"));
    std::vector<Bf16> keys(4);
    EXPECT_THAT((*store)->FillLandmarkKeys(owner_, 1, 4, keys.data()),
                StatusIs(StatusCode::kDataLoss, "landmark segment 0"));
    const auto begun = (*store)->BeginIngest("half", "f", false, "");
    ASSERT_THAT(begun, IsOk());
    Content other{.seed = 2};
    ASSERT_THAT((*store)->CommitIngest(begun->owner, NextBatch(other, 1, 1, 1)), IsOk());
    Content third{.seed = 3};
    ASSERT_THAT(Ingest(**store, "other", &third, 1, 2, 10, 100), IsOk());
  }
  DamageDocument("book");
  Damage(Family::kIngests, IngestKey("half"));
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Get("book"), StatusIs(StatusCode::kDataLoss, "document 'book'"));
  const auto list = (*store)->List("", 10);
  ASSERT_THAT(list, IsOk());
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].id, "book");
  EXPECT_THAT((*list)[0].damage, testing::HasSubstr("document 'book'"));
  EXPECT_EQ((*list)[1].id, "other");
  EXPECT_EQ((*list)[1].damage, "");
  EXPECT_EQ((*store)->List("", 1)->size(), 1u);
  EXPECT_THAT((*store)->BeginIngest("book", "f", false, ""),
              StatusIs(StatusCode::kDataLoss, "book"));
  EXPECT_THAT((*store)->BeginIngest("half", "f", false, ""),
              StatusIs(StatusCode::kDataLoss, "half"));
  store->reset();
  for (const Family f : {Family::kMeta, Family::kCatalog, Family::kIngests}) {
    ASSERT_THAT(Open(dir_.path()), IsOk());
    Damage(f, MetaKey());
  }
  EXPECT_THAT(Open(dir_.path()), StatusIs(StatusCode::kDataLoss, "meta record"));
}

TEST_F(RocksDamageTest, WhatHasADamagedRecordCanBeDeletedAndItsSpaceReturns) {
  OwnerId half{};
  Content other{.seed = 2, .width = 64};
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    const auto begun = (*store)->BeginIngest("half", "f", false, "");
    ASSERT_THAT(begun, IsOk());
    half = begun->owner;
    Content part{.seed = 3, .width = 64};
    ASSERT_THAT((*store)->CommitIngest(half, NextBatch(part, 1, 1, 1)), IsOk());
    ASSERT_THAT(Ingest(**store, "other", &other, 1, 2, 10, 100), IsOk());
  }
  const auto left = [&](OwnerId owner) {
    auto database = Database::Open({.directory = dir_.path()}, nullptr);
    EXPECT_THAT(database, IsOk());
    int64_t keys = 0;
    const auto count = [&](absl::string_view, absl::string_view) { return ++keys > 0; };
    for (const Family f : {Family::kText, Family::kTokens, Family::kChunks, Family::kLandmarks}) {
      EXPECT_THAT((*database)->Scan(f, OwnerKey(owner), OwnerKey(owner), count), IsOk());
    }
    return keys;
  };
  DamageDocument("book");
  Damage(Family::kIngests, IngestKey("half"));
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    const auto removed = (*store)->Remove("book");
    ASSERT_THAT(removed, IsOk());
    EXPECT_EQ(removed->id, "book");
    EXPECT_THAT(removed->damage, testing::HasSubstr("document 'book'"));
    EXPECT_THAT((*store)->Get("book"), StatusIs(StatusCode::kNotFound, "book"));
  }
  ASSERT_THAT(Open(dir_.path()), IsOk());
  EXPECT_GT(left(owner_), 0) << "freed while the ingest's record was still unreadable";
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->AbandonIngest("half"), IsOk());
    EXPECT_THAT((*store)->AbandonIngest("half"), StatusIs(StatusCode::kNotFound, "half"));
    EXPECT_THAT((*store)->BeginIngest("half", "f", false, ""), IsOk());
    Content again{.seed = 4, .width = 64};
    EXPECT_THAT(Ingest(**store, "book", &again, 1, 2, 10, 100), IsOk());
  }
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->Get("book"), IsOk());
    EXPECT_THAT((*store)->Get("other"), IsOk());
  }
  EXPECT_EQ(left(owner_), 0);
  EXPECT_EQ(left(half), 0);
}

TEST_F(RocksDamageTest, DamagedBlockThatACompactionMeetsStopsNoWrites) {
  Content other{.seed = 2, .width = 64};
  {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT(Ingest(**store, "other", &other, 3, 40, 5000, 50000), IsOk());
  }
  for (const char* family : {"chunks", "text", "tokens", "landmarks"}) {
    FlipByte(TablesOf(dir_.path(), family).at(0), 20);
  }
  SetLogLevel(LogLevel::kOff);
  for (int life = 0; life < 2; ++life) {
    auto store = Open(dir_.path());
    ASSERT_THAT(store, IsOk());
    if (life == 0) {
      const auto removed = (*store)->Remove("book");
      ASSERT_THAT(removed, IsOk());
      ASSERT_THAT((*store)->Free(removed->owner), IsOk());
    }
    // Each leaves a table: in the end more than the library's own limits let writes go on with.
    for (int i = 0; i < (life == 0 ? 40 : 4); ++i) {
      Content content{.seed = 3, .width = 64};
      const std::string id = absl::StrCat("more", life, " ", i);
      const auto info = Ingest(**store, id, &content, 1, 2, 10, 100);
      ASSERT_THAT(info, IsOk()) << id;
      ExpectContent(**store, info->owner, content);
      ASSERT_THAT(static_cast<RocksStore&>(**store).FlushForTest(), IsOk());
    }
    const auto info = (*store)->Get("other");
    ASSERT_THAT(info, IsOk());
    EXPECT_THAT((*store)->ReadText(info->owner, 0, 1), IsOk());
    EXPECT_THAT((*store)->Get("book"), StatusIs(StatusCode::kNotFound, "book"));
  }
  SetLogLevel(LogLevel::kInfo);
}

TEST_F(RocksDamageTest, MissingRecordIsDataLoss) {
  {
    auto database = Database::Open({.directory = dir_.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    Batch batch;
    batch.Delete(Family::kChunks, PieceKey(owner_, 5));
    batch.Delete(Family::kText, PieceKey(owner_, 0));
    ASSERT_THAT((*database)->Write(batch, "damage"), IsOk());
  }
  auto store = Open(dir_.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->ReadChunks(AllChunks(owner_, 6))[5],
              StatusIs(StatusCode::kDataLoss, "chunk 5"));
  EXPECT_THAT((*store)->ReadText(owner_, 0, 1), StatusIs(StatusCode::kDataLoss, "text piece 0"));
}

TEST_F(RocksDamageTest, MissingFileIsDataLoss) {
  for (const auto& file : fs::directory_iterator(dir_.path())) {
    if (file.path().extension() != ".sst") continue;
    TempDir copy;
    fs::copy(dir_.path(), copy.path(), fs::copy_options::recursive);
    fs::remove(copy.path() + "/" + file.path().filename().string());
    EXPECT_THAT(Open(copy.path()), StatusIs(StatusCode::kDataLoss, "")) << file.path();
  }
}

// What the store still says must be true; what it does not say must be DATA_LOSS.
void ExpectTrueOrLost(const std::string& directory, const Content& content, int* lost) {
  auto store = Open(directory);
  if (!store.ok()) {
    EXPECT_THAT(store, StatusIs(StatusCode::kDataLoss, directory));
    ++*lost;
    return;
  }
  const auto info = (*store)->Get("book");
  if (!info.ok()) {
    EXPECT_THAT(info, StatusIs(StatusCode::kDataLoss, "book"));
    ++*lost;
    return;
  }
  const auto check = [&](const auto& got, const auto& expected) {
    if (got.ok()) {
      EXPECT_TRUE(*got == expected);
    } else {
      EXPECT_THAT(got, StatusIs(StatusCode::kDataLoss, ""));
      ++*lost;
    }
  };
  const OwnerId owner = info->owner;
  check((*store)->ReadText(owner, 0, info->bytes), content.text);
  check((*store)->ReadTokens(owner, 0, info->tokens), content.tokens);
  check((*store)->ReadLandmarkKeys(owner, info->chunks, content.d_k), content.landmark_keys);
  const auto chunks = (*store)->ReadChunks(AllChunks(owner, info->chunks));
  for (size_t i = 0; i < chunks.size(); ++i) check(chunks[i], content.chunks[i]);
}

TEST_F(RocksDamageTest, FlippedBytesInAnyFile) {
  std::mt19937_64 random(7);
  int flips = 0, table_flips = 0, lost = 0;
  for (const auto& file : fs::directory_iterator(dir_.path())) {
    const std::string name = file.path().filename().string();
    const auto size = static_cast<int64_t>(file.file_size());
    if (size == 0 || name.starts_with("LOG")) continue;
    const bool table = file.path().extension() == ".sst";
    for (int i = 0; i < (table ? 15 : 5); ++i) {
      // Half of them near the end, where tables keep what finds everything else.
      const int64_t span = i % 2 == 0 ? size : std::min<int64_t>(size, 400);
      const int64_t offset =
          size - 1 - static_cast<int64_t>(random() % static_cast<uint64_t>(span));
      SCOPED_TRACE(absl::StrCat(name, " byte ", offset, " of ", size));
      TempDir copy;
      fs::copy(dir_.path(), copy.path(), fs::copy_options::recursive);
      FlipByte(copy.path() + "/" + name, offset);
      const int before = lost;
      ExpectTrueOrLost(copy.path(), content_, &lost);
      ++flips;
      table_flips += table && lost > before ? 1 : 0;
    }
  }
  EXPECT_GT(flips, 50);
  EXPECT_GT(table_flips, 20) << "flips that were noticed in tables, of " << flips;
}

}  // namespace
}  // namespace recollect::store::rocks
