// The cache in front of the pool: what it has is used if it is right, and never else.
#include <map>

#include "base/io/log.h"
#include "store/rados/pool.h"
#include "store/rados/records.h"
#include "store/rocks/rocks_cache.h"
#include "tests/store/rados_testing.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rados {
namespace {

using ::absl::StatusCode;

// Its records outlive a store that uses it, and can be changed.
using Records = std::map<std::string, std::string>;

class MapCache final : public RecordCache {
 public:
  explicit MapCache(Records* records) : records_(records) {}
  std::vector<std::optional<std::string>> Get(std::span<const std::string> keys) override {
    std::vector<std::optional<std::string>> out;
    for (const std::string& key : keys) {
      const auto found = records_->find(key);
      out.push_back(found == records_->end() ? std::nullopt : std::optional(found->second));
    }
    return out;
  }
  void Put(std::span<const std::pair<std::string, std::string>> records) override {
    for (const auto& [key, record] : records) (*records_)[key] = record;
  }
  State state() override { return {std::ssize(*records_), 1000, false}; }

 private:
  Records* const records_;
};

class RadosCacheTest : public testing::Test {
 protected:
  RadosOptions Options() const {
    return InNamespace(testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  std::unique_ptr<DocumentStore> OpenWith(std::unique_ptr<RecordCache> cache) const {
    auto store = OpenRadosStore(Options(), std::move(cache));
    EXPECT_THAT(store, IsOk());
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::unique_ptr<DocumentStore> Open() { return OpenWith(std::make_unique<MapCache>(&records_)); }
  // Without the objects of its data.
  void DropData(OwnerId owner) const {
    const auto pool = Pool::Connect(Options());
    ASSERT_THAT(pool, IsOk());
    std::vector<std::string> objects;
    ASSERT_THAT((*pool)->List([&](const std::string& name) {
      if (name.starts_with(HeadName(owner) + ".")) objects.push_back(name);
    }),
                IsOk());
    EXPECT_FALSE(objects.empty());
    ASSERT_THAT((*pool)->Remove(objects, "test"), IsOk());
  }
  Records records_;
};

TEST_F(RadosCacheTest, ChunksAreReadFromThePoolOnceAndThenFromTheCache) {
  Content content{.seed = 1};
  const auto store = Open();
  const auto info = Ingest(*store, "book", &content, 2, 20, 500, 7000);
  ASSERT_THAT(info, IsOk());
  EXPECT_TRUE(records_.empty());
  ExpectContent(*store, info->owner, content);
  EXPECT_EQ(records_.size(), 40);
  EXPECT_EQ(store->state().cache_misses, 40);
  EXPECT_EQ(store->state().cache_hits, 0);
  ExpectContent(*store, info->owner, content);
  EXPECT_EQ(store->state().cache_hits, 40);
  EXPECT_EQ(store->state().cache_budget_bytes, 1000);
  // The next process, for which the pool has nothing but the head.
  DropData(info->owner);
  const auto again = Open();
  const auto chunks = again->ReadChunks(AllChunks(info->owner, 40));
  for (size_t i = 0; i < chunks.size(); ++i) {
    ASSERT_THAT(chunks[i], IsOk());
    EXPECT_TRUE(*chunks[i] == content.chunks[i]);
  }
  EXPECT_EQ(again->state().cache_misses, 0);
  const auto without = OpenRadosStore(Options());
  EXPECT_THAT((*without)->ReadChunks(AllChunks(info->owner, 1))[0],
              StatusIs(StatusCode::kDataLoss, "book"));
  EXPECT_EQ((*without)->state().cache_budget_bytes, 0);
}

TEST_F(RadosCacheTest, DamagedRecordsAreReadAgainFromThePoolAndReplaced) {
  SetLogLevel(LogLevel::kOff);
  Content content{.seed = 2};
  const auto store = Open();
  const auto info = Ingest(*store, "book", &content, 1, 20, 500, 7000);
  ASSERT_THAT(info, IsOk());
  ExpectContent(*store, info->owner, content);
  const Records good = records_;
  std::mt19937_64 random(3);
  int64_t damaged = 0;
  for (auto& [key, record] : records_) {
    switch (damaged++ % 4) {
      case 0: {
        char& byte = record[random() % record.size()];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
        break;
      }
      case 1:
        record.resize(random() % record.size());
        break;
      case 2:
        record.clear();
        break;
      default:
        record = good.begin()->second;  // of another chunk, with a right checksum of its own
        if (key == good.begin()->first) record += "x";
    }
  }
  ExpectContent(*store, info->owner, content);
  EXPECT_EQ(store->state().cache_damaged, 20);
  EXPECT_EQ(records_, good);
  ExpectContent(*store, info->owner, content);
  EXPECT_EQ(store->state().cache_damaged, 20);
  EXPECT_EQ(store->state().cache_hits, 20);
  SetLogLevel(LogLevel::kInfo);
}

// The numbers of owners begin again where a pool or a namespace was made anew.
TEST_F(RadosCacheTest, WhatWasCachedOfAnotherDocumentWithThatNumberIsNotUsed) {
  OwnerId first{};
  {
    Content content{.seed = 4};
    const auto store = Open();
    const auto info = Ingest(*store, "book", &content, 1, 20, 500, 7000);
    ASSERT_THAT(info, IsOk());
    first = info->owner;
    ExpectContent(*store, first, content);
  }
  const auto pool = Pool::Connect(Options());
  std::vector<std::string> all;
  ASSERT_THAT((*pool)->List([&](const std::string& name) { all.push_back(name); }), IsOk());
  ASSERT_THAT((*pool)->Remove(all, "test"), IsOk());
  Content content{.seed = 5};
  const auto store = Open();
  const auto info = Ingest(*store, "book", &content, 1, 20, 500, 7000);
  ASSERT_THAT(info, IsOk());
  ASSERT_EQ(info->owner, first);
  ExpectContent(*store, info->owner, content);
  EXPECT_EQ(store->state().cache_hits, 0);
  EXPECT_EQ(store->state().cache_damaged, 0);
  EXPECT_EQ(records_.size(), 40);
}

TEST_F(RadosCacheTest, ChunksOfAnUnfinishedIngestAndOfSessionsAreNotCached) {
  Content content{.seed = 6};
  const auto store = Open();
  const auto begun = store->BeginIngest("book", "fingerprint", false, "");
  const IngestBatch first = NextBatch(content, 5, 100, 1000);
  ASSERT_THAT(store->CommitIngest(begun->owner, first), IsOk());
  EXPECT_THAT(store->ReadChunks(AllChunks(begun->owner, 5))[4], IsOk());
  const auto session = store->NewSessionOwner();
  ASSERT_THAT(store->PutSessionChunk({*session, 0}, MakeChunk(1, 0)), IsOk());
  EXPECT_THAT(store->ReadChunks(AllChunks(*session, 1))[0], IsOk());
  EXPECT_TRUE(records_.empty());
  EXPECT_EQ(store->state().cache_misses, 0);
}

TEST_F(RadosCacheTest, ACacheOnThisDiskThatWasDamagedGivesNothingWrong) {
  SetLogLevel(LogLevel::kOff);
  const TempDir directory;
  const auto open = [&] {
    auto cache = OpenRocksCache({directory.path(), kMinCacheBytes});
    EXPECT_THAT(cache, IsOk());
    return OpenWith(*std::move(cache));
  };
  Content content{.seed = 7, .width = 64};
  OwnerId owner{};
  {
    const auto store = open();
    const auto info = Ingest(*store, "book", &content, 1, 200, 500, 7000);
    ASSERT_THAT(info, IsOk());
    owner = info->owner;
    ExpectContent(*store, owner, content);
  }
  {
    const auto store = open();
    ExpectContent(*store, owner, content);
    EXPECT_EQ(store->state().cache_hits, 200);
    EXPECT_GT(store->state().cache_bytes, 0);
  }
  std::mt19937_64 random(8);
  for (const auto& [name, bytes] : Files(directory.path())) {
    if (!name.ends_with(".sst")) continue;
    for (int i = 0; i < 20; ++i) {
      FlipByte(directory.path() + "/" + name, static_cast<int64_t>(random() % bytes.size() / 2));
    }
  }
  {
    const auto store = open();
    ExpectContent(*store, owner, content);
    EXPECT_GT(store->state().cache_misses, 0);
  }
  const auto store = open();
  ExpectContent(*store, owner, content);
  EXPECT_EQ(store->state().cache_hits, 200);
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace recollect::store::rados
