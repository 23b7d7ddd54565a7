// What only the store on disk does: reopening, owning its directory, giving space back.
#include "store/rocks/rocks_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "rocksdb/status.h"
#include "store/format.h"
#include "store/rocks/db/database.h"
#include "store/rocks/db/status.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"
#include "tests/support/eventually.h"

namespace recollect::store::rocks {
namespace {

using ::absl::StatusCode;

absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const std::string& directory) {
  return OpenRocksStore({.directory = directory});
}

TEST(RocksStatusTest, EveryCodeMaps) {
  using S = rocksdb::Status;
  EXPECT_THAT(FromRocks(S::OK(), "x"), IsOk());
  EXPECT_THAT(FromRocks(S::NotFound(), "chunk 3"), StatusIs(StatusCode::kNotFound, "chunk 3"));
  EXPECT_THAT(FromRocks(S::Corruption("bad"), "x"), StatusIs(StatusCode::kDataLoss, "x: "));
  EXPECT_THAT(FromRocks(S::NoSpace(), "x"), StatusIs(StatusCode::kResourceExhausted, "x: "));
  EXPECT_THAT(FromRocks(S::SpaceLimit(), "x"), StatusIs(StatusCode::kResourceExhausted, ""));
  EXPECT_THAT(FromRocks(S::MemoryLimit(), "x"), StatusIs(StatusCode::kResourceExhausted, ""));
  EXPECT_THAT(FromRocks(S::PathNotFound("f"), "x"), StatusIs(StatusCode::kDataLoss, "f"));
  EXPECT_THAT(FromRocks(S::IOError("f", "e"), "x"), StatusIs(StatusCode::kUnavailable, "f"));
  EXPECT_THAT(FromRocks(S::Busy(), "x"), StatusIs(StatusCode::kUnavailable, ""));
  EXPECT_THAT(FromRocks(S::TryAgain(), "x"), StatusIs(StatusCode::kUnavailable, ""));
  EXPECT_THAT(FromRocks(S::ShutdownInProgress(), "x"), StatusIs(StatusCode::kUnavailable, ""));
  EXPECT_THAT(FromRocks(S::Aborted(), "x"), StatusIs(StatusCode::kUnavailable, ""));
  EXPECT_THAT(FromRocks(S::TimedOut(), "x"), StatusIs(StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT(FromRocks(S::NotSupported(""), "x"), StatusIs(StatusCode::kUnimplemented, ""));
  EXPECT_THAT(FromRocks(S::InvalidArgument(""), "x"), StatusIs(StatusCode::kInternal, ""));
  EXPECT_THAT(FromRocksOpen(S::InvalidArgument(""), "/d"), StatusIs(StatusCode::kDataLoss, "/d"));
}

TEST(RocksStatusTest, ExceptionsStop) {
  EXPECT_THAT(Guarded("x", []() -> absl::Status { throw std::bad_alloc(); }),
              StatusIs(StatusCode::kResourceExhausted, "x"));
  EXPECT_THAT(Guarded("x", []() -> absl::Status { throw std::runtime_error("boom"); }),
              StatusIs(StatusCode::kInternal, "boom"));
}

TEST(RocksStoreTest, ReopenKeepsDocumentsAndUnfinishedIngests) {
  TempDir dir;
  Content book{.seed = 1}, rest{.seed = 2};
  OwnerId book_owner, rest_owner;
  {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    book_owner = Ingest(**store, "book", &book, 3, 7, 100, 70000)->owner;
    rest_owner = (*store)->BeginIngest("rest", "f", true, "")->owner;
    const IngestBatch batch = NextBatch(rest, 3, 10, 10);
    ASSERT_THAT((*store)->CommitIngest(rest_owner, batch), IsOk());
    Append(&rest, batch);
  }
  auto store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  ExpectContent(**store, book_owner, book);
  ExpectContent(**store, rest_owner, rest);
  const auto resumed = (*store)->BeginIngest("rest", "f", true, "");
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->owner, rest_owner);
  EXPECT_EQ(resumed->resume_state, rest.resume_state);
  EXPECT_EQ(resumed->input_offset, rest.input_offset);
  const IngestBatch last = NextBatch(rest, 2, 2, 2);
  ASSERT_THAT((*store)->PublishIngest(rest_owner, last), IsOk());
  Append(&rest, last);
  ExpectContent(**store, rest_owner, rest);
}

TEST(RocksStoreTest, OwnerNumbersAreNeverReused) {
  TempDir dir;
  uint64_t highest = 0;
  for (int round = 0; round < 3; ++round) {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    for (int i = 0; i < 5000; ++i) {  // more than are reserved at a time
      const auto owner = (*store)->NewSessionOwner();
      ASSERT_THAT(owner, IsOk());
      ASSERT_GT(static_cast<uint64_t>(*owner), highest);
      highest = static_cast<uint64_t>(*owner);
    }
    const auto progress = (*store)->BeginIngest(absl::StrCat("d", round), "f", false, "");
    ASSERT_GT(static_cast<uint64_t>(progress->owner), highest);
    highest = static_cast<uint64_t>(progress->owner);
  }
}

TEST(RocksStoreTest, DirectoryInUseByThisProcess) {
  TempDir dir;
  auto first = Open(dir.path());
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(Open(dir.path()), StatusIs(StatusCode::kFailedPrecondition, dir.path()));
  first->reset();
  EXPECT_THAT(Open(dir.path()), IsOk());
}

TEST(RocksStoreTest, DirectoryInUseByAnotherProcess) {
  TempDir dir;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A lock of the kind the library takes, without starting its threads in a forked process.
    const std::string path = dir.path() + "/LOCK";
    FILE* file = fopen(path.c_str(), "w");
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const char held = file != nullptr && fcntl(fileno(file), F_SETLK, &lock) == 0 ? 'y' : 'n';
    (void)!write(ready[1], &held, 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  ASSERT_EQ(held, 'y');
  EXPECT_THAT(Open(dir.path()), StatusIs(StatusCode::kFailedPrecondition, dir.path()));
  EXPECT_THAT(Open(dir.path()),
              StatusIs(StatusCode::kFailedPrecondition, "another process: call the server"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(Open(dir.path()), IsOk());
}

TEST(RocksStoreTest, DirectoryThatCannotBe) {
  TempDir dir;
  const std::string file = dir.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_THAT(Open(file), StatusIs(StatusCode::kFailedPrecondition, file));
  EXPECT_THAT(Open(file + "/below"), StatusIs(StatusCode::kFailedPrecondition, file));
}

TEST(RocksStoreTest, NewerFormatVersionNamesBoth) {
  TempDir dir;
  { ASSERT_THAT(Open(dir.path()), IsOk()); }
  {
    auto database = Database::Open({.directory = dir.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    Batch batch;
    batch.Put(Family::kMeta, MetaKey(), EncodeMeta(MetaKey(), {kDatabaseVersion + 1, 1}));
    ASSERT_THAT((*database)->Write(batch, "meta"), IsOk());
  }
  const auto store = Open(dir.path());
  EXPECT_THAT(store, StatusIs(StatusCode::kFailedPrecondition, "format version 3"));
  EXPECT_THAT(store, StatusIs(StatusCode::kFailedPrecondition, "up to 2"));
}

TEST(RocksStoreTest, VersionOneIsTakenOver) {
  TempDir dir;
  Content book{.seed = 1}, more{.seed = 2};
  {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT(Ingest(**store, "book", &book, 1, 2, 10, 100), IsOk());
  }
  {
    auto database = Database::Open({.directory = dir.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    Batch batch;
    batch.Delete(Family::kIngests, DocumentKey("book"));
    batch.Delete(Family::kIngests, CatalogKey());
    batch.Delete(Family::kCatalog, CatalogKey());
    batch.Put(Family::kMeta, MetaKey(), EncodeMeta(MetaKey(), {1, 4097}));
    ASSERT_THAT((*database)->Write(batch, "meta"), IsOk());
  }
  std::filesystem::remove(dir.path() + "/" + kHeadFile);
  for (int i = 0; i < 2; ++i) {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    const auto info = (*store)->Get("book");
    ASSERT_THAT(info, IsOk());
    ExpectContent(**store, info->owner, book);
    if (i == 0) {
      ASSERT_THAT(Ingest(**store, "more", &more, 1, 2, 10, 100), IsOk());
    }
    EXPECT_EQ((*store)->List("", 10)->size(), 2u);
  }
}

constexpr int64_t kWidth = 256;  // as in the shipped model: chunk records of up to 32 KiB

TEST(RocksStoreTest, DeleteGivesSpaceBackAndLeavesNeighbours) {
  TempDir dir;
  auto store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  Content before{.seed = 1, .width = kWidth}, large{.seed = 2, .width = kWidth},
      after{.seed = 3, .width = kWidth};
  const auto a = Ingest(**store, "before", &before, 2, 50, 500, 5000);
  const auto b = Ingest(**store, "large", &large, 8, 300, 20000, 100000);
  const auto c = Ingest(**store, "after", &after, 2, 50, 500, 5000);
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  ASSERT_THAT(c, IsOk());
  const int64_t full = DirectoryBytes(dir.path());
  ASSERT_GT(full, b->stored_bytes);
  EXPECT_GT((*store)->state().bytes, b->stored_bytes);
  EXPECT_GT((*store)->state().free_bytes, 0);
  ASSERT_THAT((*store)->Remove("large"), IsOk());
  ASSERT_THAT((*store)->Free(b->owner), IsOk());
  EXPECT_TRUE(Eventually([&] { return DirectoryBytes(dir.path()) < b->stored_bytes / 2; }))
      << full << " bytes before, " << DirectoryBytes(dir.path()) << " after, document of "
      << b->stored_bytes;
  EXPECT_LT((*store)->state().bytes, b->stored_bytes);
  ExpectContent(**store, a->owner, before);
  ExpectContent(**store, c->owner, after);
  store->reset();
  store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  ExpectContent(**store, a->owner, before);
  ExpectContent(**store, c->owner, after);
  EXPECT_FALSE((*store)->ReadText(b->owner, 0, 0).ok());
  // Closed, all of it lay in tables.
  const StoreState state = (*store)->state();
  EXPECT_FALSE(state.read_only);
  int64_t tables = 0;
  for (const auto& [family, bytes] : state.table_bytes) tables += bytes;
  EXPECT_GE(tables, a->stored_bytes / 2);
  EXPECT_GE(state.bytes, tables);
}

// The mark of a deletion with nothing below it would be a table of its own for ever.
TEST(RocksStoreTest, WhatWasDroppedAndCompactedLeavesNoTables) {
  TempDir dir;
  const auto database = Database::Open({.directory = dir.path()}, nullptr);
  ASSERT_THAT(database, IsOk());
  constexpr uint64_t kOwners = 12, kKept = 5;
  constexpr Family kFamily[] = {Family::kTokens};
  const auto compact = [&](uint64_t owner) {
    return (*database)->Compact(kFamily[0], OwnerKey(OwnerId{owner}), OwnerKey(OwnerId{owner + 1}),
                                nullptr);
  };
  for (uint64_t owner = 1; owner <= kOwners; ++owner) {
    Batch batch;
    for (int64_t i = 0; i < 3; ++i)
      batch.Put(kFamily[0], PieceKey(OwnerId{owner}, i), absl::StrCat("piece ", i));
    ASSERT_THAT((*database)->Write(batch, "test"), IsOk());
    ASSERT_THAT(compact(owner), IsOk());  // a table of its own
  }
  ASSERT_EQ(TablesOf(dir.path(), "tokens").size(), kOwners);
  const auto drop = [&](uint64_t owner) {
    return (*database)->DropRange(kFamily, OwnerKey(OwnerId{owner}), OwnerKey(OwnerId{owner + 1}),
                                  Durability::kSynced);
  };
  const auto drop_tables = [&](uint64_t owner) {
    return (*database)->DropTables(kFamily[0], OwnerKey(OwnerId{owner}),
                                   OwnerKey(OwnerId{owner + 1}));
  };
  // By themselves, and with the marks of two in one table.
  for (const std::vector<uint64_t>& together :
       std::vector<std::vector<uint64_t>>{{1}, {2}, {3}, {4}, {6, 7}, {8, 9}, {10}, {11, 12}}) {
    for (const uint64_t owner : together) ASSERT_THAT(drop(owner), IsOk());
    for (const uint64_t owner : together) {
      ASSERT_THAT(compact(owner), IsOk());
      ASSERT_THAT(drop_tables(owner), IsOk());
    }
  }
  EXPECT_TRUE(Eventually([&] { return TablesOf(dir.path(), "tokens").size() == 1; }));
  EXPECT_EQ((*database)->Get(kFamily[0], PieceKey(OwnerId{kKept}, 2), "piece").value(), "piece 2");
}

TEST(RocksStoreTest, RemovedAndNotFreedIsFreedWhenReopened) {
  TempDir dir;
  int64_t size = 0, full = 0;
  {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    Content large{.seed = 2, .width = kWidth};
    const auto info = Ingest(**store, "large", &large, 4, 300, 20000, 100000);
    ASSERT_THAT(info, IsOk());
    size = info->stored_bytes;
    ASSERT_THAT((*store)->Remove("large"), IsOk());
    ExpectContent(**store, info->owner, large);
  }
  full = DirectoryBytes(dir.path());
  ASSERT_GT(full, size * 9 / 10);  // text and tokens are compressed
  auto store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_TRUE(Eventually([&] { return DirectoryBytes(dir.path()) < full - size * 8 / 10; }))
      << full << " before, " << DirectoryBytes(dir.path()) << " after";
}

TEST(RocksStoreTest, SessionChunksGoWhenClosedOrReopened) {
  TempDir dir;
  OwnerId session;
  {
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    session = *(*store)->NewSessionOwner();
    for (int64_t i = 0; i < 1500; ++i) {  // some are flushed to files
      ASSERT_THAT((*store)->PutSessionChunk({session, i}, MakeChunk(1, i, kWidth, 63)), IsOk());
    }
    const ChunkRef refs[] = {{session, 0}, {session, 1499}};
    for (const auto& chunk : (*store)->ReadChunks(refs)) EXPECT_THAT(chunk, IsOk());
    EXPECT_TRUE(Eventually([&] { return DirectoryBytes(dir.path()) > 10 << 20; }));
  }
  EXPECT_LT(DirectoryBytes(dir.path()), 2 << 20);
  auto store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  const ChunkRef ref{session, 0};
  EXPECT_THAT((*store)->ReadChunks({&ref, 1})[0], StatusIs(StatusCode::kNotFound, ""));
}

// Marks of closed sessions go too; those of open ones, and what lies behind them, stay.
TEST(RocksStoreTest, ClosedSessionsLeaveFewTables) {
  TempDir dir;
  auto store = Open(dir.path());
  ASSERT_THAT(store, IsOk());
  const auto add = [&](OwnerId session, int64_t chunks) {
    for (int64_t i = 0; i < chunks; ++i)
      ASSERT_THAT((*store)->PutSessionChunk({session, i}, MakeChunk(1, i, kWidth, 63)), IsOk());
  };
  const auto close_some = [&](int sessions) {
    for (int i = 0; i < sessions; ++i) {
      const OwnerId session = *(*store)->NewSessionOwner();
      add(session, 600);  // 20 MB
      ASSERT_THAT((*store)->FreeSession(session), IsOk());
    }
  };
  close_some(8);
  const OwnerId open = *(*store)->NewSessionOwner();
  add(open, 3);
  close_some(8);  // these and those before are compacted
  EXPECT_TRUE(Eventually([&] { return DirectoryBytes(dir.path()) < 100 << 20; }));
  EXPECT_LT(TablesOf(dir.path(), "sessions").size(), 10u);
  const ChunkRef refs[] = {{open, 0}, {open, 2}};
  for (const auto& chunk : (*store)->ReadChunks(refs)) EXPECT_THAT(chunk, IsOk());
}

}  // namespace
}  // namespace recollect::store::rocks
