// What `recollect store check` finds and `repair` frees, and a process that stands still.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "store/rados/pool.h"
#include "store/rados/records.h"
#include "tests/store/rados_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rados {
namespace {

using ::absl::StatusCode;

TEST(RadosScrubTest, FindsAndFreesWhatNobodyOwnsAndNothingElse) {
  const RadosOptions options = InNamespace("scrub");
  const auto store = Open(options);
  Content content{.seed = 1}, open{.seed = 2}, pinned{.seed = 3};
  const auto info = Ingest(*store, "book", &content, 3, 20, 5000, 70000);
  ASSERT_THAT(info, IsOk());
  ASSERT_THAT(store->PutIndex(info->owner, std::string(3 << 20, 'i')), IsOk());
  const auto begun = store->BeginIngest("open", "f", false, "");
  const IngestBatch batch = NextBatch(open, 5, 100, 1000);
  ASSERT_THAT(store->CommitIngest(begun->owner, batch), IsOk());
  Append(&open, batch);
  const auto kept = Ingest(*store, "kept", &pinned, 1, 20, 50, 700);
  ASSERT_THAT(store->Pin(kept->owner), IsOk());
  ASSERT_THAT(store->Remove("kept"), IsOk());
  EXPECT_THAT(CheckRadosStore(options, false)->orphans, testing::IsEmpty());

  const auto pool = Pool::Connect(options);
  const OwnerId nobody{12345};
  const std::vector<std::string> planted = {
      HeadName(nobody),  // of an import that was cut off at once
      SegmentName(nobody, 1, 0),
      SegmentName(info->owner, 7, 0),  // of a writer that was fenced
      StatePartName(info->owner, 1, 3),
      IndexPieceName(info->owner, 999, 0),  // of an index that was not finished
  };
  for (const std::string& name : planted) {
    const WriteRequest write[] = {{name, 0, "x"}};
    ASSERT_THAT((*pool)->Write(write, name), IsOk());
  }
  const auto check = CheckRadosStore(options, false);
  ASSERT_THAT(check, IsOk());
  EXPECT_THAT(check->orphans, testing::UnorderedElementsAreArray(planted));
  EXPECT_THAT(check->problems, testing::IsEmpty());
  EXPECT_EQ(check->documents, 1);
  const auto repaired = CheckRadosStore(options, true);
  ASSERT_THAT(repaired, IsOk());
  EXPECT_THAT(repaired->orphans, testing::UnorderedElementsAreArray(planted));
  EXPECT_THAT(CheckRadosStore(options, false)->orphans, testing::IsEmpty());
  ExpectContent(*store, info->owner, content);
  ExpectContent(*store, begun->owner, open);
  ExpectContent(*store, kept->owner, pinned);
  EXPECT_EQ(store->ReadIndex(info->owner)->size(), 3 << 20);
  EXPECT_THAT(CheckRadosStore(InNamespace("nothing"), false).status(),
              StatusIs(StatusCode::kNotFound, "nothing"));
}

// A repair must not take what a writer that stands still could commit when it goes on.
TEST(RadosScrubTest, ARepairEndsAWriterWhoseUncommittedRecordsItFrees) {
  RadosOptions options = InNamespace("ended");
  RadosOptions still_options = options;
  still_options.lease_ms = 2000;
  still_options.renews = false;
  const auto still = Open(still_options);
  Content content{.seed = 5};
  const auto begun = still->BeginIngest("book", "fingerprint", false, "");
  const IngestBatch first = NextBatch(content, 5, 100, 1000);
  ASSERT_THAT(still->CommitIngest(begun->owner, first), IsOk());
  Append(&content, first);
  const auto pool = Pool::Connect(options);
  const WriteRequest begun_commit[] = {{SegmentName(begun->owner, 1, 1), 0, "x"}};
  ASSERT_THAT((*pool)->Write(begun_commit, "test"), IsOk());
  EXPECT_THAT(CheckRadosStore(options, true)->orphans, testing::IsEmpty());  // it has its lock
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_EQ(CheckRadosStore(options, true)->orphans.size(), 1);
  EXPECT_THAT(still->CommitIngest(begun->owner, NextBatch(content, 5, 100, 1000)),
              StatusIs(StatusCode::kAborted, ""));
  const auto again = still->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(again, IsOk());
  const IngestBatch last = NextBatch(content, 5, 100, 1000);
  Append(&content, last);
  ASSERT_THAT(still->PublishIngest(again->owner, last), IsOk());
  ExpectContent(*Open(options), again->owner, content);
}

// The process that this test starts (rados_test_main.cc): a writer that commits once at once, and
// once more when it is told to.
RadosOptions WriterOptions(const std::string& name) {
  RadosOptions options = InNamespace(name);
  options.lease_ms = 1500;
  return options;
}

}  // namespace

