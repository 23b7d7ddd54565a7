// DRT as published on the real program, RocksDB and gRPC, with a golden model: the oracle's tokens,
// before and after a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

constexpr char kCase[] = RECOLLECT_SOURCE_DIR "/tests/golden/families/drt_paper_flushes";

class DrtPaperE2eTest : public ServerTest {
 protected:
  // What the case's session says, turn by turn, with all its documents mounted.
  absl::StatusOr<std::vector<int32_t>> RunSession(int64_t tokens) {
    client::SessionOptions options;
    options.mounts = mounts_;
    ASSIGN_OR_RETURN(const client::Session session, client_->OpenSession(options));
    std::vector<client::GenerateRequest> turns;
    for (const auto& event : case_["events"]) {
      client::GenerateRequest& turn = turns.emplace_back();
      turn.session_id = session.id;
      turn.flush = event.contains("flush");
      turn.ignore_eos = true;
      turn.max_tokens = 0;
      if (!turn.flush) turn.prompt.tokens = event["tokens"].get<std::vector<int32_t>>();
    }
    turns.back().flush = true;
    turns.back().max_tokens = tokens;
    client::GenerateResult result;
    for (const client::GenerateRequest& turn : turns) {
      ASSIGN_OR_RETURN(result, client_->Generate(turn));
    }
    return result.tokens;
  }

  const nlohmann::json case_ = nlohmann::json::parse(ReadFile(std::string(kCase) + "/case.json"));
  std::vector<std::string> mounts_;
};

TEST_F(DrtPaperE2eTest, GeneratesTheOraclesTokens) {
  const auto file = model::SafetensorsFile::Open(std::string(kCase) + "/case.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const model::TensorInfo& generated = file->tensors().at("generated");
  std::vector<int32_t> expected(static_cast<size_t>(generated.bytes) / sizeof(int32_t));
  std::memcpy(expected.data(), generated.data, expected.size() * sizeof(int32_t));

  StartServer(kCase);
  for (const auto& document : case_["documents"]) {
    const auto tokens = document.get<std::vector<int32_t>>();
    mounts_.push_back(absl::StrCat("doc", mounts_.size()));
    const auto ingested = client_->IngestTokens(mounts_.back(), tokens);
    ASSERT_TRUE(ingested.ok()) << ingested.status();
    EXPECT_EQ(ingested->chunks, (std::ssize(tokens) + 62) / 63);
  }
  EXPECT_EQ(client_->GetModel()->architecture, "drt-paper");
  const auto before = RunSession(std::ssize(expected));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(*before, expected);
  EXPECT_EQ(StopServer(), 0);

  StartServer(kCase);
  EXPECT_THAT(ready_, HasSubstr(absl::StrCat(" documents=", mounts_.size())));
  const auto after = RunSession(std::ssize(expected));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after, expected);
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
