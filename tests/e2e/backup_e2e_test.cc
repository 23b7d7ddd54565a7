// The real program: backups while it serves, and what is restored from them.
#include <signal.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/server_testing.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class BackupE2eTest : public ServerTest {
 protected:
  void StartWithBackups() {
    std::vector<std::string> arguments = Serve(Path("model"), "fp32");
    arguments.insert(arguments.end(), {"--backup-dir", Path("backups")});
    Start(arguments);
  }
  void Ingest(const std::string& id, int words) {
    ASSERT_TRUE(client_->IngestText(id, client::ReadFrom(Text(words))).ok());
  }
  ProcessResult Backup(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "backup");
    arguments.insert(arguments.end(), {"--backup-dir", Path("backups"), "--json"});
    return Run(arguments);
  }
  // What is in a data directory, and what the model says to document `id` of it.
  nlohmann::json Documents(const std::string& data) const {
    return Json(
        Run({"docs", "list", "--model", Path("model"), "--data-dir", Path(data), "--json"}));
  }
  nlohmann::json Tokens(const std::string& data, const std::string& id) const {
    return Json(Run({"generate", "--model", Path("model"), "--data-dir", Path(data), "--dtype",
                     "fp32", "--mount", id, "--prompt", "under a grey ship", "--max-tokens", "30",
                     "--ignore-eos", "--json"}))["tokens"];
  }
  std::string Text(const std::string& data, const std::string& id) const {
    return Run({"docs", "text", id, "--model", Path("model"), "--data-dir", Path(data)}).out;
  }
  using CliTest::Text;
};

TEST_F(BackupE2eTest, WhatIsRestoredIsTheMomentOfTheBackup) {
  StartWithBackups();
  Ingest("a", 900);
  Ingest("b", 500);
  const auto made = Json(Run({"backup", "create", "--server", address_, "--json"}));
  EXPECT_EQ(made["number"], 1);
  EXPECT_EQ(made["documents"], 2);
  // Afterwards one is deleted and another comes.
  ASSERT_TRUE(client_->DeleteDocument("b").ok());
  Ingest("c", 700);
  EXPECT_EQ(Json(Run({"backup", "create", "--server", address_, "--json"}))["number"], 2);
  EXPECT_EQ(StopServer(), 0);
  const auto before = Tokens("data", "a");

  EXPECT_EQ(Json(Backup({"list"}))["backups"].size(), 2u);
  EXPECT_EQ(Json(Backup({"verify", "1"}))["documents"], 2);
  EXPECT_EQ(Json(Backup({"restore", "1", "--into", Path("first")}))["number"], 1);
  const auto first = Documents("first");
  ASSERT_EQ(first["documents"].size(), 2u);
  EXPECT_EQ(first["documents"][0]["id"], "a");
  EXPECT_EQ(first["documents"][1]["id"], "b");
  EXPECT_EQ(Text("first", "b"), Text(500));
  EXPECT_EQ(Tokens("first", "a"), before);
  // Without a number, the latest.
  EXPECT_EQ(Json(Backup({"restore", "--into", Path("second")}))["number"], 2);
  const auto second = Documents("second");
  ASSERT_EQ(second["documents"].size(), 2u);
  EXPECT_EQ(second["documents"][1]["id"], "c");
  EXPECT_FALSE(fs::exists(Path("second.restoring")));
  // The restored directory is one like any other, also for further backups.
  EXPECT_EQ(Json(Backup({"create", "--keep", "1", "--model", Path("model"), "--data-dir",
                         Path("second")}))["number"],
            3);
  const auto left = Json(Backup({"list"}))["backups"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["number"], 3);
}