// Exit status 0: the second commit was ABORTED; 6: it was made.
int RunWriter() {
  auto store = OpenRadosStore(WriterOptions(std::getenv("RECOLLECT_RADOS_WRITER_NAMESPACE")));
  if (!store.ok()) return 1;
  Content content{.seed = 11};
  const auto begun = (*store)->BeginIngest("book", "fingerprint", false, "");
  if (!begun.ok()) return 2;
  const IngestBatch first = NextBatch(content, 5, 100, 1000);
  if (!(*store)->CommitIngest(begun->owner, first).ok()) return 3;
  Append(&content, first);
  std::fputs("committed\n", stdout);
  std::fflush(stdout);
  if (std::getchar() == EOF) return 4;
  const absl::Status second = (*store)->CommitIngest(begun->owner, NextBatch(content, 3, 10, 2000));
  if (second.ok()) return 6;
  return second.code() == StatusCode::kAborted ? 0 : 5;
}

namespace {

class WriterProcess {
 public:
  explicit WriterProcess(const std::string& name, const char* preload = nullptr,
                         const char* clock = nullptr) {
    EXPECT_EQ(pipe(to_), 0);
    EXPECT_EQ(pipe(from_), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(to_[0], 0);
    dup2(from_[1], 1);
    setenv("RECOLLECT_RADOS_WRITER", ClusterDirectory().c_str(), 1);
    setenv("RECOLLECT_RADOS_WRITER_NAMESPACE", name.c_str(), 1);
    if (preload != nullptr) {
      setenv("LD_PRELOAD", preload, 1);
      setenv("FAKETIME", clock, 1);
      setenv("DONT_FAKE_MONOTONIC", "1", 1);
    }
    execl("/proc/self/exe", "writer", nullptr);
    _exit(127);
  }
  ~WriterProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    for (const int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
  }
  pid_t pid() const { return pid_; }
  bool HasCommitted() {
    char line[10];
    return read(from_[0], line, sizeof(line)) == 10;  // "committed\n"
  }
  // Its exit status, or -1.
  int CommitsAgain() {
    EXPECT_EQ(write(to_[1], "\n", 1), 1);
    int status = 0;
    EXPECT_EQ(waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int to_[2] = {-1, -1}, from_[2] = {-1, -1};
  pid_t pid_ = -1;
};

TEST(RadosScrubTest, AProcessStoppedPastItsLeaseCommitsNothingWhenItGoesOn) {
  WriterProcess process("stopped");
  const pid_t writer = process.pid();
  ASSERT_TRUE(process.HasCommitted());
  const auto store = Open(WriterOptions("stopped"));
  EXPECT_THAT(store->BeginIngest("book", "fingerprint", false, ""),
              StatusIs(StatusCode::kAborted, "another server"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // it renews
  EXPECT_THAT(store->BeginIngest("book", "fingerprint", false, ""),
              StatusIs(StatusCode::kAborted, absl::StrCat("/", writer, "/")));
  ASSERT_EQ(kill(writer, SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const auto begun = store->BeginIngest("book", "fingerprint", false, "");
  ASSERT_THAT(begun, IsOk());
  Content content{.seed = 11};
  Append(&content, NextBatch(content, 5, 100, 1000));
  EXPECT_EQ(begun->resume_state, content.resume_state);
  const IngestBatch ours = NextBatch(content, 4, 200, 3000);
  ASSERT_THAT(store->CommitIngest(begun->owner, ours), IsOk());
  Append(&content, ours);
  ASSERT_EQ(kill(writer, SIGCONT), 0);
  EXPECT_EQ(process.CommitsAgain(), 0);  // its commit was ABORTED
  IngestBatch last;
  last.input_offset = content.input_offset;
  ASSERT_THAT(store->PublishIngest(begun->owner, last), IsOk());
  ExpectContent(*Open(WriterOptions("stopped")), begun->owner, content);
}

// Locks and pins expire by the clock of the OSD: a server whose own is hours off is no other writer
// than any. The clock is made wrong by libfaketime, where it is installed.
TEST(RadosScrubTest, ClocksOfServersDoNotMatter) {
  const char* const library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
  if (access(library, R_OK) != 0) GTEST_SKIP() << library << " is missing";
  for (const char* off : {"-2h", "+2h"}) {
    const std::string name = absl::StrCat("clock", off);
    WriterProcess process(name, library, off);
    ASSERT_TRUE(process.HasCommitted()) << off;
    const auto store = Open(WriterOptions(name));
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // it renews
    EXPECT_THAT(store->BeginIngest("book", "fingerprint", false, ""),
                StatusIs(StatusCode::kAborted, "another server"))
        << off;
    EXPECT_EQ(process.CommitsAgain(), 6) << off;                   // its commit was made
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));  // it has ended: its lock lapses
    const auto begun = store->BeginIngest("book", "fingerprint", false, "");
    ASSERT_THAT(begun, IsOk()) << off;
    EXPECT_EQ(begun->chunks, 8) << off;
  }
}

}  // namespace
}  // namespace recollect::store::rados
