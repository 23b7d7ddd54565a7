// A disk that fills up: RESOURCE_EXHAUSTED, nothing half-written, and work goes on once there is
// room. Once with a file system that runs out on demand, once with a real small one.
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "store/rocks/documents/store_impl.h"
#include "tests/store/fault_file_system.h"
#include "tests/store/store_testing.h"
#include "tests/support/eventually.h"

namespace recollect::store::rocks {
namespace {

using ::absl::StatusCode;

// Commits until the disk is full, then checks that exactly what was acknowledged is there.
void FillUp(DocumentStore& store, OwnerId owner, Content* content) {
  absl::Status status;
  for (int i = 0; i < 10000 && status.ok(); ++i) {
    const IngestBatch batch = NextBatch(*content, 4, 100, 1000);
    status = store.CommitIngest(owner, batch);
    if (status.ok()) Append(content, batch);
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, "big"));
  // Still full: the same answer, not another one.
  EXPECT_THAT(store.CommitIngest(owner, NextBatch(*content, 4, 100, 1000)),
              StatusIs(StatusCode::kResourceExhausted, ""));
  EXPECT_THAT(store.PublishIngest(owner, NextBatch(*content, 4, 100, 1000)),
              StatusIs(StatusCode::kResourceExhausted, ""));
  ExpectContent(store, owner, *content);
}

// The ingest goes on from its offset as if nothing had been.
void GoOn(DocumentStore& store, OwnerId owner, Content* content) {
  const auto progress = store.BeginIngest("big", "f", false, "");
  ASSERT_THAT(progress, IsOk());
  EXPECT_EQ(progress->input_offset, content->input_offset);
  EXPECT_EQ(progress->resume_state, content->resume_state);
  for (int i = 0; i < 5; ++i) {
    const IngestBatch batch = NextBatch(*content, 4, 100, 1000);
    ASSERT_THAT(store.CommitIngest(owner, batch), IsOk());
    Append(content, batch);
  }
  ExpectContent(store, owner, *content);
}

TEST(RocksFullDiskTest, NothingHalfWrittenAndGoesOnWhenThereIsRoom) {
  TempDir dir;
  const FaultEnv disk;
  const RocksOptions options{.directory = dir.path()};
  Content content{.seed = 1, .width = 256};
  OwnerId owner;
  {
    auto store = RocksStore::Open(options, disk.env.get());
    ASSERT_THAT(store, IsOk());
    owner = (*store)->BeginIngest("big", "f", false, "")->owner;
    for (const int64_t bytes : {3000000, 1000, 70000, 0, 50000000}) {
      SCOPED_TRACE(absl::StrCat("room for ", bytes, " bytes"));
      disk.files->SetRoom(bytes, /*told=*/false);
      FillUp(**store, owner, &content);
      disk.files->SetRoom(INT64_MAX);
      GoOn(**store, owner, &content);
      if (HasFailure()) return;
    }
    EXPECT_FALSE((*store)->state().read_only);
    disk.files->SetRoom(100000, /*told=*/false);
    FillUp(**store, owner, &content);
    EXPECT_TRUE((*store)->state().read_only);
  }
  // Closed while full. What was acknowledged is there afterwards; the one commit that failed last
  // may be there too, but whole.
  disk.files->SetRoom(INT64_MAX);
  auto store = RocksStore::Open(options, disk.env.get());
  ASSERT_THAT(store, IsOk());
  const auto progress = (*store)->BeginIngest("big", "f", false, "");
  ASSERT_THAT(progress, IsOk());
  if (progress->input_offset != content.input_offset) {
    Append(&content, NextBatch(content, 4, 100, 1000));
  }
  GoOn(**store, owner, &content);
  EXPECT_THAT((*store)->PublishIngest(owner, NextBatch(content, 0, 0, 0)), IsOk());
}

TEST(RocksFullDiskTest, OpeningOnAFullDisk) {
  TempDir dir;
  const FaultEnv disk;
  const RocksOptions options{.directory = dir.path()};
  disk.files->SetRoom(10);
  EXPECT_THAT(RocksStore::Open(options, disk.env.get()),
              StatusIs(StatusCode::kResourceExhausted, dir.path()));
  disk.files->SetRoom(INT64_MAX);
  EXPECT_THAT(RocksStore::Open(options, disk.env.get()), IsOk());
}

TEST(RocksFullDiskTest, WhatDoesNotFitIsRefusedBeforeItIsWritten) {
  TempDir dir;
  const FaultEnv disk;
  auto store = RocksStore::Open({.directory = dir.path()}, disk.env.get());
  ASSERT_THAT(store, IsOk());
  Content book{.seed = 1, .width = 256}, other{.seed = 2, .width = 256};
  ASSERT_THAT(Ingest(**store, "book", &book, 1, 4, 100, 1000), IsOk());
  const OwnerId owner = (*store)->BeginIngest("other", "f", false, "")->owner;
  const OwnerId session = *(*store)->NewSessionOwner();
  disk.files->SetRoom(5000000);
  const StoreState state = (*store)->state();
  EXPECT_EQ(state.free_bytes, 5000000);
  EXPECT_FALSE(state.read_only);
  disk.files->Plan({});
  const IngestBatch batch = NextBatch(other, 4, 100, 1000);
  const absl::Status refused = (*store)->CommitIngest(owner, batch);
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted, "ingest 'other'"));
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted, "bytes needed, 5000000 free"));
  EXPECT_THAT((*store)->PutSessionChunk({session, 0}, MakeChunk(1, 0)),
              StatusIs(StatusCode::kResourceExhausted, "5000000 free"));
  EXPECT_EQ(disk.files->calls(Call::kWrite), 0);
  // What gives space back, or only reads, goes on.
  EXPECT_THAT((*store)->NewSessionOwner(), IsOk());
  EXPECT_THAT((*store)->AbandonIngest("other"), IsOk());
  EXPECT_THAT((*store)->Remove("book"), IsOk());
}

