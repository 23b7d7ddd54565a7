// Disks of random sizes that fill up under ingests, deletions and sessions; then the store is
// closed, or killed, and there is room again. What was acknowledged is there, and work goes on.
//
//   full_disk_faults_test                                                three of each
//   RECOLLECT_FAULT_ROUNDS=100 RECOLLECT_FAULT_SEED=7 full_disk_faults_test     more, and others
#include <sys/mount.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "base/io/log.h"
#include "store/rocks/documents/store_impl.h"
#include "tests/faults/checker.h"
#include "tests/store/fault_file_system.h"
#include "tests/store/rocks_testing.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const std::string& directory,
                                                    rocksdb::Env* env = nullptr) {
  RocksOptions options;
  options.directory = directory;
  options.sync_commits = false;
  return RocksStore::Open(options, env);
}

// Uses a store at random, and knows what must be in it. An operation that failed may have been
// carried out all the same, but wholly.
class Workload {
 public:
  explicit Workload(uint64_t seed) : random_(seed) {}

  // The status of one operation, as it is in `Expected` afterwards.
  absl::Status Step(DocumentStore& store) {
    switch (random_() % 24) {
      case 0:
        return Remove(store);
      case 1:
        return Abandon(store);
      case 2:
      case 3:
        return PutSessionChunks(store);
      case 4:
      case 5:
      case 6:
        return Publish(store);
      default:
        return Commit(store);
    }
  }

  // After the store was opened again.
  Expected Settled(DocumentStore& store, Problems* problems) {
    const auto ingests = store.ListIngests();
    if (!ingests.ok()) problems->push_back(ingests.status().ToString());
    const auto listed = [&](const IngestProgress& ingest) { return ingest.id == id_; };
    if (offset_ > 0 && !expected_.unsure.contains(id_) &&
        std::none_of(ingests->begin(), ingests->end(), listed)) {
      problems->push_back(absl::StrCat(id_, ": the ingest is lost"));
    }
    Expected settled = expected_;
    Settle(store, &settled);
    return settled;
  }
  int published() const { return published_; }

 private:
  absl::Status Begin(DocumentStore& store) {
    if (begun_) return absl::OkStatus();
    id_ = absl::StrCat("doc", ++documents_);
    content_ = Content{.seed = documents_, .width = 128};
    const auto progress = store.BeginIngest(id_, "f", false, "");
    if (!progress.ok()) return progress.status();
    owner_ = progress->owner;
    begun_ = true;
    return absl::OkStatus();
  }
  absl::Status Commit(DocumentStore& store) {
    if (absl::Status begun = Begin(store); !begun.ok()) return begun;
    const IngestBatch batch = Next();
    const absl::Status status = store.CommitIngest(owner_, batch);
    if (!status.ok()) return status;
    Append(&content_, batch);
    offset_ = batch.input_offset;
    return status;
  }
  absl::Status Publish(DocumentStore& store) {
    if (absl::Status begun = Begin(store); !begun.ok()) return begun;
    const IngestBatch batch = Next();
    const auto info = store.PublishIngest(owner_, batch);
    Content whole = content_;
    Append(&whole, batch);
    if (!info.ok()) {
      expected_.unsure[id_] = whole;
      return info.status();
    }
    expected_.unsure.erase(id_);
    expected_.documents[id_] = whole;
    begun_ = false;
    offset_ = 0;
    ++published_;
    return absl::OkStatus();
  }
  absl::Status Abandon(DocumentStore& store) {
    if (!begun_) return absl::OkStatus();
    begun_ = false;
    offset_ = 0;
    expected_.unsure.erase(id_);  // it was not published, the store says so itself by doing this
    const absl::Status status = store.AbandonIngest(id_);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  absl::Status Remove(DocumentStore& store) {
    if (expected_.documents.size() < 3) return absl::OkStatus();
    const auto document = std::next(expected_.documents.begin(),
                                    static_cast<int64_t>(random_() % expected_.documents.size()));
    const auto [id, content] = *document;
    const auto removed = store.Remove(id);
    if (!removed.ok()) {
      expected_.unsure[id] = content;
      return removed.status();
    }
    expected_.unsure.erase(id);
    expected_.documents.erase(id);
    expected_.deleted.push_back(id);
    return store.Free(removed->owner);
  }
  absl::Status PutSessionChunks(DocumentStore& store) {
    const auto session = store.NewSessionOwner();
    if (!session.ok()) return session.status();
    for (int i = 0; i < 10; ++i) {
      const absl::Status put = store.PutSessionChunk({*session, i}, MakeChunk(1, i, 128));
      if (!put.ok()) return put;
    }
    return random_() % 2 == 0 ? store.FreeSession(*session) : absl::OkStatus();
  }
  IngestBatch Next() {
    const auto size = static_cast<int64_t>(random_() % 50);
    return NextBatch(content_, size, 20 * size, 200 * size);
  }

  std::mt19937_64 random_;
  Expected expected_;
  // The ingest that is open.
  uint64_t documents_ = 0;
  bool begun_ = false;
  std::string id_;
  OwnerId owner_{};
  Content content_;
  int64_t offset_ = 0;  // of the last acknowledged commit
  int published_ = 0;
};

void FillFile(const std::string& path) {
  std::ofstream file(path);
  for (const std::string block(4096, 'x'); file.write(block.data(), 4096).flush();) {
  }
}

struct Totals {
  int rounds = 0, full = 0, published = 0, after = 0, wrong = 0;
};

// Works until the disk is full and then a little on, and then `again` and again.
void FillUp(DocumentStore& store, Workload* workload, std::mt19937_64* random,
            const std::function<void()>& give_room, Totals* totals, Problems* problems) {
  int failures = 0;
  const auto step = [&] {
    const absl::Status status = workload->Step(store);
    if (!status.ok() && !absl::IsResourceExhausted(status)) problems->push_back(status.ToString());
    if (!status.ok()) ++failures;
    return status.ok();
  };
  for (int i = 0; i < 100000 && failures == 0 && problems->empty(); ++i) step();
  totals->full += failures > 0;
  const int more = static_cast<int>((*random)() % 8);
  for (int i = 0; i < more; ++i) totals->after += step();
  if ((*random)() % 3 == 0) {
    give_room();
    for (int i = 0; i < 10; ++i) totals->after += step();
  }
}

void Check(const std::string& directory, Workload* workload, Problems* problems) {
  for (const char* name : {"x", "y"}) {
    auto store = Open(directory);
    Require(store.status(), "opened again", problems);
    if (!store.ok()) return;
    Expected expected = workload->Settled(**store, problems);
    for (const std::string& id : CheckStore(**store, expected, problems)) {
      problems->push_back(absl::StrCat(id, ": damaged"));
    }
    if (*name == 'y') WorkOn(**store, name, {}, &expected, problems);
  }
}

class FullDiskFaultsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }

  void Report(uint64_t seed, const Problems& problems, Totals* totals) const {
    ++totals->rounds;
    totals->wrong += !problems.empty();
    for (const std::string& problem : problems) ADD_FAILURE() << "seed " << seed << ": " << problem;
  }
  static void Print(const Totals& totals) {
    std::printf(
        "%d disks, %d filled up: %d documents published, %d operations done after that; %d WRONG\n",
        totals.rounds, totals.full, totals.published, totals.after, totals.wrong);
  }
  const int64_t rounds_ = FromEnvironment("RECOLLECT_FAULT_ROUNDS", 3);
  const auto static inline first_seed_ =
      static_cast<uint64_t>(FromEnvironment("RECOLLECT_FAULT_SEED", 1));
};

