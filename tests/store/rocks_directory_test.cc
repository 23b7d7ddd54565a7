// What opening a data directory refuses, and that it then changes nothing: whose the directory is,
// damage that would hide what was published, and who may read it.
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "base/io/log.h"
#include "rocksdb/db.h"
#include "store/rocks/db/head.h"
#include "store/rocks/rocks_store.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;
using ::absl::StatusCode;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const std::string& directory,
                                                    bool accept_data_loss = false) {
  RocksOptions options;
  options.directory = directory;
  options.sync_commits = false;
  options.accept_data_loss = accept_data_loss;
  return OpenRocksStore(options);
}

std::string NameOfCurrentManifest(const std::string& directory) {
  std::string name = ReadFile(directory + "/CURRENT");
  name.pop_back();
  return name;
}

TEST(RocksDirectoryTest, OneOfSomebodyElseIsRefusedAndLeftAsItIs) {
  for (const char* name : {"000009.sst", "letters.txt", "000003.log", "CURRENT"}) {
    TempDir dir;
    WriteFile(dir.path() + "/" + name, "somebody's");
    const auto before = Files(dir.path());
    const auto store = Open(dir.path());
    EXPECT_THAT(store, StatusIs(StatusCode::kFailedPrecondition, dir.path()));
    EXPECT_THAT(store, StatusIs(StatusCode::kFailedPrecondition, name));
    EXPECT_EQ(Files(dir.path()), before);
    EXPECT_FALSE(fs::exists(dir.path() + "/LOCK"));
  }
}

// The default data directory has the default folder of added models.
TEST(RocksDirectoryTest, AddedModelsMayBeInIt) {
  TempDir dir;
  fs::create_directory(dir.path() + "/models");
  WriteFile(dir.path() + "/models/file", "a model's");
  for (int start = 0; start < 2; ++start) EXPECT_THAT(Open(dir.path()), IsOk()) << start;
  EXPECT_EQ(ReadFile(dir.path() + "/models/file"), "a model's");
}

TEST(RocksDirectoryTest, AnotherProgramsDatabaseIsRefused) {
  TempDir dir;
  rocksdb::DB* db = nullptr;
  rocksdb::Options options;
  options.create_if_missing = true;
  ASSERT_TRUE(rocksdb::DB::Open(options, dir.path(), &db).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "key", "value").ok());
  delete db;
  const auto before = Files(dir.path());
  EXPECT_THAT(Open(dir.path()), StatusIs(StatusCode::kFailedPrecondition, "CURRENT"));
  EXPECT_EQ(Files(dir.path()), before);
}

TEST(RocksDirectoryTest, IsMadeBelowTheWorkingDirectoryToo) {
  TempDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  for (const char* name : {"data", "slash/", "./here", "above/below"}) {
    EXPECT_TRUE(Open(name).ok()) << name;
    EXPECT_TRUE(fs::is_directory(dir.path() + "/" + name)) << name;
  }
  fs::current_path(before);
}

TEST(RocksDirectoryTest, OnlyItsOwnerMayEnterOneThatIsMade) {
  TempDir dir;
  for (const std::string& name : {dir.path() + "/a/b", dir.path() + "/c/"}) {
    ASSERT_THAT(Open(name), IsOk());
    struct stat info = {};
    ASSERT_EQ(stat(name.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0700u) << name;
  }
}

TEST(RocksDirectoryTest, OneThatOthersMayEnterIsWarnedOf) {
  TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  testing::internal::CaptureStderr();
  ASSERT_THAT(Open(dir.path()), IsOk());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(dir.path()));
  EXPECT_THAT(log, HasSubstr("0755"));
}

// A directory in which "first" is in tables, "second" and the deletion of "gone" in the log: a copy
// made while the store is open, as a crash would leave it.
class RocksCrashedTest : public testing::Test {
 protected:
  void SetUp() override {
    {
      auto store = Open(live_.path());
      ASSERT_THAT(store, IsOk());
      ASSERT_THAT(Ingest(**store, "first", &first_, 2, 20, 500, 5000), IsOk());
      ASSERT_THAT(Ingest(**store, "gone", &gone_, 1, 2, 50, 500), IsOk());
    }
    auto store = Open(live_.path());
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT(Ingest(**store, "second", &second_, 2, 20, 500, 5000), IsOk());
    ASSERT_THAT((*store)->Remove("gone"), IsOk());
    for (const auto& [name, bytes] : FilesAtRest(live_.path())) {
      WriteFile(path() + "/" + name, bytes);
      if (name.ends_with(".log") && bytes.size() > 5000) log_ = path() + "/" + name;
    }
    ASSERT_FALSE(log_.empty());
  }

  const std::string& path() const { return dir_.path(); }

  void ExpectWhole(bool accept_data_loss = false) {
    auto store = Open(path(), accept_data_loss);
    ASSERT_THAT(store, IsOk());
    const auto first = (*store)->Get("first"), second = (*store)->Get("second");
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    ExpectContent(**store, first->owner, first_);
    ExpectContent(**store, second->owner, second_);
    EXPECT_THAT((*store)->Get("gone"), StatusIs(StatusCode::kNotFound, "gone"));
  }

