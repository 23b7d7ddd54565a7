// Prefixes on RocksDB: the same tokens after a restart, and what a damaged part costs.
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/session/prefix_testing.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrefixRestartTest : public PrefixTest {
 protected:
  PrefixRestartTest() : directory_(::testing::TempDir() + "/prefix_restart") {
    std::filesystem::remove_all(directory_);
  }
  ~PrefixRestartTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<store::DocumentStore> OpenStore() {
    store::RocksOptions options;
    options.directory = directory_;
    options.sync_commits = false;
    auto store = store::OpenRocksStore(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::unique_ptr<EngineImpl> Open() { return MakeEngine(SmallOptions(), OpenStore(), model_); }

  const std::string directory_;
};

TEST_F(PrefixRestartTest, SameTokensAfterARestart) {
  const std::vector<int32_t> tokens = SampleTokens(3000, 3);
  const auto patterns = PrefixPatterns();
  std::vector<std::vector<int32_t>> expected;
  {
    auto engine = Open();
    for (const auto& [name, options] : patterns) {
      ASSERT_TRUE(IngestTokens(*engine, name, Part(tokens, 0, 2900), options).ok());
      expected.push_back(Read(*engine, options, tokens, 30));
    }
  }
  auto engine = Open();
  EXPECT_EQ(engine->ListDocuments("", 10)->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, options] = patterns[i];
    const Generated after = Generate(*engine, After(name, options, Part(tokens, 2900, 3000), 30));
    ASSERT_TRUE(after.status.ok()) << after.status;
    EXPECT_EQ(after.tokens, expected[i]) << name;
  }
}

// A store whose parts of states are damaged, cut or of another state.
class DamagedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) override {
    absl::StatusOr<std::string> part = to_->ReadStatePart(owner, index);
    if (part.ok()) change(index, *part);
    return part;
  }
  std::function<void(int64_t, std::string&)> change = [](int64_t, std::string&) {};
};

// Under sound checksums: what a bug of a writer would leave. Never tokens, never a crash.
TEST_F(PrefixRestartTest, AStateThatDoesNotFitTogetherIsDataLoss) {
  auto owned = std::make_unique<DamagedStore>(OpenStore());
  DamagedStore& store = *owned;
  auto engine = MakeEngine(SmallOptions(), std::move(owned), model_);
  SessionOptions dense;
  dense.dilation = 1;
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(3000, 1), dense).ok());
  ASSERT_TRUE(Generate(*engine, After("doc", dense, {5}, 3)).status.ok());
  int64_t losses = 0;
  const auto expect = [&](const char* message) {
    const absl::Status status = Generate(*engine, After("doc", dense, {5}, 3)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("document \"doc\""), HasSubstr(message)));
    EXPECT_EQ(engine->stats().data_loss_errors, ++losses);
  };
  const auto in_part = [&](int64_t index, auto change) {
    store.change = [=](int64_t at, std::string& part) {
      if (at == index) change(part);
    };
  };
  in_part(0, [](std::string& part) { part[7] = '\x7f'; });  // a section of many bytes
  expect("a section of");
  in_part(0, [](std::string& part) { part[0] = static_cast<char>(part[0] - 1); });
  expect("malformed");
  in_part(0, [](std::string& part) { part[8] ^= 1; });
  expect("header, or that of another version");
  const size_t head = 8 + 4 + 4 * 8 + 4;                        // magic, pattern, layers
  in_part(0, [=](std::string& part) { part[head + 8] ^= 1; });  // the first layer is shorter
  expect("a layer is too long");
  in_part(0, [=](std::string& part) { part[head + 9] = '\x7f'; });  // or longer
  expect("malformed");
  in_part(0, [=](std::string& part) { part[head] = static_cast<char>(part[head] ^ 4); });
  expect("state");
  store.change = [](int64_t, std::string&) {};
  EXPECT_TRUE(Generate(*engine, After("doc", dense, {5}, 3)).status.ok());
}

}  // namespace
}  // namespace recollect::engine