TEST_P(FullDiskFaultsTest, Limited) {
  const bool killed = GetParam();
  Totals totals;
  for (int64_t round = 0; round < rounds_; ++round) {
    const uint64_t seed = first_seed_ + static_cast<uint64_t>(round);
    std::mt19937_64 random(seed);
    TempDir dir, left;
    const FaultEnv disk;
    Workload workload(seed);
    Problems problems;
    {
      auto store = Open(dir.path(), disk.env.get());
      Require(store.status(), "opening", &problems);
      for (int i = 0; i < 20; ++i) Require(workload.Step(**store), "with room", &problems);
      const uint64_t most = random() % 4 == 0 ? 60000000 : 1000000;
      disk.files->SetRoom(static_cast<int64_t>(random() % most), random() % 4 == 0);
      FillUp(
          **store, &workload, &random, [&] { disk.files->SetRoom(INT64_MAX); }, &totals, &problems);
      if (killed) {
        for (const auto& [name, bytes] : FilesAtRest(dir.path())) {
          WriteFile(left.path() + "/" + name, bytes);
        }
        disk.files->SetRoom(INT64_MAX);
      }
    }
    Check(killed ? left.path() : dir.path(), &workload, &problems);
    totals.published += workload.published();
    Report(seed, problems, &totals);
  }
  Print(totals);
}

TEST_P(FullDiskFaultsTest, Real) {
  const bool killed = GetParam();
  Totals totals;
  for (int64_t round = 0; round < rounds_; ++round) {
    const uint64_t seed = first_seed_ + static_cast<uint64_t>(round);
    std::mt19937_64 random(seed);
    TempDir dir, left;
    const std::string size = absl::StrCat("size=", 4 + random() % 60, "m");
    if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, size.c_str()) != 0) {
      GTEST_SKIP() << "cannot mount a small file system here: really full disks are NOT tested";
    }
    const auto give_room = [&] {
      mount("tmpfs", dir.path().c_str(), "tmpfs", MS_REMOUNT, "size=1g");
    };
    const std::string directory = dir.path() + "/data";
    Workload workload(seed);
    Problems problems;
    {
      auto store = Open(directory);
      Require(store.status(), "opening", &problems);
      // In half of them others fill the disk, at any moment.
      for (uint64_t i = random() % 2 * (random() % 100); i > 0 && store.ok(); --i) {
        const absl::Status status = workload.Step(**store);
        if (!status.ok() && !absl::IsResourceExhausted(status)) Require(status, "step", &problems);
        if (i == 1) FillFile(dir.path() + "/others");
      }
      if (store.ok()) FillUp(**store, &workload, &random, give_room, &totals, &problems);
      if (killed) {
        for (const auto& [name, bytes] : FilesAtRest(directory)) {
          WriteFile(left.path() + "/" + name, bytes);
        }
      }
    }
    give_room();
    Check(killed ? left.path() : directory, &workload, &problems);
    totals.published += workload.published();
    Report(seed, problems, &totals);
    EXPECT_EQ(umount2(dir.path().c_str(), MNT_DETACH), 0);
  }
  Print(totals);
}

INSTANTIATE_TEST_SUITE_P(Ends, FullDiskFaultsTest, testing::Values(false, true),
                         [](const auto& killed) { return killed.param ? "Killed" : "Closed"; });

}  // namespace
}  // namespace recollect::store::rocks
