// A disk that fills up: RESOURCE_EXHAUSTED, nothing half-written, and work goes on once there is
// room. Once with a file system that runs out on demand, once with a real small one.
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "store/rocks/store_impl.h"
#include "tests/store/store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;
using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// Room left, in bytes; shared by all files.
struct Room {
  std::atomic<int64_t> bytes{INT64_MAX};
  // What of `wanted` still fits; takes it.
  int64_t Take(int64_t wanted) {
    int64_t left = bytes.load();
    while (!bytes.compare_exchange_weak(left, left - std::min(left, wanted))) {
    }
    return std::min(left, wanted);
  }
};

class LimitedFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LimitedFile(std::unique_ptr<FSWritableFile> file, Room* room)
      : FSWritableFileOwnerWrapper(std::move(file)), room_(room) {}
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    // As a real disk does: what fits is written, the rest is not.
    const auto fits = static_cast<size_t>(room_->Take(static_cast<int64_t>(data.size())));
    const IOStatus status = FSWritableFileOwnerWrapper::Append({data.data(), fits}, options, debug);
    if (!status.ok() || fits == data.size()) return status;
    return IOStatus::NoSpace("no room left");
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }

 private:
  Room* const room_;
};

class LimitedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit LimitedFileSystem(Room* room)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), room_(room) {}
  const char* Name() const override { return "LimitedFileSystem"; }
  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* debug) override {
    std::unique_ptr<FSWritableFile> file;
    const IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<LimitedFile>(std::move(file), room_);
    return status;
  }
  IOStatus GetFreeSpace(const std::string&, const IOOptions&, uint64_t* bytes,
                        IODebugContext*) override {
    *bytes = static_cast<uint64_t>(room_->bytes.load());
    return IOStatus::OK();
  }

 private:
  Room* const room_;
};

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
  Room room;
  LimitedFileSystem* const limited = new LimitedFileSystem(&room);
  const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::shared_ptr<rocksdb::FileSystem>(limited));
  RocksOptions options;
  options.directory = dir.path();
  Content content{.seed = 1, .width = 256};
  OwnerId owner;
  {
    auto store = RocksStore::Open(options, env.get());
    ASSERT_THAT(store, IsOk());
    owner = (*store)->BeginIngest("big", "f", false, "")->owner;
    for (const int64_t bytes : {3000000, 1000, 70000, 0, 50000000}) {
      SCOPED_TRACE(absl::StrCat("room for ", bytes, " bytes"));
      room.bytes = bytes;
      FillUp(**store, owner, &content);
      room.bytes = INT64_MAX;
      GoOn(**store, owner, &content);
      if (HasFailure()) return;
    }
    room.bytes = 100000;
    FillUp(**store, owner, &content);
  }
  // Closed while full. What was acknowledged is there afterwards; the one commit that failed last
  // may be there too, but whole.
  room.bytes = INT64_MAX;
  auto store = RocksStore::Open(options, env.get());
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
  Room room;
  const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::make_shared<LimitedFileSystem>(&room));
  RocksOptions options;
  options.directory = dir.path();
  room.bytes = 10;
  EXPECT_THAT(RocksStore::Open(options, env.get()),
              StatusIs(StatusCode::kResourceExhausted, dir.path()));
  room.bytes = INT64_MAX;
  EXPECT_THAT(RocksStore::Open(options, env.get()), IsOk());
}

TEST(RocksFullDiskTest, RealSmallFileSystem) {
  TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=24m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here (" << std::strerror(errno)
                 << "): a really full disk is NOT tested";
  }
  {
    RocksOptions options;
    options.directory = dir.path() + "/data";
    auto store = OpenRocksStore(options);
    ASSERT_THAT(store, IsOk());
    const std::string ballast = dir.path() + "/ballast";
    std::ofstream(ballast) << std::string(8 << 20, 'x');
    Content content{.seed = 1, .width = 256};
    const OwnerId owner = (*store)->BeginIngest("big", "f", false, "")->owner;
    FillUp(**store, owner, &content);
    std::filesystem::remove(ballast);
    GoOn(**store, owner, &content);
    // A full disk is also mended by deleting.
    FillUp(**store, owner, &content);
  }
  EXPECT_EQ(umount2(dir.path().c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace recollect::store
