// A process that commits, publishes and deletes in a loop is killed at random moments; after each
// kill, everything acknowledged is there, whole and exact, and the resume state fits the offset.
//
//   RECOLLECT_FAULT_ROUNDS=34 RECOLLECT_FAULT_SEED=7 rocks_kill_test     1020 kills, at other
//   moments
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "store/rocks/rocks_store.h"
#include "tests/store/store_testing.h"

extern char** environ;

namespace recollect::store::rocks {
namespace {

constexpr int kKills = 30;  // a round
constexpr int kCommitsPerDocument = 12;
constexpr const char* kDirectoryVariable = "RECOLLECT_KILL_TEST_DIRECTORY";

absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const std::string& directory) {
  return OpenRocksStore({.directory = directory});
}

// The one batch that follows `content` in any process: sizes depend on what came before, pieces of
// text and tokens end anywhere.
IngestBatch Following(const Content& content) {
  std::mt19937_64 random(content.seed + static_cast<uint64_t>(content.input_offset));
  const auto chunks = static_cast<int64_t>(random() % 12);
  const auto tokens = static_cast<int64_t>(random() % 4000);
  return NextBatch(content, chunks, tokens, static_cast<int64_t>(random() % 20000));
}

Content StartOf(int document) {
  Content content;
  content.seed = static_cast<uint64_t>(document);
  content.width = 128;
  return content;
}

std::string NameOf(int document) { return absl::StrCat("doc", 100000 + document); }

// Runs in the process to be killed; writes a line after each acknowledged step.
void WorkForever(DocumentStore& store) {
  int document = 0;
  // The unfinished one, or the one after the last published.
  const auto begun = store.ListIngests();
  for (const IngestProgress& progress : *begun) {
    document = std::max(document, std::atoi(progress.id.c_str() + 3) - 100000);
  }
  const auto list = store.List("", 1000000);
  if (!list->empty()) document = std::max(document, std::atoi(list->back().id.c_str() + 3) - 99999);
  for (;; ++document) {
    Content content = StartOf(document);
    const auto progress = store.BeginIngest(NameOf(document), "f", false, "");
    RECOLLECT_CHECK(progress.ok());
    int commits = 0;
    while (content.input_offset < progress->input_offset) {
      Append(&content, Following(content));
      ++commits;
    }
    const OwnerId session = *store.NewSessionOwner();
    for (; commits < kCommitsPerDocument; ++commits) {
      const IngestBatch batch = Following(content);
      RECOLLECT_CHECK(store.CommitIngest(progress->owner, batch).ok());
      Append(&content, batch);
      dprintf(STDOUT_FILENO, "commit %d %ld\n", document, static_cast<long>(content.input_offset));
      RECOLLECT_CHECK(store.PutSessionChunk({session, commits}, MakeChunk(1, 1)).ok());
    }
    RECOLLECT_CHECK(store.FreeSession(session).ok());
    RECOLLECT_CHECK(store.PublishIngest(progress->owner, Following(content)).ok());
    dprintf(STDOUT_FILENO, "publish %d\n", document);
    if (document >= 3) {
      const auto removed = store.Remove(NameOf(document - 3));
      RECOLLECT_CHECK(removed.ok() || absl::IsNotFound(removed.status()));
      if (removed.ok()) {
        dprintf(STDOUT_FILENO, "remove %d\n", document - 3);
        RECOLLECT_CHECK(store.Free(removed->owner).ok());
      }
    }
  }
}

// Not a test: what RocksKillTest starts and kills.
TEST(RocksKillTest, DISABLED_Worker) {
  const char* const directory = std::getenv(kDirectoryVariable);
  ASSERT_NE(directory, nullptr);
  auto store = Open(directory);
  ASSERT_THAT(store, IsOk());
  dprintf(STDOUT_FILENO, "ready\n");
  WorkForever(**store);
}

class Worker {
 public:
  explicit Worker(const std::string& directory) {
    setenv(kDirectoryVariable, directory.c_str(), 1);
    int ends[2];
    RECOLLECT_CHECK(pipe(ends) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    char self[] = "/proc/self/exe", filter[] = "--gtest_filter=*DISABLED_Worker",
         disabled[] = "--gtest_also_run_disabled_tests";
    char* const arguments[] = {self, filter, disabled, nullptr};
    RECOLLECT_CHECK(posix_spawn(&pid_, self, &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    reader_ = std::thread([this, in = ends[0]] {
      char buffer[4096];
      for (ssize_t n; (n = read(in, buffer, sizeof(buffer))) > 0;) {
        output_.append(buffer, static_cast<size_t>(n));
        lines_ += static_cast<int>(std::count(buffer, buffer + n, '\n'));
        lines_.notify_all();
      }
      close(in);
    });
  }
  // Returns when it has written so many lines.
  void WaitForLines(int lines) const {
    for (int written; (written = lines_) < lines;) lines_.wait(written);
  }
  // All complete lines it wrote.
  std::string Kill() {
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "ended by itself";
    reader_.join();
    return output_.substr(0, output_.rfind('\n') + 1);
  }

 private:
  pid_t pid_ = 0;
  std::thread reader_;
  std::string output_;
  std::atomic<int> lines_ = 0;
};

// How long a worker takes to start and to acknowledge twenty commits on a machine this busy.
std::chrono::microseconds LifeOfTwentyCommits() {
  TempDir dir;
  const auto start = std::chrono::steady_clock::now();
  Worker worker(dir.path());
  worker.WaitForLines(20);
  const auto end = std::chrono::steady_clock::now();
  worker.Kill();
  return std::chrono::duration_cast<std::chrono::microseconds>(end - start);
}

// What was acknowledged over all lives.
struct Acknowledged {
  std::map<int, int64_t> offsets;
  std::map<int, bool> published;
  std::map<int, bool> removed;
  int commits = 0;

  void Read(const std::string& output) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string verb;
      int document = 0;
      int64_t offset = 0;
      words >> verb >> document >> offset;
      if (verb == "commit") offsets[document] = offset, ++commits;
      if (verb == "publish") published[document] = true;
      if (verb == "remove") removed[document] = true;
    }
  }
};

void CheckEverything(DocumentStore& store, const Acknowledged& acknowledged) {
  const auto list = store.List("", 1000000);
  const auto ingests = store.ListIngests();
  ASSERT_THAT(list, IsOk());
  ASSERT_THAT(ingests, IsOk());
  EXPECT_LE(ingests->size(), 1u);
  std::map<int, bool> seen;
  for (const DocumentInfo& info : *list) {
    const int document = std::atoi(info.id.c_str() + 3) - 100000;
    seen[document] = true;
    EXPECT_FALSE(acknowledged.removed.contains(document)) << info.id << " came back";
    Content content = StartOf(document);
    for (int i = 0; i <= kCommitsPerDocument; ++i) Append(&content, Following(content));
    EXPECT_EQ(info.chunks, static_cast<int64_t>(content.chunks.size()));
    EXPECT_EQ(info.bytes, static_cast<int64_t>(content.text.size()));
    ExpectContent(store, info.owner, content);
  }
  for (const IngestProgress& listed : *ingests) {
    const int document = std::atoi(listed.id.c_str() + 3) - 100000;
    seen[document] = true;
    EXPECT_FALSE(acknowledged.published.contains(document)) << listed.id << " is unfinished again";
    const auto progress = store.BeginIngest(listed.id, "f", false, "");
    ASSERT_THAT(progress, IsOk());
    Content content = StartOf(document);
    while (content.input_offset < progress->input_offset) Append(&content, Following(content));
    EXPECT_EQ(content.input_offset, progress->input_offset) << "not at a commit";
    EXPECT_EQ(content.resume_state, progress->resume_state);
    EXPECT_EQ(static_cast<int64_t>(content.chunks.size()), progress->chunks);
    EXPECT_EQ(static_cast<int64_t>(content.text.size()), progress->bytes);
    EXPECT_EQ(static_cast<int64_t>(content.tokens.size()), progress->tokens);
    ExpectContent(store, progress->owner, content);
    const auto known = acknowledged.offsets.find(document);
    if (known != acknowledged.offsets.end()) {
      EXPECT_GE(progress->input_offset, known->second) << "lost an acknowledged commit";
    }
  }
  for (const auto& [document, offset] : acknowledged.offsets) {
    // Removal may have happened and not been told.
    const bool may_be_gone = !seen.empty() && document + 3 <= seen.rbegin()->first + 1;
    EXPECT_TRUE(seen.contains(document) || acknowledged.removed.contains(document) || may_be_gone)
        << NameOf(document) << " is lost";
  }
}

TEST(RocksKillTest, KilledAtRandomMoments) {
  TempDir dir;
  Acknowledged acknowledged;
  const auto kills = static_cast<int>(kKills * FromEnvironment("RECOLLECT_FAULT_ROUNDS", 1));
  std::mt19937_64 random(static_cast<uint64_t>(FromEnvironment("RECOLLECT_FAULT_SEED", 99)));
  const std::chrono::microseconds most = 2 * LifeOfTwentyCommits();
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE(absl::StrCat("kill ", kill));
    {
      Worker worker(dir.path());
      std::this_thread::sleep_for(most * (random() % 1000) / 1000);
      acknowledged.Read(worker.Kill());
    }
    auto store = Open(dir.path());
    ASSERT_THAT(store, IsOk());
    CheckEverything(**store, acknowledged);
    if (HasFailure()) return;
  }
  EXPECT_GT(acknowledged.commits, kills);
  std::printf("%d kills, %d acknowledged commits, %zu documents published\n", kills,
              acknowledged.commits, acknowledged.published.size());
}

}  // namespace
}  // namespace recollect::store::rocks
