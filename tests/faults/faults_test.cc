// Random damage to the files of a data directory with known documents, and what must hold when it
// is opened again: every published document is there, bit for bit, or DATA_LOSS is said; a deleted
// one is gone; a refusal changes no file, so that the file put back makes all good; and what is not
// damaged can be used, deleted and added to.
//
//   faults_test                                                      one round of every fault
//   RECOLLECT_FAULT_ROUNDS=20 RECOLLECT_FAULT_SEED=7 faults_test     more, and others
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "store/rocks/db/head.h"
#include "store/rocks/rocks_store.h"
#include "tests/faults/checker.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;

using Opened = absl::StatusOr<std::unique_ptr<DocumentStore>>;

Opened Open(const std::string& directory) {
  return OpenRocksStore({.directory = directory, .sync_commits = false});
}

enum Outcome { kWhole, kSaid, kRefused, kWrong, kOutcomes };
constexpr const char* kOutcomeNames[] = {"whole", "said", "refused", "WRONG"};

// Opens `directory`, of which `file` was damaged and had the bytes `good`.
Outcome Judge(const std::string& directory, const std::string& file, const std::string& good,
              Expected expected, const std::function<Opened(const std::string&)>& open,
              Problems* problems) {
  const auto before = Files(directory);
  auto store = open(directory);
  if (!store.ok()) {
    if (!absl::IsDataLoss(store.status())) problems->push_back(store.status().ToString());
    if (Files(directory) != before) problems->push_back("refused, and changed files");
    WriteFile(file, good);
    auto again = open(directory);
    Require(again.status(), "file put back", problems);
    if (again.ok() && !CheckStore(**again, expected, problems).empty()) {
      problems->push_back("file put back: damaged");
    }
    return problems->empty() ? kRefused : kWrong;
  }
  const std::vector<std::string> damaged = CheckStore(**store, expected, problems);
  WorkOn(**store, "x", damaged, &expected, problems);
  CheckStore(**store, expected, problems);
  store->reset();
  store = open(directory);
  Require(store.status(), "opened again", problems);
  if (store.ok()) {
    CheckStore(**store, expected, problems);
    WorkOn(**store, "y", {"x1"}, &expected, problems);
  }
  return !problems->empty() ? kWrong : damaged.empty() ? kWhole : kSaid;
}

// ---- Faults.

struct Damage {
  const char* name;
  // The bytes afterwards; nothing: the file goes.
  std::function<std::optional<std::string>(std::string bytes, std::mt19937_64& random)> apply;
};

const Damage kDamages[] = {
    {"flipped bit",
     [](std::string bytes, std::mt19937_64& random) -> std::optional<std::string> {
       // Half of them near the end, where tables keep what finds everything else, and logs what
       // was written last.
       const size_t span = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 400);
       char& byte = bytes[bytes.size() - 1 - random() % span];
       byte = static_cast<char>(byte ^ (1 << random() % 8));
       return bytes;
     }},
    {"cut",
     [](std::string bytes, std::mt19937_64& random) -> std::optional<std::string> {
       const size_t span = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 400);
       return bytes.substr(0, bytes.size() - 1 - random() % span);
     }},
    {"zeroed sector",
     [](std::string bytes, std::mt19937_64& random) -> std::optional<std::string> {
       const size_t at = random() % bytes.size() / 512 * 512;
       const size_t size = std::min<size_t>(bytes.size() - at, 4096);
       return bytes.replace(at, size, size, '\0');
     }},
    {"deleted",
     [](const std::string&, std::mt19937_64&) -> std::optional<std::string> { return {}; }},
};

// What kind of file it is; empty: none that is damaged here.
std::string KindOf(const std::string& name) {
  if (name.ends_with(".sst")) return "table";
  if (name.ends_with(".log")) return "log";
  for (const char* kind : {"MANIFEST", "CURRENT", "OPTIONS", kHeadFile}) {
    if (absl::StartsWith(name, kind)) return kind;
  }
  return "";
}

class FaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    seed_ = static_cast<uint64_t>(FromEnvironment("RECOLLECT_FAULT_SEED", 1));
    std::printf("RECOLLECT_FAULT_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    // Several tables a family, a document over two of them, and a deletion that is done.
    for (int life = 0; life < 3; ++life) {
      auto store = Open(live_.path());
      ASSERT_THAT(store, IsOk());
      for (const char* name : {"a", "b"}) Add(**store, absl::StrCat(name, life));
      if (life == 1) Remove(**store, "a0");
    }
    fs::copy(live_.path(), stopped_.path(), fs::copy_options::recursive);
    when_stopped_ = expected_;
    // More of it in the log, as a crash leaves it.
    auto store = Open(live_.path());
    ASSERT_THAT(store, IsOk());
    Add(**store, "c");
    Remove(**store, "b1");
    Add(**store, "d");
    size_t logged = 0;
    for (int more = 0; logged < 100000 && more < 50; ++more) {
      // The log is emptied when the space of a deleted document has come back: on a busy machine
      // that may be only now.
      if (more > 0) Add(**store, absl::StrCat("more", more));
      logged = 0;
      for (const auto& [name, bytes] : FilesAtRest(live_.path())) {
        if (name.ends_with(".log")) logged += bytes.size();
      }
    }
    for (const auto& [name, bytes] : FilesAtRest(live_.path())) {
      WriteFile(crashed_.path() + "/" + name, bytes);
    }
  }

  void Add(DocumentStore& store, const std::string& id) {
    Content content{.seed = 10 + expected_.documents.size(), .width = 64};
    ASSERT_THAT(Ingest(store, id, &content, 3, 8, 1000, 10000), IsOk());
    expected_.documents[id] = content;
  }
  void Remove(DocumentStore& store, const std::string& id) {
    ASSERT_THAT(store.Remove(id), IsOk());
    expected_.documents.erase(id);
    expected_.deleted.push_back(id);
  }

  uint64_t seed_ = 0;
  TempDir live_, stopped_, crashed_;
  Expected when_stopped_, expected_;
};