  // Changes a file (`change` takes its bytes and gives new ones; nothing: it goes); then opening is
  // DATA_LOSS with `fragment` and changes nothing, and the file put back makes all good.
  void ExpectRefused(const std::string& file, const std::string& fragment,
                     const std::function<std::optional<std::string>(std::string)>& change) {
    SCOPED_TRACE(file);
    const std::string good = ReadFile(file);
    const auto bad = change(good);
    if (bad) {
      WriteFile(file, *bad);
    } else {
      fs::remove(file);
    }
    const auto before = Files(path());
    const auto store = Open(path());
    EXPECT_THAT(store, StatusIs(StatusCode::kDataLoss, path()));
    EXPECT_THAT(store, StatusIs(StatusCode::kDataLoss, fragment));
    EXPECT_EQ(Files(path()), before);
    WriteFile(file, good);
    ExpectWhole();
  }

  TempDir live_, dir_;
  Content first_{.seed = 1, .width = 64}, second_{.seed = 2, .width = 64},
      gone_{.seed = 3, .width = 64};
  std::string log_;
};

TEST_F(RocksCrashedTest, WhatACrashLeavesIsOpened) { ExpectWhole(); }

TEST_F(RocksCrashedTest, MissingLogIsRefused) {
  ExpectRefused(log_, "2 documents after", [](const std::string&) { return std::nullopt; });
}

TEST_F(RocksCrashedTest, CutLogThatLosesADocumentIsRefused) {
  ExpectRefused(log_, "what was written last is missing",
                [](const std::string& log) { return log.substr(0, log.size() / 2); });
}

TEST_F(RocksCrashedTest, FlippedBitInTheLogIsRefused) {
  ExpectRefused(log_, "", [](std::string log) {
    log[log.size() / 3] = static_cast<char>(log[log.size() / 3] ^ 4);
    return log;
  });
}

// What the library takes for the end of what was written, and skips.
TEST_F(RocksCrashedTest, ZeroedBlockOfTheLogIsRefused) {
  ExpectRefused(log_, "", [](std::string log) {
    log.replace(log.size() / 2, 4096, 4096, '\0');
    return log;
  });
}

TEST_F(RocksCrashedTest, CutManifestIsRefused) {
  const std::string manifest = path() + "/" + NameOfCurrentManifest(path());
  ExpectRefused(manifest, "expected at least",
                [](const std::string& bytes) { return bytes.substr(0, bytes.size() - 1); });
}

TEST_F(RocksCrashedTest, FlippedBitInTheManifestIsRefused) {
  const std::string manifest = path() + "/" + NameOfCurrentManifest(path());
  ExpectRefused(manifest, "checksum", [](std::string bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return bytes;
  });
}

TEST_F(RocksCrashedTest, CurrentThatNamesAnotherManifestIsRefused) {
  const std::optional<std::string> others[] = {"", "MANIFEST-000001\n", "MANIFEST", "x\n", {}};
  for (const auto& other : others) {
    ExpectRefused(path() + "/CURRENT", NameOfCurrentManifest(path()),
                  [&](const std::string&) { return other; });
  }
}

TEST_F(RocksCrashedTest, DamagedHeadIsRefused) {
  ExpectRefused(path() + "/" + kHeadFile, kHeadFile, [](std::string bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return bytes;
  });
}

TEST_F(RocksCrashedTest, TableWithoutItsEndIsRefusedAndCostsWhatIsInItWhenAccepted) {
  const std::string table = TablesOf(path(), "text").at(0);
  ExpectRefused(table, table.substr(table.rfind('/')), [](std::string bytes) {
    return bytes.replace(bytes.size() - 100, 100, 100, '\0');
  });
  // Any of them may have the text of "first" by now: tables are merged while the store is open.
  for (const std::string& now : TablesOf(path(), "text")) {
    WriteFile(now, ReadFile(now).replace(fs::file_size(now) - 100, 100, 100, '\0'));
  }
  ASSERT_THAT(Open(path()), StatusIs(StatusCode::kDataLoss, "no file was changed"));
  SetLogLevel(LogLevel::kOff);
  auto store = Open(path(), /*accept_data_loss=*/true);
  SetLogLevel(LogLevel::kInfo);
  ASSERT_THAT(store, IsOk());
  const auto first = (*store)->Get("first");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT((*store)->ReadText(first->owner, 0, 1), StatusIs(StatusCode::kDataLoss, "first"));
  EXPECT_EQ(*(*store)->ReadTokens(first->owner, 0, 500),
            std::vector<int32_t>(first_.tokens.begin(), first_.tokens.begin() + 500));
  ASSERT_THAT((*store)->Remove("first"), IsOk());
  Content third{.seed = 4};
  EXPECT_THAT(Ingest(**store, "third", &third, 1, 2, 10, 100), IsOk());
}

TEST_F(RocksCrashedTest, AcceptedLossIsSaidAndTheRestGoesOn) {
  WriteFile(log_, ReadFile(log_).substr(0, 100));
  ASSERT_THAT(Open(path()), StatusIs(StatusCode::kDataLoss, "changes"));
  testing::internal::CaptureStderr();
  {
    auto store = Open(path(), /*accept_data_loss=*/true);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, HasSubstr("2 documents after"));
    ASSERT_THAT(store, IsOk());
    const auto first = (*store)->Get("first");
    ASSERT_THAT(first, IsOk());
    ExpectContent(**store, first->owner, first_);
    EXPECT_THAT((*store)->Get("second"), StatusIs(StatusCode::kNotFound, "second"));
    Content third{.seed = 4};
    EXPECT_THAT(Ingest(**store, "third", &third, 1, 2, 10, 100), IsOk());
  }
  // Accepted once and for all.
  auto store = Open(path());
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Get("third"), IsOk());
}

}  // namespace
}  // namespace recollect::store::rocks
