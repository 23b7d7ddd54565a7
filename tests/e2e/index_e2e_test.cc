// serve --index ivf with the real program: kills in the middle of making an index, and restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/e2e/server_testing.h"
#include "tests/support/eventually.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

class IndexE2eTest : public ServerTest {
 protected:
  void StartWithIndex(const std::string& index) {
    std::vector<std::string> arguments = Serve(Path("model"), "auto");
    arguments.insert(arguments.end(), {"--index", index});
    Start(arguments);
  }

  // No two chunks of it are alike: equal scores could come in another order.
  static std::string Numbers(int count) {
    std::mt19937_64 random(1);
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string(random() % 1000000) + " whales, ";
    return text;
  }

  // So many hits that all keys are scored, with an index too.
  std::string Hits() {
    v1::RetrieveRequest request;
    request.mutable_session()->add_mounts("d");
    request.mutable_query()->set_text("under a grey ship");
    request.set_k(1024);
    const auto found = client_->Retrieve(request);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return "";
    std::string hits;
    for (const v1::Hit& hit : found->retrievals(0).hits()) {
      hits += std::to_string(hit.chunk()) + " " + std::to_string(hit.score()) + "\n";
    }
    return hits;
  }
};

TEST_F(IndexE2eTest, KilledWhileItIsMadeAnIndexIsMadeAfterwards) {
  StartWithIndex("exact");
  const auto info = client_->IngestText("d", client::ReadFrom(Numbers(80000)));
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_GE(info->chunks(), 4096) << "fewer get no index";
  const std::string hits = Hits();
  EXPECT_EQ(client_->GetStats()->index(), "exact");
  EXPECT_EQ(StopServer(), 0);
  for (int kill = 0; kill < 6; ++kill) {
    StartWithIndex("ivf");
    absl::SleepFor(absl::Milliseconds(60 * kill));  // at another moment each time
    server_->Signal(SIGKILL);
    client_.reset();
    server_->Wait();
  }
  // Whether the last one was killed before or after its index was written: there is one now.
  StartWithIndex("ivf");
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(Hits(), hits);
    return client_->GetStats()->indexed_documents() == 1;
  }));
  EXPECT_EQ(Hits(), hits);
  EXPECT_EQ(StopServer(), 0);
  StartWithIndex("ivf");
  EXPECT_EQ(Hits(), hits);
  EXPECT_EQ(client_->GetStats()->indexed_documents(), 1);
  EXPECT_EQ(client_->GetStats()->indexes_made(), 0);
  EXPECT_EQ(client_->GetStats()->data_loss_errors(), 0);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(IndexE2eTest, AnUnknownIndexIsRefusedByName) {
  const ProcessResult result = Run({"serve", "--model", Path("model"), "--index", "hnsw"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("hnsw"));
}

}  // namespace
}  // namespace recollect