TEST_F(FaultsTest, NothingIsLostInSilence) {
  const int64_t rounds = FromEnvironment("RECOLLECT_FAULT_ROUNDS", 1);
  std::mt19937_64 random(seed_);
  std::map<std::string, std::array<int, kOutcomes>> table;
  for (const bool crashed : {false, true}) {
    const std::string& base = crashed ? crashed_.path() : stopped_.path();
    const Expected& expected = crashed ? expected_ : when_stopped_;
    std::map<std::string, std::vector<std::string>> files;
    for (const auto& [name, bytes] : Files(base)) {
      if (const std::string kind = KindOf(name); !kind.empty() && bytes.size() > 1) {
        files[kind].push_back(name);
      }
    }
    for (const auto& [kind, names] : files) {
      for (const Damage& damage : kDamages) {
        for (int64_t i = 0; i < rounds * (kind == "table" || kind == "log" ? 3 : 1); ++i) {
          TempDir copy;
          fs::copy(base, copy.path(), fs::copy_options::recursive);
          const std::string file = copy.path() + "/" + names[random() % names.size()];
          const std::string good = ReadFile(file);
          if (const auto bad = damage.apply(good, random)) {
            WriteFile(file, *bad);
          } else {
            fs::remove(file);
          }
          Problems problems;
          const Outcome outcome = Judge(copy.path(), file, good, expected, Open, &problems);
          const std::string row = absl::StrCat(crashed ? "crashed  " : "stopped  ", kind,
                                               std::string(10 - kind.size(), ' '), damage.name);
          ++table[row][outcome];
          for (const std::string& problem : problems) {
            ADD_FAILURE() << row << " " << i << " " << file << ": " << problem;
          }
        }
      }
    }
  }
  std::printf("%-36s", "");
  for (const char* name : kOutcomeNames) std::printf("%9s", name);
  for (const auto& [row, counts] : table) {
    std::printf("\n%-36s", row.c_str());
    for (const int count : counts) std::printf("%9d", count);
  }
  std::printf("\n");
}

// The checker sees what it is there to see.
TEST_F(FaultsTest, PlantedLossesAreFound) {
  const auto judge = [&](const std::function<Opened(const std::string&)>& open) {
    TempDir copy;
    fs::copy(crashed_.path(), copy.path(), fs::copy_options::recursive);
    const std::string file = copy.path() + "/CURRENT";
    Problems problems;
    const Outcome outcome = Judge(copy.path(), file, ReadFile(file), expected_, open, &problems);
    EXPECT_EQ(outcome == kWrong, !problems.empty());
    return problems.empty() ? "" : problems[0];
  };
  // Opens the store and then changes it behind the checker's back.
  const auto after = [](const std::function<void(DocumentStore&)>& change) {
    return [change](const std::string& directory) {
      auto store = Open(directory);
      if (store.ok()) change(**store);
      return store;
    };
  };
  Content other{.seed = 77, .width = 64}, twin{.seed = 78, .width = 64};
  EXPECT_EQ(judge(after([](DocumentStore&) {})), "");
  EXPECT_THAT(judge(after([](DocumentStore& store) { (void)store.Remove("c"); })),
              testing::HasSubstr("c: missing"));
  EXPECT_THAT(
      judge(after([&](DocumentStore& store) { (void)Ingest(store, "b1", &other, 1, 1, 1, 1); })),
      testing::HasSubstr("b1: deleted, and back"));
  EXPECT_THAT(judge(after([&](DocumentStore& store) {
                (void)store.Remove("d");
                (void)Ingest(store, "d", &twin, 3, 8, 1000, 10000);
              })),
              testing::HasSubstr("d: text: other content"));
  EXPECT_EQ(judge([](const std::string& directory) -> Opened {
              // There may be one table only, and the checker opens twice.
              for (const std::string& table : TablesOf(directory, "chunks")) fs::remove(table);
              return absl::DataLossError("refused");
            }),
            "refused, and changed files");
}

}  // namespace
}  // namespace recollect::store::rocks