TEST_F(BackupE2eTest, WrongUseIsRefused) {
  const auto none = Backup({"list"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("backups: has no backups"));
  EXPECT_THAT(Run({"backup", "list"}).err, HasSubstr("--backup-dir DIR"));
  StartServer(Path("model"));
  EXPECT_THAT(Run({"backup", "create", "--server", address_}).err,
              HasSubstr("start it with --backup-dir"));
  EXPECT_EQ(StopServer(), 0);
  EXPECT_THAT(Embedded({"backup", "create", "--backup-dir", Path("data/inside")}).err,
              HasSubstr("one is in the other"));
  EXPECT_THAT(Run({"backup", "create", "--model", Path("model"), "--data-dir",
                   ":memory:", "--backup-dir", Path("backups")})
                  .err,
              HasSubstr("makes no backups"));
  ASSERT_EQ(Embedded({"backup", "create", "--backup-dir", Path("backups")}).exit_code, 0);
  EXPECT_THAT(Backup({"restore", "7", "--into", Path("new")}).err,
              HasSubstr("has no backup 7; it has 1"));
  EXPECT_FALSE(fs::exists(Path("new")));
  EXPECT_THAT(Backup({"restore", "--into", Path("data")}).err, HasSubstr("in use or not empty"));
  // What is not of a restore is not touched.
  fs::create_directories(Path("cut.restoring"));
  File("cut.restoring/letter", "dear reader");
  EXPECT_THAT(Backup({"restore", "--into", Path("cut")}).err, HasSubstr("but it has letter"));
  EXPECT_TRUE(fs::exists(Path("cut.restoring/letter")));
  EXPECT_FALSE(fs::exists(Path("cut")));
}

TEST_F(BackupE2eTest, ADirectoryBesideAServerIsRefused) {
  StartWithBackups();
  Ingest("a", 300);
  for (const char* verb : {"create", "list", "verify"}) {
    const auto both = Backup({verb, "--server", address_});
    EXPECT_NE(both.exit_code, 0) << verb;
    EXPECT_THAT(both.err, HasSubstr("--server and --backup-dir exclude each other")) << verb;
  }
  EXPECT_FALSE(fs::exists(Path("backups")));
  // Of a server that only the environment names, the directory of the command line is another one.
  const std::vector<std::string> server = {"RECOLLECT_SERVER=" + address_};
  EXPECT_THAT(Run({"backup", "create", "--backup-dir", Path("backups")}, "", server).err,
              HasSubstr("unset RECOLLECT_SERVER"));
  ASSERT_EQ(Run({"backup", "create"}, "", server).exit_code, 0);
  // The server's own, by name and by the environment.
  const auto own = Json(Run({"backup", "list", "--server", address_, "--json"}));
  ASSERT_EQ(own["backups"].size(), 1u);
  EXPECT_EQ(own["backups"][0]["documents"], 1);
  EXPECT_EQ(Json(Run({"backup", "list", "--json"}, "", server)), own);
  EXPECT_EQ(Json(Run({"backup", "list", "--backup-dir", Path("backups"), "--json"}, "",
                     server))["backups"]
                .size(),
            1u);
  EXPECT_EQ(StopServer(), 0);
}

// At whatever file the process was: nobody takes half of a directory for a whole one, and the next
// restore goes through.
TEST_F(BackupE2eTest, KilledInTheMiddleOfARestore) {
  StartWithBackups();
  for (const char* id : {"a", "b", "c"}) Ingest(id, 1500);
  ASSERT_EQ(Run({"backup", "create", "--server", address_}).exit_code, 0);
  EXPECT_EQ(StopServer(), 0);
  const fs::path target = Path("new"), beside = Path("new.restoring");
  const auto entries = [&] {
    std::error_code gone;
    size_t count = fs::exists(beside, gone) ? 1 : 0;
    for (fs::directory_iterator it(beside / "unfinished", gone), end; !gone && it != end;
         it.increment(gone)) {
      ++count;
    }
    return count;
  };
  int cut = 0;
  for (size_t files = 1; files <= 12; ++files) {
    SCOPED_TRACE(files);
    BackgroundProcess restore({RECOLLECT_BINARY, "backup", "restore", "--backup-dir",
                               Path("backups"), "--into", target, "--json"});
    while (entries() < files && !fs::exists(target)) {
    }
    restore.Signal(SIGKILL);
    (void)restore.Wait();
    if (!fs::exists(target)) {
      ++cut;
      // Killed before there was anything, there is nothing to take for a whole one.
      fs::create_directories(beside / "unfinished");
      const auto opened = Run({"docs", "list", "--model", Path("model"), "--data-dir", beside});
      EXPECT_NE(opened.exit_code, 0);
      EXPECT_THAT(opened.err, HasSubstr("neither empty nor one of Recollect"));
      EXPECT_EQ(Json(Backup({"restore", "--into", target}))["documents"], 3);
      EXPECT_FALSE(fs::exists(beside));
    }
    EXPECT_EQ(Documents("new")["documents"].size(), 3u);
    fs::remove_all(target);
    fs::remove_all(beside);
  }
  EXPECT_GT(cut, 0);
}

TEST_F(BackupE2eTest, DamagedFilesAreFoundAndNotRestored) {
  StartWithBackups();
  Ingest("a", 900);
  ASSERT_EQ(Run({"backup", "create", "--server", address_}).exit_code, 0);
  EXPECT_EQ(StopServer(), 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(Path("backups"))) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  ASSERT_GE(files.size(), 4u);  // list, MANIFEST, CURRENT, tables
  for (const fs::path& file : files) {
    SCOPED_TRACE(file);
    const std::string whole = ReadFile(file);
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
    for (const std::string& changed : {flipped, whole.substr(0, whole.size() - 1)}) {
      WriteFile(file, changed);
      // The last byte of the list of files is a line end, whose absence changes nothing.
      const bool same = file.parent_path().filename() == "meta" && changed.size() < whole.size();
      const int verified = Backup({"verify"}).exit_code;
      const int restored = Backup({"restore", "--into", Path("new")}).exit_code;
      EXPECT_TRUE(same || verified != 0);
      EXPECT_EQ(restored == 0, verified == 0);
      EXPECT_EQ(fs::exists(Path("new")), restored == 0);
      EXPECT_FALSE(fs::exists(Path("new.restoring")));
      fs::remove_all(Path("new"));
    }
    fs::remove(file);
    EXPECT_NE(Backup({"verify"}).exit_code, 0);
    EXPECT_NE(Backup({"restore", "--into", Path("new")}).exit_code, 0);
    EXPECT_FALSE(fs::exists(Path("new")));
    WriteFile(file, whole);
  }
  EXPECT_EQ(Backup({"verify"}).exit_code, 0);
}

TEST_F(BackupE2eTest, KilledInTheMiddleOfABackup) {
  StartWithBackups();
  Ingest("a", 3000);
  ASSERT_EQ(Run({"backup", "create", "--server", address_}).exit_code, 0);
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    const std::string id = "r" + std::to_string(round);
    Ingest(id, 2000);
    BackgroundProcess backup({RECOLLECT_BINARY, "backup", "create", "--server", address_});
    std::this_thread::sleep_for(std::chrono::milliseconds(40 + 10 * round));
    server_->Signal(SIGKILL);
    (void)server_->Wait();
    (void)backup.Wait();
    client_.reset();
    // Whatever became of it, what is listed is whole, and the first is still there.
    const auto listed = Json(Backup({"list"}))["backups"];
    ASSERT_GE(listed.size(), 1u);
    for (const auto& each : listed) {
      EXPECT_EQ(Backup({"verify", std::to_string(each["number"].get<int>())}).exit_code, 0);
    }
    StartWithBackups();
    EXPECT_TRUE(client_->GetDocument(id).ok());
  }
  const auto last = Json(Run({"backup", "create", "--server", address_, "--json"}));
  EXPECT_EQ(last["documents"], 9);
  EXPECT_EQ(StopServer(), 0);
  EXPECT_EQ(Json(Backup({"restore", "--into", Path("new")}))["documents"], 9);
  EXPECT_EQ(Documents("new")["documents"].size(), 9u);
}

}  // namespace
}  // namespace recollect
