// A model of the family llama in the engine: its context, its ends, the token before a text.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/device/device_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"
#include "tests/engine/places.h"
#include "tests/kernels/device/test_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using nlohmann::json;

constexpr int64_t kContext = 128;  // of the tiny model
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class LlamaEngineTest : public ::testing::TestWithParam<Place> {
 protected:
  LlamaEngineTest() {
    if (GetParam() == Place::kDevice) device_ = kernels::OpenTestDevice();
  }
  void SetUp() override {
    if (GetParam() == Place::kDevice) RECOLLECT_SKIP_WITHOUT(device_);
    WriteTinyLlama(directory_);
  }

  std::unique_ptr<EngineImpl> Make() {
    auto model = model::CpuModel::Load(directory_);
    EXPECT_THAT(model, IsOk());
    model_ = std::shared_ptr<const model::CpuModel>(*std::move(model));
    TestOptions options = SmallOptions();
    if (device_ != nullptr) options.backend = DeviceBackend::Create(device_, *model_).value();
    return MakeEngine(options, nullptr, model_);
  }
  void Change(const std::string& file, const std::string& key, const json& value) const {
    json root = json::parse(ReadFile(directory_ + "/" + file));
    root[key] = value;
    WriteFile(directory_ + "/" + file, root.dump());
  }
  static std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(3 + 1237 * i % 4093));
    return tokens;
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/llama_engine_", static_cast<int>(GetParam()));
  std::shared_ptr<kernels::Device> device_;  // of engines that are made; null: the CPU
  std::shared_ptr<const model::CpuModel> model_;
};

TEST_P(LlamaEngineTest, AGenerationEndsWithTheContext) {
  auto engine = Make();
  // The last token is sampled from position 127 and does not run.
  const Generated generated = Generate(*engine, TokensRequest(Tokens(120), 50));
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.tokens.size(), 9u);
  EXPECT_EQ(generated.reason, FinishReason::kMaxTokens);
  EXPECT_THAT(Generate(*engine, TokensRequest(Tokens(kContext), 1)).status, IsOk());
  EXPECT_THAT(Generate(*engine, TokensRequest(Tokens(kContext + 1), 1)).status,
              StatusIs(kInvalid, "context: 129 tokens after 0, at most 128 in all"));
  EXPECT_THAT(Score(*engine, ScoreOf(Tokens(kContext + 1))),
              StatusIs(kInvalid, "at most 128 in all"));
}

TEST_P(LlamaEngineTest, TurnsOfASessionShareItsContext) {
  auto engine = Make();
  SessionOptions options;
  options.context = 50;
  const SessionId id = *engine->OpenSession(options);
  GenerateRequest turn = TurnRequest(id, Tokens(30), 10);
  ASSERT_THAT(Generate(*engine, turn).status, IsOk());
  // 39 positions, and the token that was sampled last.
  turn = TurnRequest(id, Tokens(11), 10);
  EXPECT_THAT(Generate(*engine, turn).status,
              StatusIs(kInvalid, "context: 12 tokens after 39, at most 50 in all"));
  turn = TurnRequest(id, Tokens(10), 10);
  const Generated last = Generate(*engine, turn);
  ASSERT_THAT(last.status, IsOk());
  EXPECT_EQ(last.tokens.size(), 1u);
  options.context = kContext + 1;
  EXPECT_THAT(engine->OpenSession(options),
              StatusIs(kInvalid, "context is 129, the checkpoint was trained with 128"));
}

TEST_P(LlamaEngineTest, AWindowGoesOnPastTheContext) {
  auto engine = Make();
  GenerateRequest request = TokensRequest(Tokens(3 * kContext), 20);
  request.session_options.window = 31;
  request.session_options.dilation = -1;
  request.session_options.initial = 4;
  const Generated generated = Generate(*engine, request);
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.tokens.size(), 20u);
}

TEST_P(LlamaEngineTest, AnyOfItsEndsEndsAnAnswer) {
  const Generated whole = Generate(*Make(), TokensRequest(Tokens(20), 12));
  ASSERT_THAT(whole.status, IsOk());
  // The first token that was not there before.
  size_t at = 1;
  const auto is_new = [&] {
    return std::find(whole.tokens.begin(), whole.tokens.begin() + static_cast<ptrdiff_t>(at),
                     whole.tokens[at]) == whole.tokens.begin() + static_cast<ptrdiff_t>(at);
  };
  while (at < whole.tokens.size() && !is_new()) ++at;
  ASSERT_LT(at, whole.tokens.size());
  Change("config.json", "eos_token_id", {2, whole.tokens[at]});
  GenerateRequest request = TokensRequest(Tokens(20), 12);
  request.ignore_eos = false;
  const Generated ended = Generate(*Make(), request);
  EXPECT_EQ(ended.reason, FinishReason::kEos);
  EXPECT_EQ(ended.tokens.size(), at);
  request.ignore_eos = true;
  EXPECT_EQ(Generate(*Make(), request).tokens, whole.tokens);
}

TEST_P(LlamaEngineTest, ATextBeginsWithTheTokenThatTheFilesAskFor) {
  Change("tokenizer_config.json", "add_bos_token", true);
  auto engine = Make();
  const std::string text = "The whale, the whale.";
  std::vector<int32_t> tokens = *model_->tokenizer()->Encode(text);
  GenerateRequest request = TokensRequest({}, 8);
  request.prompt = {.text = text, .tokens = {}};
  const Generated from_text = Generate(*engine, request);
  ASSERT_THAT(from_text.status, IsOk());
  EXPECT_NE(from_text.tokens, Generate(*engine, TokensRequest(tokens, 8)).tokens);
  tokens.insert(tokens.begin(), 1);
  EXPECT_EQ(from_text.tokens, Generate(*engine, TokensRequest(tokens, 8)).tokens);
  // Only before the first text of a session.
  const SessionId id = *engine->OpenSession({});
  request.session = id;
  ASSERT_THAT(Generate(*engine, request).status, IsOk());
  EXPECT_EQ(engine->GetSession(id)->positions, std::ssize(tokens) + 7);
  ASSERT_THAT(Generate(*engine, request).status, IsOk());
  EXPECT_EQ(engine->GetSession(id)->positions, 2 * (std::ssize(tokens) + 7));
}

INSTANTIATE_TEST_SUITE_P(Places, LlamaEngineTest, kPlaces, NameOfPlace);

}  // namespace
}  // namespace recollect::engine