// The library loses what is in its memory only when it is opened again.
TEST(RocksFullDiskTest, SessionsAreKeptOverAnErrorOfTheDisk) {
  TempDir dir;
  const FaultEnv disk;
  auto store = RocksStore::Open({.directory = dir.path()}, disk.env.get());
  ASSERT_THAT(store, IsOk());
  const OwnerId session = *(*store)->NewSessionOwner();
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT((*store)->PutSessionChunk({session, i}, MakeChunk(1, i)), IsOk());
  }
  const OwnerId owner = (*store)->BeginIngest("big", "f", false, "")->owner;
  Content content{.seed = 1, .width = 256};
  for (int i = 0; i < 3; ++i) {
    disk.files->SetRoom(1000, /*told=*/false);
    FillUp(**store, owner, &content);
    disk.files->SetRoom(INT64_MAX);
    GoOn(**store, owner, &content);
  }
  const auto chunks = (*store)->ReadChunks(AllChunks(session, 5));
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(chunks[static_cast<size_t>(i)], IsOk());
    EXPECT_TRUE(*chunks[static_cast<size_t>(i)] == MakeChunk(1, i));
  }
}

TEST(RocksFullDiskTest, RealSmallFileSystem) {
  TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=40m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here (" << std::strerror(errno)
                 << "): a really full disk is NOT tested";
  }
  {
    auto store = OpenRocksStore({.directory = dir.path() + "/data"});
    ASSERT_THAT(store, IsOk());
    const std::string ballast = dir.path() + "/ballast";
    std::ofstream(ballast) << std::string(8 << 20, 'x');
    Content book{.seed = 2, .width = 256}, content{.seed = 1, .width = 256};
    ASSERT_THAT(Ingest(**store, "book", &book, 2, 100, 100, 1000), IsOk());
    const OwnerId owner = (*store)->BeginIngest("big", "f", false, "")->owner;
    FillUp(**store, owner, &content);
    std::filesystem::remove(ballast);
    GoOn(**store, owner, &content);
    // A full disk is also mended by deleting.
    FillUp(**store, owner, &content);
    const auto removed = (*store)->Remove("book");
    ASSERT_THAT(removed, IsOk());
    ASSERT_THAT((*store)->Free(removed->owner), IsOk());
    const IngestBatch batch = NextBatch(content, 4, 100, 1000);
    ASSERT_TRUE(Eventually([&] { return (*store)->CommitIngest(owner, batch).ok(); }));
    Append(&content, batch);
    ExpectContent(**store, owner, content);
  }
  EXPECT_EQ(umount2(dir.path().c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace recollect::store::rocks
