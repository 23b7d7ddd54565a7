// A data directory that an earlier release has written opens in this one: what is stored is there
// byte for byte, and gives the tokens that it gave then.
#include <filesystem>
#include <string>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/model.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/data_directory/golden_data.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// Of release 0.1.0.
constexpr char kRelease[] = "0.1.0";

class DataDirectoryTest : public ::testing::Test {
 protected:
  DataDirectoryTest()
      : directory_(::testing::TempDir() + "/data_directory_" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
    fs::copy(GoldenPath(std::string(kRelease) + "/data"), directory_, fs::copy_options::recursive);
    expected_ = json::parse(ReadFile(GoldenPath(std::string(kRelease) + "/expected.json")));
  }
  ~DataDirectoryTest() override { fs::remove_all(directory_); }

  json Read() const {
    store::RocksOptions options;
    options.directory = directory_;
    const auto store = store::OpenRocksStore(options);
    if (!store.ok()) return store.status().ToString();
    return Contents(**store, expected_["key_widths"]);
  }

  const std::string directory_;
  json expected_;
};

TEST_F(DataDirectoryTest, WhatIsStoredIsReadByteForByte) {
  ASSERT_EQ(expected_["contents"]["documents"].size(), 5u);
  ASSERT_EQ(expected_["contents"]["ingests"].size(), 1u);
  EXPECT_EQ(Read(), expected_["contents"]);
  // And again, after whatever the first opening may have changed.
  EXPECT_EQ(Read(), expected_["contents"]);
}

TEST_F(DataDirectoryTest, ChunksGiveTheOraclesTokens) {
  const GoldenCase golden = ChunksCase();
  const auto engine = OpenEngine(golden.model, directory_);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(RunSession(*engine, golden, {"chunks0", "chunks1", "chunks2"}), golden.generated);
}

TEST_F(DataDirectoryTest, APrefixGivesTheOraclesTokens) {
  const GoldenCase golden = PrefixCase();
  const auto engine = OpenEngine(golden.model, directory_);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(RunSession(*engine, golden, {"prefix"}), golden.generated);
}

TEST_F(DataDirectoryTest, AnIngestThatWasBrokenOffGoesOn) {
  const GoldenCase golden = ChunksCase();
  const std::vector<int32_t>& all = golden.documents[0];
  const json& before = expected_["contents"]["ingests"][0];
  const int64_t offset = before["input_offset"];
  ASSERT_GT(offset, 0);
  {
    const auto engine = OpenEngine(golden.model, directory_);
    ASSERT_NE(engine, nullptr);
    auto stream = engine->BeginIngest("unfinished", /*from_tokens=*/true, {});
    ASSERT_THAT(stream, IsOk());
    ASSERT_EQ((*stream)->status().committed_offset, offset);
    ASSERT_THAT(AppendTokens(**stream, offset, {all.begin() + offset, all.end()}), IsOk());
    const auto document = Finish(**stream);
    ASSERT_THAT(document, IsOk());
    EXPECT_EQ(document->tokens, std::ssize(all));
    // It is the same document as the first.
    EXPECT_EQ(RunSession(*engine, golden, {"unfinished", "chunks1", "chunks2"}), golden.generated);
  }
  const json after = Read();
  ASSERT_EQ(after["documents"].size(), 6u);
  EXPECT_EQ(after["documents"][5]["token_ids"], absl::StrJoin(all, " "));
  EXPECT_TRUE(after["ingests"].empty());
}

TEST_F(DataDirectoryTest, TheShippedModelAnswersOrNamesBothFingerprints) {
  const auto engine = OpenEngine(ShippedModel(), directory_);
  ASSERT_NE(engine, nullptr);
  const auto info = engine->GetDocument("text");
  ASSERT_THAT(info, IsOk());
  const std::string fingerprint(engine->model().fingerprint());
  if (info->fingerprint == fingerprint) {
    EXPECT_EQ(Answer(*engine, "text"), expected_["answer"]);
    EXPECT_THAT(Answer(*engine, "text"), HasSubstr("48213"));
    return;
  }
  // Another checkpoint is shipped by now: its documents have to be read again.
  const auto mounted = engine->OpenSession({.mounts = {"text"}});
  EXPECT_THAT(mounted.status(), StatusIs(absl::StatusCode::kFailedPrecondition, fingerprint));
  EXPECT_THAT(std::string(mounted.status().message()), HasSubstr(info->fingerprint));
}

TEST_F(DataDirectoryTest, IsWrittenOnByThisRelease) {
  const GoldenCase golden = ChunksCase();
  {
    const auto engine = OpenEngine(golden.model, directory_);
    ASSERT_NE(engine, nullptr);
    ASSERT_THAT(engine->DeleteDocument("chunks1"), IsOk());
    ASSERT_THAT(IngestTokens(*engine, "new", golden.documents[1]), IsOk());
    EXPECT_EQ(RunSession(*engine, golden, {"chunks0", "new", "chunks2"}), golden.generated);
  }
  const json after = Read();
  ASSERT_EQ(after["documents"].size(), 5u);
  EXPECT_EQ(after["documents"][0], expected_["contents"]["documents"][0]);
  EXPECT_EQ(after["documents"][1], expected_["contents"]["documents"][2]);
  EXPECT_EQ(after["documents"][2]["id"], "new");
}

}  // namespace
}  // namespace recollect::engine
