// The families beside the flagship on the real program, RocksDB and gRPC, with golden models: the
// oracle's tokens, before and after a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

// A folder of tests/golden, and of RAT+ which of its cases.
struct GoldenCase {
  std::string folder, asked = "";
};
std::string Name(const GoldenCase& golden) {
  const std::string name = golden.folder.substr(golden.folder.find('/') + 1);
  return golden.asked.empty() ? name : absl::StrCat("ratplus_", golden.asked);
}
void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << Name(golden); }

// What a case of RAT+ asks for: one number, or by layer and head.
v1::SessionOptions Asked(const json& asked) {
  v1::SessionOptions options;
  const auto read = [&](const char* name, auto set, auto& layers) {
    if (!asked.contains(name)) return;
    if (!asked[name].is_array()) return (options.*set)(asked[name].get<int64_t>());
    for (const json& layer : asked[name]) {
      const auto heads = layer.get<std::vector<int64_t>>();
      layers.Add()->mutable_heads()->Assign(heads.begin(), heads.end());
    }
  };
  read("dilation", &v1::SessionOptions::set_dilation, *options.mutable_layer_dilations());
  read("window", &v1::SessionOptions::set_window, *options.mutable_layer_windows());
  read("initial", &v1::SessionOptions::set_initial, *options.mutable_layer_initials());
  options.set_top_k_blocks(asked.value("top_k_blocks", 0));
  return options;
}

class FamiliesE2eTest : public ServerTest, public ::testing::WithParamInterface<GoldenCase> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    const std::string& asked = GetParam().asked;
    config_ = json::parse(ReadFile(folder_ + "/config.json"));
    const json input = json::parse(ReadFile(folder_ + "/case.json"));
    if (asked.empty()) {
      documents_ = input["documents"].get<std::vector<Tokens>>();
      events_ = input["events"];
    } else {
      events_[0]["tokens"] = input["tokens"];
      pattern_ = Asked(input["cases"][asked]);
    }
    const auto file = model::SafetensorsFile::Open(folder_ + "/case.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto generated =
        file->tensors().find(asked.empty() ? "generated" : absl::StrCat("generated.", asked));
    ASSERT_NE(generated, file->tensors().end());
    expected_.resize(static_cast<size_t>(generated->second.bytes) / sizeof(int32_t));
    std::memcpy(expected_.data(), generated->second.data, expected_.size() * sizeof(int32_t));
  }

  // The case's session, turn by turn, with what was ingested mounted.
  absl::StatusOr<Tokens> RunSession() {
    v1::SessionOptions options = pattern_;
    options.mutable_mounts()->Assign(mounts_.begin(), mounts_.end());
    ASSIGN_OR_RETURN(const v1::Session session, client_->OpenSession(options));
    std::vector<v1::GenerateRequest> turns;
    for (const auto& event : events_) {
      v1::GenerateRequest& turn = turns.emplace_back();
      turn.set_session_id(session.id());
      turn.set_flush(event.contains("flush"));
      turn.set_ignore_eos(true);
      turn.set_max_tokens(0);
      if (turn.flush()) continue;
      const auto tokens = event["tokens"].get<Tokens>();
      turn.mutable_prompt()->mutable_tokens()->Assign(tokens.begin(), tokens.end());
    }
    turns.back().set_flush(true);
    turns.back().set_max_tokens(std::ssize(expected_));
    client::GenerateResult result;
    for (const v1::GenerateRequest& turn : turns) {
      ASSIGN_OR_RETURN(result, client_->Generate(turn));
    }
    return result.tokens;
  }
  void ExpectTheOraclesTokens() {
    const auto tokens = RunSession();
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_EQ(*tokens, expected_);
  }

  // The first half of the only event as a document.
  void CutPrefix() {
    const auto tokens = events_[0]["tokens"].get<Tokens>();
    const auto middle = tokens.begin() + std::ssize(tokens) / 2;
    documents_ = {Tokens(tokens.begin(), middle)};
    events_[0]["tokens"] = Tokens(middle, tokens.end());
  }

  void Ingest(const Tokens& tokens) {
    mounts_.push_back(absl::StrCat("doc", mounts_.size()));
    const auto document =
        client_->IngestTokens(mounts_.back(), tokens, nullptr, {.session = pattern_});
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->kind(), landmarks() ? v1::DOCUMENT_KIND_CHUNKS : v1::DOCUMENT_KIND_PREFIX);
    const auto size = config_.value("chunk_tokens", std::ssize(tokens));
    EXPECT_EQ(document->chunks(), landmarks() ? (std::ssize(tokens) + size - 1) / size : 0);
  }

  bool landmarks() const { return config_.contains("lmk_id"); }
  // In the layout of Hugging Face: nothing of a document is a state.
  bool published() const { return config_.contains("model_type"); }

  const std::string folder_ =
      absl::StrCat(RECOLLECT_SOURCE_DIR, "/tests/golden/", GetParam().folder);
  json config_, events_;
  std::vector<Tokens> documents_;
  v1::SessionOptions pattern_;
  Tokens expected_;
  std::vector<std::string> mounts_;
};

TEST_P(FamiliesE2eTest, GeneratesTheOraclesTokens) {
  StartServer(folder_, "fp32");
  EXPECT_EQ(client_->GetModel()->architecture(),
            config_.value("architecture", published() ? "llama" : ""));
  if (!landmarks()) {
    // All of it read as a prompt; below the session begins with a document.
    ExpectTheOraclesTokens();
    if (!published()) CutPrefix();
  }
  for (const Tokens& tokens : documents_) ASSERT_NO_FATAL_FAILURE(Ingest(tokens));
  ExpectTheOraclesTokens();
  EXPECT_EQ(StopServer(), 0);

  StartServer(folder_, "fp32");
  EXPECT_THAT(ready_, HasSubstr(absl::StrCat(" documents=", documents_.size())));
  ExpectTheOraclesTokens();
  EXPECT_EQ(StopServer(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FamiliesE2eTest,
    ::testing::Values(GoldenCase{"ratplus/tokens", "dense"}, GoldenCase{"ratplus/tokens", "hybrid"},
                      GoldenCase{"ratplus/tokens", "blocks_and_ends"}, GoldenCase{"families/llama"},
                      GoldenCase{"families/rat"}, GoldenCase{"families/rat_swa"},
                      GoldenCase{"families/rattention_global"},
                      GoldenCase{"families/drt_paper_flushes"}, GoldenCase{"families/drt_paper_64"},
                      GoldenCase{"families/drt_paper_start"},
                      GoldenCase{"families/drt_paper_as_flagship"}),
    [](const auto& param) { return Name(param.param); });

}  // namespace
}  // namespace recollect
