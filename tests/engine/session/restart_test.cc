// The engine on RocksDB: what was there before a restart gives the same tokens after it.
#include <filesystem>

#include "gtest/gtest.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {
namespace {

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : directory_(::testing::TempDir() + "/restart") {
    std::filesystem::remove_all(directory_);
  }
  ~RestartTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<EngineImpl> Open() {
    store::RocksOptions options;
    options.directory = directory_;
    auto store = store::OpenRocksStore(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return MakeEngine(SmallOptions(), *std::move(store));
  }

  const std::string directory_;
};

GenerateRequest Ask() {
  GenerateRequest request;
  request.session_options.mounts = {"book", "notes"};
  request.prompt.tokens = SampleTokens(200, 9);
  request.max_tokens = 150;
  request.ignore_eos = true;
  return request;
}

TEST_F(RestartTest, SameTokensWarmColdAndRestarted) {
  std::vector<int32_t> expected;
  std::string text;
  {
    auto engine = Open();
    ASSERT_TRUE(Ingest(*engine, "book", SampleText(20000, 1)).ok());
    ASSERT_TRUE(Ingest(*engine, "notes", SampleText(3000, 2)).ok());
    expected = Generate(*engine, Ask()).tokens;
    ASSERT_EQ(expected.size(), 150u);
    EXPECT_EQ(Generate(*engine, Ask()).tokens, expected);
    engine->tiers_for_test().Drop();
    EXPECT_EQ(Generate(*engine, Ask()).tokens, expected);
  }
  auto engine = Open();
  EXPECT_EQ(Generate(*engine, Ask()).tokens, expected);
  EXPECT_EQ(engine->ListDocuments("", 10)->size(), 2u);
  // The same content in memory only.
  auto memory = MakeEngine();
  ASSERT_TRUE(Ingest(*memory, "book", SampleText(20000, 1), 777).ok());
  ASSERT_TRUE(Ingest(*memory, "notes", SampleText(3000, 2), 1).ok());
  EXPECT_EQ(Generate(*memory, Ask()).tokens, expected);
}

TEST_F(RestartTest, ADocumentDeletedWhileMountedIsGoneAfterwards) {
  {
    auto engine = Open();
    ASSERT_TRUE(Ingest(*engine, "book", SampleText(9000, 1)).ok());
    const SessionId session = *engine->OpenSession({.mounts = {"book"}});
    ASSERT_TRUE(engine->DeleteDocument("book").ok());
    GenerateRequest request = Ask();
    request.session_options = {};
    request.session = session;
    ASSERT_TRUE(Generate(*engine, request).status.ok());
  }
  auto engine = Open();
  EXPECT_TRUE(engine->ListDocuments("", 10)->empty());
  EXPECT_TRUE(Ingest(*engine, "book", SampleText(9000, 3)).ok());
}

}  // namespace
}  // namespace recollect::engine
