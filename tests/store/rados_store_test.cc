// Several servers on one pool: each store object here is a client of its own, as a server is.
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "store/rados/pool.h"
#include "store/rados/records.h"
#include "tests/store/rados_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rados {
namespace {

using ::absl::StatusCode;

class RadosStoreTest : public testing::Test {
 protected:
  RadosOptions Options() const {
    return InNamespace(testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  // A server that does not renew its leases: as one that stands still.
  RadosOptions Still() const {
    RadosOptions options = Options();
    options.lease_ms = 1000;
    options.renews = false;
    return options;
  }
  static void WaitForLapse() { std::this_thread::sleep_for(std::chrono::milliseconds(1300)); }
  int64_t Objects() const {
    int64_t count = 0;
    const auto pool = Pool::Connect(Options());
    EXPECT_THAT(pool, IsOk());
    EXPECT_THAT((*pool)->List([&](const std::string&) { ++count; }), IsOk());
    return count;
  }
};

TEST_F(RadosStoreTest, OneServerSeesAtOnceWhatAnotherPublishesAndRemoves) {
  const auto a = Open(Options()), b = Open(Options());
  Content content{.seed = 1};
  const auto info = Ingest(*a, "book", &content, 3, 20, 5000, 70000);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(b->Get("book")->sha256, info->sha256);
  EXPECT_EQ(b->List("", 10)->size(), 1);
  ExpectContent(*b, info->owner, content);
  EXPECT_THAT(b->BeginIngest("book", "fingerprint", false, ""),
              StatusIs(StatusCode::kAlreadyExists, "book"));
  Content other{.seed = 2};
  const auto second = Ingest(*b, "other", &other, 1, 2, 10, 10);
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(second->owner, info->owner);
  ASSERT_THAT(b->Remove("book"), IsOk());
  EXPECT_THAT(a->Get("book"), StatusIs(StatusCode::kNotFound, "book"));
  EXPECT_THAT(b->Free(info->owner), IsOk());
  EXPECT_THAT(a->ReadChunks(AllChunks(info->owner, 1))[0], StatusIs(StatusCode::kNotFound, ""));
}

TEST_F(RadosStoreTest, AnIngestThatOneServerLeavesGoesOnAtAnother) {
  const auto a = Open(Options()), b = Open(Options());
  Content content{.seed = 3};
  const auto begun = a->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(begun, IsOk());
  const IngestBatch batch = NextBatch(content, 5, 100, 1000);
  ASSERT_THAT(a->CommitIngest(begun->owner, batch), IsOk());
  Append(&content, batch);
  EXPECT_THAT(b->BeginIngest("book", "fingerprint", false, ""),
              StatusIs(StatusCode::kAborted, "another server is writing"));
  EXPECT_THAT(b->AbandonIngest("book"), StatusIs(StatusCode::kAborted, "another server"));
  EXPECT_EQ(b->ListIngests()->at(0).chunks, 5);
  a->LeaveIngest(begun->owner);
  EXPECT_THAT(b->BeginIngest("book", "other", false, ""),
              StatusIs(StatusCode::kFailedPrecondition, "other"));
  const auto resumed = b->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->owner, begun->owner);
  EXPECT_EQ(resumed->resume_state, batch.resume_state);
  EXPECT_EQ(resumed->chunks, 5);
  const IngestBatch last = NextBatch(content, 5, 100, 1000);
  Append(&content, last);
  ASSERT_THAT(b->PublishIngest(resumed->owner, last), IsOk());
  ExpectContent(*a, begun->owner, content);
}

TEST_F(RadosStoreTest, AWriterThatLostItsLockCommitsNothing) {
  const auto still = Open(Still()), other = Open(Options());
  Content content{.seed = 4};
  const auto begun = still->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(begun, IsOk());
  const IngestBatch first = NextBatch(content, 5, 100, 1000);
  ASSERT_THAT(still->CommitIngest(begun->owner, first), IsOk());
  Append(&content, first);
  WaitForLapse();
  ASSERT_THAT(other->BeginIngest("book", "fingerprint", false, ""), IsOk());
  IngestBatch wrong = NextBatch(content, 7, 50, 500);
  wrong.text = std::string(500, '!');
  EXPECT_THAT(still->CommitIngest(begun->owner, wrong),
              StatusIs(StatusCode::kAborted, "taken over by another server"));
  EXPECT_THAT(still->PublishIngest(begun->owner, wrong), StatusIs(StatusCode::kAborted, ""));
  const IngestBatch last = NextBatch(content, 6, 100, 1000);
  Append(&content, last);
  ASSERT_THAT(other->PublishIngest(begun->owner, last), IsOk());
  EXPECT_THAT(still->PublishIngest(begun->owner, wrong), StatusIs(StatusCode::kAborted, ""));
  ExpectContent(*still, begun->owner, content);
  ExpectContent(*other, begun->owner, content);
  ExpectContent(*Open(Options()), begun->owner, content);
  // What the first one wrote in vain is what the check finds, and no more.
  const auto check = CheckRadosStore(Options(), /*repair=*/true);
  ASSERT_THAT(check, IsOk());
  EXPECT_THAT(check->problems, testing::IsEmpty());
  EXPECT_THAT(CheckRadosStore(Options(), false)->orphans, testing::IsEmpty());
  ExpectContent(*other, begun->owner, content);
}

// It does not know that it is no longer the writer when it is asked for what the other published.
TEST_F(RadosStoreTest, AServerWhoseIngestAnotherFinishedReadsTheWholeDocument) {
  const auto still = Open(Still()), other = Open(Options());
  Content content{.seed = 14};
  const auto begun = still->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(begun, IsOk());
  WaitForLapse();
  ASSERT_THAT(other->BeginIngest("book", "fingerprint", false, ""), IsOk());
  const IngestBatch last = NextBatch(content, 6, 100, 1000);
  Append(&content, last);
  ASSERT_THAT(other->PublishIngest(begun->owner, last), IsOk());
  EXPECT_EQ(still->Get("book")->chunks, 6);
  ExpectContent(*still, begun->owner, content);
}

// Between the lapse and the commit nobody took it over: the commit is as good as any.
TEST_F(RadosStoreTest, AWriterWhoseLockLapsedGoesOnIfNobodyTookItsPlace) {
  const auto still = Open(Still());
  Content content{.seed = 5};
  const auto begun = still->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(begun, IsOk());
  WaitForLapse();
  const IngestBatch last = NextBatch(content, 5, 100, 1000);
  Append(&content, last);
  ASSERT_THAT(still->PublishIngest(begun->owner, last), IsOk());
  ExpectContent(*still, begun->owner, content);
}

TEST_F(RadosStoreTest, OfManyThatBeginAnIdAtOnceOneWrites) {
  constexpr int kServers = 4;
  std::vector<std::unique_ptr<DocumentStore>> stores;
  for (int i = 0; i < kServers; ++i) stores.push_back(Open(Options()));
  for (int round = 0; round < 5; ++round) {
    const std::string id = absl::StrCat("book", round);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kServers; ++i) {
      threads.emplace_back([&, i] {
        Content content{.seed = static_cast<uint64_t>(i)};
        const auto begun = stores[static_cast<size_t>(i)]->BeginIngest(id, "f", false, "");
        if (!begun.ok()) {
          EXPECT_THAT(begun, StatusIs(StatusCode::kAborted, "another server"));
          return;
        }
        ++winners;
        EXPECT_THAT(stores[static_cast<size_t>(i)]->CommitIngest(begun->owner,
                                                                 NextBatch(content, 3, 30, 300)),
                    IsOk());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(stores[0]->ListIngests()->size(), round + 1);
  }
}

TEST_F(RadosStoreTest, ADocumentThatAnotherServerPinsStaysReadableUntilItsLastPin) {
  const auto a = Open(Options()), b = Open(Options());
  Content content{.seed = 6};
  const auto info = Ingest(*a, "book", &content, 2, 20, 5000, 70000);
  ASSERT_THAT(info, IsOk());
  ASSERT_THAT(a->PutIndex(info->owner, "index"), IsOk());
  ASSERT_THAT(b->Pin(info->owner), IsOk());
  ASSERT_THAT(b->Pin(info->owner), IsOk());
  ASSERT_THAT(a->Remove("book"), IsOk());
  ASSERT_THAT(a->Free(info->owner), IsOk());
  EXPECT_THAT(*b->List("", 10), testing::IsEmpty());
  ExpectContent(*b, info->owner, content);
  EXPECT_THAT(a->Pin(info->owner), StatusIs(StatusCode::kNotFound, "removed"));
  b->Unpin(info->owner);
  ExpectContent(*Open(Options()), info->owner, content);  // opening frees what nobody pins
  b->Unpin(info->owner);
  EXPECT_THAT(b->ReadText(info->owner, 0, 1), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(b->Pin(info->owner), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_EQ(Objects(), 2);  // the catalog and the store's own record
}

TEST_F(RadosStoreTest, ThePinOfAServerThatStandsStillLapses) {
  const auto a = Open(Options());
  {
    Content content{.seed = 7};
    const auto still = Open(Still());
    const auto info = Ingest(*a, "book", &content, 1, 20, 500, 7000);
    ASSERT_THAT(still->Pin(info->owner), IsOk());
    ASSERT_THAT(a->Remove("book"), IsOk());
    ASSERT_THAT(a->Free(info->owner), IsOk());
    ExpectContent(*still, info->owner, content);
  }
  // The first server looks at a third of its own lease.
  for (int i = 0; i < 100 && Objects() > 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(Objects(), 2);
}

TEST_F(RadosStoreTest, StatesOfAPrefixAreReplacedAsAWholeAlsoByAnotherServer) {
  const auto a = Open(Options()), b = Open(Options());
  const auto state_of = [](uint64_t seed, size_t bytes) {
    std::mt19937_64 random(seed);
    std::string state(bytes, '\0');
    for (char& c : state) c = static_cast<char>(random());
    return state;
  };
  const auto put = [](DocumentStore& store, OwnerId owner, const std::string& state) {
    for (size_t at = 0; at < state.size(); at += kStatePartBytes) {
      EXPECT_THAT(store.PutStatePart(owner, static_cast<int64_t>(at) / kStatePartBytes,
                                     absl::string_view(state).substr(at, kStatePartBytes)),
                  IsOk());
    }
  };
  const auto expect = [](DocumentStore& store, OwnerId owner, const std::string& state) {
    std::string read;
    for (int64_t i = 0; i * kStatePartBytes < std::ssize(state); ++i) {
      const auto part = store.ReadStatePart(owner, i);
      ASSERT_THAT(part, IsOk());
      read += *part;
    }
    EXPECT_TRUE(read == state);
    EXPECT_THAT(store.ReadStatePart(owner, 50), StatusIs(StatusCode::kOutOfRange, "50"));
  };
  const std::string first = state_of(1, (2 << 20) + 5), second = state_of(2, 100),
                    third = state_of(3, (1 << 20) + 1);
  const auto begun = a->BeginIngest("p", "f", false, "(window 8)");
  ASSERT_THAT(begun, IsOk());
  put(*a, begun->owner, second);  // put and never committed
  put(*a, begun->owner, first);
  IngestBatch batch;
  batch.text = "abc";
  batch.state_bytes = std::ssize(first);
  ASSERT_THAT(a->CommitIngest(begun->owner, batch), IsOk());
  expect(*a, begun->owner, first);
  put(*a, begun->owner, third);
  expect(*b, begun->owner, first);
  a->LeaveIngest(begun->owner);
  ASSERT_THAT(b->BeginIngest("p", "f", false, "(window 8)"), IsOk());
  expect(*b, begun->owner, first);
  put(*b, begun->owner, second);
  batch.state_bytes = std::ssize(second);
  ASSERT_THAT(b->CommitIngest(begun->owner, batch), IsOk());
  expect(*b, begun->owner, second);
  put(*b, begun->owner, third);
  batch.state_bytes = std::ssize(third);
  const auto info = b->PublishIngest(begun->owner, batch);
  ASSERT_THAT(info, IsOk());
  expect(*a, info->owner, third);
  ASSERT_THAT(CheckRadosStore(Options(), true), IsOk());
  expect(*Open(Options()), info->owner, third);
}

TEST_F(RadosStoreTest, DamageNamesTheDocumentAndTheRecord) {
  const auto store = Open(Options());
  Content content{.seed = 8};
  const auto info = Ingest(*store, "book", &content, 1, 300, 500, 7000);
  ASSERT_THAT(info, IsOk());
  const auto pool = Pool::Connect(Options());
  const std::string object = SegmentName(info->owner, 1, 0);
  const std::string whole = *(*pool)->ReadAll(object, object);
  std::string flipped = whole;
  flipped[100] ^= 1;
  const WriteRequest flip[] = {{object, 0, flipped, true}};
  ASSERT_THAT((*pool)->Write(flip, object), IsOk());
  EXPECT_THAT(store->ReadChunks(AllChunks(info->owner, 1))[0],
              StatusIs(StatusCode::kDataLoss, "book"));
  EXPECT_THAT(store->ReadChunks(AllChunks(info->owner, 1))[0],
              StatusIs(StatusCode::kDataLoss, "chunk 0"));
  const WriteRequest cut[] = {{object, 0, whole.substr(0, 60), true}};
  ASSERT_THAT((*pool)->Write(cut, object), IsOk());
  EXPECT_THAT(store->ReadChunks(AllChunks(info->owner, 2))[1],
              StatusIs(StatusCode::kDataLoss, "chunk 1"));
  const std::string gone[] = {object};
  ASSERT_THAT((*pool)->Remove(gone, object), IsOk());
  EXPECT_THAT(store->ReadChunks(AllChunks(info->owner, 1))[0],
              StatusIs(StatusCode::kDataLoss, "missing"));
  const auto check = CheckRadosStore(Options(), false);
  ASSERT_THAT(check, IsOk());
  EXPECT_THAT(check->problems, testing::ElementsAre(testing::HasSubstr(object)));
}

TEST_F(RadosStoreTest, RefusesWhatItCanNotOpenAndSaysWhy) {
  RadosOptions options = Options();
  options.pool = "elsewhere";
  EXPECT_THAT(OpenRadosStore(options).status(), StatusIs(StatusCode::kNotFound, "pool elsewhere"));
  options = Options();
  options.conf_file = "/no/such/ceph.conf";
  EXPECT_THAT(OpenRadosStore(options).status(),
              StatusIs(StatusCode::kNotFound, "/no/such/ceph.conf"));
  const TempDir directory;
  options.conf_file = directory.path() + "/ceph.conf";
  std::ofstream(options.conf_file) << "[global]\nmon host = v2:127.0.0.1:1\n"
                                      "auth client required = none\n";
  options.timeout_s = 1;
  EXPECT_THAT(OpenRadosStore(options).status(),
              StatusIs(StatusCode::kUnavailable, "did not answer within 1 s"));

  const auto pool = Pool::Connect(Options());
  const WriteRequest foreign[] = {{"rbd_directory", 0, "x"}};
  ASSERT_THAT((*pool)->Write(foreign, "test"), IsOk());
  EXPECT_THAT(OpenRadosStore(Options()).status(),
              StatusIs(StatusCode::kFailedPrecondition, "rbd_directory"));
  Change newer;
  newer.create = true;
  newer.set["pool"] = EncodePool("pool", {.version = kPoolVersion + 1, .next_owner = 1});
  ASSERT_THAT((*pool)->Apply(kPoolObject, newer, "test"), IsOk());
  const auto refused = OpenRadosStore(Options()).status();
  EXPECT_THAT(refused, StatusIs(StatusCode::kFailedPrecondition, "format version 2"));
  EXPECT_THAT(refused, StatusIs(StatusCode::kFailedPrecondition, "this build reads 1"));

  EXPECT_EQ(ParseRadosName("rados:p/n")->name_space, "n");
  EXPECT_EQ(ParseRadosName("rados:p")->pool, "p");
  for (const char* bad : {"rados:", "rados:/n", "rados:p/", "ceph:p", ""})
    EXPECT_THAT(ParseRadosName(bad), StatusIs(StatusCode::kInvalidArgument, bad));
}

}  // namespace
}  // namespace recollect::store::rados
