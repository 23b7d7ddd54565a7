// Every call to the file system fails in turn, once or from then on, over an ingest, a deletion and
// a compaction; and power is lost at every call in turn. What was acknowledged is there, the rest
// is there wholly or not at all, and work goes on: after one failure in the same process, always
// after the store was opened again.
//
//   failing_calls_test                                 a few calls of each kind
//   RECOLLECT_FAULT_ROUNDS=1000 failing_calls_test     all of them
#include <cstdio>
#include <memory>
#include <set>

#include "base/io/log.h"
#include "store/rocks/documents/store_impl.h"
#include "tests/faults/checker.h"
#include "tests/store/fault_file_system.h"
#include "tests/store/rocks_testing.h"

namespace recollect::store::rocks {
namespace {

RocksOptions OptionsOf(const std::string& directory, bool sync = true) {
  RocksOptions options;
  options.directory = directory;
  options.sync_commits = sync;
  return options;
}

Content ContentOf(uint64_t seed) { return {.seed = seed, .width = 64}; }

// One ingest, one deletion and one compaction, with a session beside them. Ends where one fails.
absl::Status Script(RocksStore& store, Expected* expected) {
  const auto session = store.NewSessionOwner();
  if (!session.ok()) return session.status();
  const absl::Status put = store.PutSessionChunk({*session, 0}, MakeChunk(9, 0));
  if (!put.ok()) return put;

  Content whole = ContentOf(3);
  for (int i = 0; i < 3; ++i) Append(&whole, NextBatch(whole, 8, 1000, 10000));
  expected->unsure["c"] = whole;
  Content content = ContentOf(3);
  const auto published = Ingest(store, "c", &content, 3, 8, 1000, 10000);
  if (!published.ok()) return published.status();
  expected->documents["c"] = whole;
  expected->unsure.erase("c");

  expected->unsure["a"] = expected->documents["a"];
  const auto removed = store.Remove("a");
  if (!removed.ok()) return removed.status();
  expected->documents.erase("a");
  expected->unsure.erase("a");
  expected->deleted.push_back("a");
  if (absl::Status freed = store.Free(removed->owner); !freed.ok()) return freed;

  if (absl::Status flushed = store.FlushForTest(); !flushed.ok()) return flushed;
  for (const Family f : kDocumentFamilies) {
    if (absl::Status compacted = store.CompactForTest(f); !compacted.ok()) return compacted;
  }
  // What sessions have is there as long as the process is.
  const auto chunk = store.ReadChunks(AllChunks(*session, 1))[0];
  if (!chunk.ok()) return chunk.status();
  return *chunk == MakeChunk(9, 0) ? absl::OkStatus() : absl::InternalError("another chunk");
}

// That no records are left of what is neither a document nor an ingest.
void CheckNothingLeft(const std::string& directory, const std::set<OwnerId>& owners,
                      Problems* problems) {
  const auto database = Database::OpenToRead(OptionsOf(directory), nullptr);
  Require(database.status(), "opening to read", problems);
  if (!database.ok()) return;
  for (const Family f : kDocumentFamilies) {
    const auto visit = [&](absl::string_view key, absl::string_view) {
      const OwnerId owner = ParseOwner(key.substr(0, sizeof(OwnerId)));
      if (owners.contains(owner)) return true;
      problems->push_back(absl::StrCat("left behind: ", kFamilyNames[static_cast<size_t>(f)],
                                       " of owner ", static_cast<uint64_t>(owner)));
      return false;
    };
    Require((*database)->Scan(f, "", "", visit), "scan", problems);
  }
}

void CheckWhole(DocumentStore& store, Expected* expected, Problems* problems) {
  Settle(store, expected);
  for (const std::string& id : CheckStore(store, *expected, problems)) {
    problems->push_back(absl::StrCat(id, ": damaged"));
  }
}

void CheckReopened(const std::string& directory, Expected expected, Problems* problems) {
  std::set<OwnerId> owners;
  for (const char* name : {"y", "z"}) {
    auto store = OpenRocksStore(OptionsOf(directory, false));
    Require(store.status(), "opened again", problems);
    if (!store.ok()) return;
    CheckWhole(**store, &expected, problems);
    if (*name == 'y') WorkOn(**store, name, {}, &expected, problems);
    const auto list = (*store)->List("", 1000);
    const auto ingests = (*store)->ListIngests();
    if (list.ok()) {
      for (const auto& info : *list) owners.insert(info.owner);
    }
    if (ingests.ok()) {
      for (const auto& ingest : *ingests) owners.insert(ingest.owner);
    }
  }
  CheckNothingLeft(directory, owners, problems);
}

class FailingCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    for (const char* id : {"a", "b"}) {
      auto store = OpenRocksStore(OptionsOf(base_.path(), false));
      ASSERT_THAT(store, IsOk());
      Content content = ContentOf(static_cast<uint64_t>(*id));
      ASSERT_THAT(Ingest(**store, id, &content, 3, 8, 1000, 10000), IsOk());
      expected_.documents[id] = content;
    }
    Problems none;
    Run({}, true, false, &none);
    EXPECT_EQ(none, Problems());
    of_script_ = calls_;
  }

