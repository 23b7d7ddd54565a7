// An ingest that is killed again and again at random moments ends with the same records, byte for
// byte, as one that is not.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

struct Kind {
  const char* name;
  DocumentKind documents;
  int kills;
  size_t text_bytes;
};

// The beginning of the books that come with the project, from inside a chapter on.
std::string BookText(size_t bytes) {
  const std::string command = "xz -dc '" RECOLLECT_SOURCE_DIR "/examples/books.txt.xz'";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text(bytes, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  pclose(pipe);
  while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0x80) != 0) text.pop_back();
  return text;
}

std::unique_ptr<store::DocumentStore> OpenStore(const std::string& directory) {
  store::RocksOptions options;
  options.directory = directory;
  options.sync_commits = false;  // a killed process loses nothing that it wrote, synced or not
  auto store = store::OpenRocksStore(options);
  return store.ok() ? *std::move(store) : nullptr;
}

std::shared_ptr<const model::CpuModel> LoadModel(DocumentKind documents) {
  switch (documents) {
    case DocumentKind::kChunks:
      return TinyModelForTest(1, /*min_chunk_tokens=*/24);
    case DocumentKind::kPrefix:
      return LoadRatPlusForTest("kill", TinyRatPlusConfig());
    case DocumentKind::kText:
      return TextModelForTest();
  }
  return nullptr;
}

// The child: resumes the ingest and finishes it. Tells `ready` when it begins.
int RunIngest(const Kind& kind, const std::string& directory, const std::string& text, int ready) {
  auto store = OpenStore(directory);
  if (store == nullptr) return 2;
  TestOptions options = SmallOptions();
  options.commit_tokens = options.text_commit_tokens = 400;
  auto engine = MakeEngine(options, std::move(store), LoadModel(kind.documents));
  auto stream = engine->BeginIngest("book", false, {});
  if (!stream.ok()) return 3;
  if (write(ready, "r", 1) != 1) return 4;
  return SendText(**stream, text, 3000).ok() ? 0 : 5;
}

// The child: appends what the document lacks of the text. Before that it has its first `size` bytes
// or all of it, whatever was killed.
int RunAppend(const Kind& kind, const std::string& directory, const std::string& text, size_t size,
              int ready) {
  auto store = OpenStore(directory);
  if (store == nullptr) return 2;
  TestOptions options = SmallOptions();
  options.commit_tokens = options.text_commit_tokens = 400;
  auto engine = MakeEngine(options, std::move(store), LoadModel(kind.documents));
  const auto info = engine->GetDocument("book");
  if (!info.ok()) return 6;
  if (info->bytes == std::ssize(text)) return 0;
  if (info->bytes != static_cast<int64_t>(size)) return 7;
  auto stream = engine->BeginIngest("book", false, {}, {}, Replacement{.appends = true});
  if (!stream.ok()) return 3;
  if (write(ready, "r", 1) != 1) return 4;
  return SendText(**stream, text.substr(size), 3000).ok() ? 0 : 5;
}

struct Child {
  pid_t pid;
  int ready;
};

// The parent never opens a store: RocksDB's threads would not be there after the next fork.
Child Start(const std::function<int(int ready)>& run) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    _exit(run(ends[1]));
  }
  close(ends[1]);
  return {pid, ends[0]};
}
Child Start(const Kind& kind, const std::string& directory, const std::string& text) {
  return Start([&](int ready) { return RunIngest(kind, directory, text, ready); });
}

