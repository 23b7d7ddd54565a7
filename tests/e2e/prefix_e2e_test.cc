// Prefixes on the real program, RocksDB and gRPC, with a golden RAT+ model: what survives restarts,
// kills and damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/server_testing.h"
#include "tests/support/eventually.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] = RECOLLECT_SOURCE_DIR "/tests/golden/ratplus/plain";

class PrefixE2eTest : public ServerTest {
 protected:
  static std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;  // of 80, the first three reserved
    uint64_t random = 1;
    while (static_cast<int64_t>(tokens.size()) < count) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      tokens.push_back(static_cast<int32_t>(3 + (random >> 33) % 77));
    }
    return tokens;
  }
  static v1::SessionOptions Pattern(int64_t dilation = 4) {
    v1::SessionOptions session;
    session.set_dilation(dilation);
    session.set_window(64);
    return session;
  }
  absl::StatusOr<client::GenerateResult> Ask(const v1::SessionOptions& session,
                                             const std::vector<int32_t>& prompt) {
    v1::GenerateRequest request;
    *request.mutable_session() = session;
    request.mutable_prompt()->mutable_tokens()->Assign(prompt.begin(), prompt.end());
    request.set_max_tokens(40);
    request.set_ignore_eos(true);
    return client_->Generate(request);
  }
  absl::StatusOr<client::GenerateResult> AskAfter(const std::string& mount,
                                                  v1::SessionOptions session = Pattern()) {
    session.add_mounts(mount);
    return Ask(session, {7, 8, 9});
  }
  std::vector<int32_t> Expected(std::vector<int32_t> document) {
    for (const int32_t id : {7, 8, 9}) document.push_back(id);
    return Ask(Pattern(), document).value().tokens;
  }
};

TEST_F(PrefixE2eTest, LifeOfAPrefix) {
  const std::vector<int32_t> tokens = Tokens(5000);
  StartServer(kModel);
  const auto document =
      client_->IngestTokens("doc", tokens, nullptr, {.session = Pattern()}).value();
  EXPECT_EQ(document.kind(), v1::DOCUMENT_KIND_PREFIX);
  EXPECT_EQ(document.tokens(), 5000);
  EXPECT_THAT(document.pattern(), HasSubstr("window 64, dilation 4"));
  // Of every fourth position, keys and values of 32 numbers in three layers.
  EXPECT_GT(document.state_bytes(), 5000 / 4 * 2 * 32 * 4 * 3);
  EXPECT_LT(document.state_bytes(), (5000 / 4 + 100) * 2 * 32 * 4 * 3);
  const std::vector<int32_t> expected = Expected(tokens);
  ASSERT_EQ(expected.size(), 40u);
  const auto before = AskAfter("doc").value();
  EXPECT_EQ(before.tokens, expected);
  EXPECT_EQ(before.done.usage().prompt_tokens(), 3);
  EXPECT_EQ(StopServer(), 0);

  StartServer(kModel);
  EXPECT_THAT(ready_, HasSubstr(" documents=1"));
  EXPECT_EQ(AskAfter("doc").value().tokens, expected);
  const v1::Stats stats = client_->GetStats().value();
  EXPECT_EQ(stats.prefix_mounts(), 1);
  EXPECT_EQ(stats.prefix_tokens(), 5000);
  EXPECT_EQ(stats.ingested_tokens(), 0);
  v1::SessionOptions other = Pattern();
  other.add_mounts("doc");
  other.set_window(65);
  const absl::Status refused = client_->OpenSession(other).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("window 64"), HasSubstr("window 65")));
  EXPECT_EQ(
      client_->IngestTokens("doc", tokens, nullptr, {.session = Pattern()})->created_unix_ms(),
      document.created_unix_ms());
  ASSERT_TRUE(client_->DeleteDocument("doc").ok());
  EXPECT_EQ(AskAfter("doc").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(PrefixE2eTest, AKilledIngestResumesAndEqualsAnUninterruptedOne) {
  const std::vector<int32_t> tokens = Tokens(60000);
  const v1::SessionOptions sparse = Pattern(64);
  StartServer(kModel);
  std::thread victim(
      [&] { (void)client_->IngestTokens("d", tokens, nullptr, {.session = sparse}); });
  const auto observer = client::Client::Connect(address_).value();
  int64_t committed = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto ingests = observer->ListIngests().value();
    if (ingests.empty()) return false;
    EXPECT_EQ(ingests.front().kind(), v1::DOCUMENT_KIND_PREFIX);
    return (committed = ingests.front().committed_offset()) > 0;
  }));
  server_->Signal(SIGKILL);
  victim.join();
  server_->Wait();
  ASSERT_GT(committed, 0);
  ASSERT_LT(committed, static_cast<int64_t>(tokens.size()));

  StartServer(kModel);
  EXPECT_EQ(AskAfter("d", sparse).status().code(), absl::StatusCode::kNotFound);
  std::vector<int32_t> other = tokens;
  other[static_cast<size_t>(committed / 2)] ^= 1;
  EXPECT_EQ(client_->IngestTokens("d", other, nullptr, {.session = sparse}).status().code(),
            absl::StatusCode::kAlreadyExists);
  const auto resumed = client_->IngestTokens("d", tokens, nullptr, {.session = sparse});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_LE(client_->GetStats()->ingested_tokens(),
            static_cast<int64_t>(tokens.size()) - committed);
  const auto whole = client_->IngestTokens("e", tokens, nullptr, {.session = sparse}).value();
  EXPECT_EQ(resumed->tokens(), whole.tokens());
  EXPECT_EQ(resumed->state_bytes(), whole.state_bytes());
  EXPECT_EQ(AskAfter("d", sparse).value().tokens, AskAfter("e", sparse).value().tokens);
  EXPECT_EQ(StopServer(), 0);
}

// Whatever byte is damaged: the right tokens (when the byte was not needed), or an error; never
// other tokens.
TEST_F(PrefixE2eTest, AFlippedByteIsDataLossNeverTokens) {
  StartServer(kModel);
  ASSERT_TRUE(client_->IngestTokens("d", Tokens(5000), nullptr, {.session = Pattern()}).ok());
  const std::vector<int32_t> expected = AskAfter("d").value().tokens;
  EXPECT_EQ(StopServer(), 0);
  const std::string biggest = LargestDataFile();
  ASSERT_FALSE(biggest.empty());
  const std::string intact = ReadFile(biggest);
  int data_loss = 0;
  for (int i = 1; i < 6; ++i) {
    std::string damaged = intact;
    damaged[damaged.size() * i / 6] ^= 0x10;
    WriteFile(biggest, damaged);
    StartServer(kModel);
    const auto result = AskAfter("d");
    if (result.ok()) {
      EXPECT_EQ(result->tokens, expected) << "byte " << i << "/6";
    } else {
      EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss) << result.status();
      EXPECT_THAT(std::string(result.status().message()),
                  AllOf(HasSubstr("document \"d\""), HasSubstr("state part")));
      ++data_loss;
    }
    EXPECT_TRUE(Ask(Pattern(), {5}).ok());  // the server goes on
    EXPECT_EQ(StopServer(), 0);
  }
  EXPECT_GT(data_loss, 0);
}

}  // namespace
}  // namespace recollect