  // The script with one fault.
  void Run(const Fault& fault, bool sync, bool power_loss, Problems* problems) {
    TempDir dir, left;
    std::map<std::string, std::string> copies;
    for (const auto& [name, bytes] : Files(base_.path())) {
      WriteFile(dir.path() + "/" + name, bytes);
      copies[dir.path() + "/" + name] = bytes;
    }
    const FaultEnv disk;
    disk.files->Adopt(copies);
    Expected expected = expected_;
    {
      auto store = RocksStore::Open(OptionsOf(dir.path(), sync), disk.env.get());
      Require(store.status(), "opening", problems);
      if (!store.ok()) return;
      disk.files->Plan(fault);
      const absl::Status status = Script(static_cast<RocksStore&>(**store), &expected);
      for (size_t i = 0; i < kCalls; ++i) calls_[i] = disk.files->calls(static_cast<Call>(i));
      if (!status.ok() && !absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
        problems->push_back(absl::StrCat("script: ", status.ToString()));
      }
      if (!status.ok() && disk.files->failed() == 0) {
        problems->push_back(absl::StrCat("nothing failed, but: ", status.ToString()));
      }
      if (!fault.from_then_on) disk.files->Plan({});
      if (power_loss) {
        for (const auto& [path, bytes] : disk.files->AfterPowerLoss()) {
          WriteFile(left.path() + path.substr(dir.path().size()), bytes);
        }
      } else if (!fault.from_then_on && fault.call == Call::kSync) {
        // What could not be synced may be in the log: reading goes on, writing perhaps not.
        const absl::Status begun = (*store)->BeginIngest("x", "f", false, "").status();
        if (!absl::IsUnavailable(begun)) Require(begun, "after it", problems);
        Expected now = expected;
        CheckWhole(**store, &now, problems);
      } else if (!fault.from_then_on) {
        CheckWhole(**store, &expected, problems);
        WorkOn(**store, "x", {}, &expected, problems);
      }
    }
    CheckReopened(power_loss ? left.path() : dir.path(), expected, problems);
  }

  // For every call of the kind, or some of them.
  void RunAll(const char* name, Fault fault, bool power_loss) {
    const int64_t calls = of_script_[static_cast<size_t>(fault.call)];
    EXPECT_GT(calls, 0) << name;
    const int64_t some = std::min(calls, 2 * FromEnvironment("RECOLLECT_FAULT_ROUNDS", 1));
    int wrong = 0;
    for (int64_t i = 0; i < some; ++i) {
      fault.at = i * calls / some;
      Problems problems;
      Run(fault, true, power_loss, &problems);
      wrong += !problems.empty();
      for (const std::string& problem : problems) {
        ADD_FAILURE() << name << ", call " << fault.at << " of " << calls << ": " << problem;
      }
    }
    std::printf("%-40s %5lld of %5lld calls  %5d WRONG\n", name, static_cast<long long>(some),
                static_cast<long long>(calls), wrong);
  }

  TempDir base_;
  Expected expected_;
  std::array<int64_t, kCalls> calls_{};      // of the last run
  std::array<int64_t, kCalls> of_script_{};  // of the script without a fault
};

TEST_F(FailingCallsTest, EveryCallInTurn) {
  for (const bool from_then_on : {false, true}) {
    const std::string then = from_then_on ? ", from then on" : ", once";
    const auto run = [&](const std::string& name, Fault fault) {
      fault.from_then_on = from_then_on;
      RunAll((name + then).c_str(), fault, /*power_loss=*/false);
    };
    run("write: error", {.call = Call::kWrite});
    run("write: short", {.call = Call::kWrite, .half = true});
    run("write: no space", {.call = Call::kWrite, .no_space = true, .half = true});
    run("create: error", {.call = Call::kCreate});
    run("create: no space", {.call = Call::kCreate, .no_space = true});
    run("sync: error", {.call = Call::kSync});
    run("rename: error", {.call = Call::kRename});
    run("delete: error", {.call = Call::kDelete});
    run("read: error", {.call = Call::kRead});
  }
}

TEST_F(FailingCallsTest, PowerIsLostAtEveryCallInTurn) {
  RunAll("loss of power", {.call = Call::kAnyChange, .from_then_on = true}, /*power_loss=*/true);
}

// The checker sees what it is there to see: a store that says so before it has synced.
TEST_F(FailingCallsTest, ALossByPowerIsFound) {
  Problems problems;
  Run({.call = Call::kAnyChange, .at = 1000000}, /*sync=*/false, /*power_loss=*/true, &problems);
  EXPECT_THAT(problems, testing::Contains(testing::HasSubstr("opened again")));
  problems.clear();
  Run({.call = Call::kAnyChange, .at = 1000000}, /*sync=*/true, /*power_loss=*/true, &problems);
  EXPECT_EQ(problems, Problems());
}

}  // namespace
}  // namespace recollect::store::rocks