// Its exit code; -1 when it was killed.
int Join(const Child& child) {
  int status = 0;
  waitpid(child.pid, &status, 0);
  close(child.ready);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What the store in `directory` holds; empty when it could not be read.
std::string Dump(const Kind& kind, const std::string& directory) {
  const std::string path = directory + ".dump";
  const pid_t pid = fork();
  if (pid == 0) {
    auto store = OpenStore(directory);
    if (store == nullptr) _exit(2);
    const bool chunks = kind.documents == DocumentKind::kChunks;
    WriteFile(path, DumpDocument(*store, "book", chunks ? TinyConfig().key_width() : 0));
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  return status == 0 ? ReadFile(path) : "";
}

class IngestKillTest : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, IngestKillTest,
                         ::testing::Values(Kind{"Chunks", DocumentKind::kChunks, 60, 80000},
                                           Kind{"Prefix", DocumentKind::kPrefix, 20, 30000},
                                           Kind{"Text", DocumentKind::kText, 20, 200000}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(IngestKillTest, ResumedEqualsUninterrupted) {
  const Kind kind = GetParam();
  const std::string text = BookText(kind.text_bytes);
  ASSERT_GT(text.size(), kind.text_bytes / 2) << "is xz installed?";
  const std::string base = ::testing::TempDir() + "/ingest_kill";
  std::filesystem::remove_all(base);
  const auto directory = [&](int i) { return base + "/" + std::to_string(i); };
  std::filesystem::create_directories(base);

  const auto begin = std::chrono::steady_clock::now();
  const Child whole = Start(kind, directory(0), text);
  ASSERT_EQ(Join(whole), 0);
  const double whole_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  std::mt19937_64 random(20);
  std::uniform_real_distribution<double> fraction(0, 1);
  int kills = 0, documents = 1;
  while (kills < kind.kills) {
    const Child child = Start(kind, directory(documents), text);
    // Mostly somewhere in the ingest, sometimes while the database opens.
    char ready;
    const bool wait = fraction(random) < 0.9;
    if (wait && read(child.ready, &ready, 1) != 1) FAIL() << "exit code " << Join(child);
    const double after_s = fraction(random) * whole_s / 8;
    std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
    kill(child.pid, SIGKILL);
    const int code = Join(child);
    if (code == -1) {
      ++kills;
      continue;
    }
    ASSERT_EQ(code, 0);
    ++documents;  // finished before it was killed: another one
  }
  ASSERT_EQ(Join(Start(kind, directory(documents), text)), 0);

  const std::string expected = Dump(kind, directory(0));
  ASSERT_GT(expected.size(), text.size());
  for (int i = 1; i <= documents; ++i)
    EXPECT_TRUE(Dump(kind, directory(i)) == expected) << "document " << i;
  printf("%d kills, %d documents of %zu bytes\n", kills, documents, text.size());
  std::filesystem::remove_all(base);
}

TEST_P(IngestKillTest, AnAppendLeavesTheShorterDocumentOrTheLongerOne) {
  const Kind kind = GetParam();
  const std::string books = BookText(kind.text_bytes),
                    text = books.substr(0, books.find('\n', kind.text_bytes / 2));
  const size_t size = text.find('\n', text.size() / 2) + 3;  // within a line
  ASSERT_LT(size, text.size()) << "is xz installed?";
  const std::string base = ::testing::TempDir() + "/append_kill";
  std::filesystem::remove_all(base);
  std::filesystem::create_directories(base);
  const std::string directory = base + "/parts";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(Join(Start(kind, base + "/whole", text)), 0);
  const double whole_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(Join(Start(kind, directory, text.substr(0, size))), 0);
  const auto append = [&] {
    return Start([&](int ready) { return RunAppend(kind, directory, text, size, ready); });
  };
  std::mt19937_64 random(21);
  std::uniform_real_distribution<double> fraction(0, 1);
  for (int kills = 0; kills < kind.kills / 10; ++kills) {
    const Child child = append();
    char ready;
    if (fraction(random) < 0.9 && read(child.ready, &ready, 1) != 1) {
      ASSERT_EQ(Join(child), 0) << "the longer one is there";
      break;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(fraction(random) * whole_s / 8));
    kill(child.pid, SIGKILL);
    const int code = Join(child);
    ASSERT_TRUE(code == -1 || code == 0) << code;
  }
  ASSERT_EQ(Join(append()), 0);
  EXPECT_TRUE(Dump(kind, directory) == Dump(kind, base + "/whole"));
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace recollect::engine
