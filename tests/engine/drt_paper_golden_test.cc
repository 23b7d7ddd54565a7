// DRT as published in the engine against its oracle (tests/golden/README.md).
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "model/weights/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

// A session of the oracle's: documents, turns with and without a flush, and what follows.
class DrtPaperGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DrtPaperGoldenTest, SessionsGenerateTheOraclesTokens) {
  const std::string folder =
      absl::StrCat(RECOLLECT_SOURCE_DIR, "/tests/golden/families/", GetParam());
  auto model = model::CpuModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto file = model::SafetensorsFile::Open(folder + "/case.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto found = file->tensors().find("generated");
  ASSERT_NE(found, file->tensors().end());
  std::vector<int32_t> expected(static_cast<size_t>(found->second.bytes) / sizeof(int32_t));
  std::memcpy(expected.data(), found->second.data, expected.size() * sizeof(int32_t));

  auto engine = MakeEngine(SmallOptions(), nullptr, *std::move(model));
  const auto input = nlohmann::json::parse(ReadFile(folder + "/case.json"));
  SessionOptions options;
  for (const auto& document : input["documents"]) {
    options.mounts.push_back(absl::StrCat("doc", options.mounts.size()));
    ASSERT_TRUE(IngestTokens(*engine, options.mounts.back(), document).ok());
  }
  const SessionId session = *engine->OpenSession(options);
  std::vector<GenerateRequest> turns;
  for (const auto& event : input["events"]) {
    if (!event.contains("flush")) turns.push_back(TokensRequest(event["tokens"], 0));
    if (event.contains("flush")) turns.push_back(TokensRequest({}, 0));
    turns.back().flush = event.contains("flush");
    turns.back().session = session;
  }
  turns.back().flush = true;
  turns.back().max_tokens = std::ssize(expected);
  Generated generated;
  for (const GenerateRequest& turn : turns) {
    generated = Generate(*engine, turn);
    ASSERT_TRUE(generated.status.ok()) << generated.status;
  }
  EXPECT_EQ(generated.tokens, expected);
}

INSTANTIATE_TEST_SUITE_P(Cases, DrtPaperGoldenTest,
                         ::testing::Values("drt_paper_64", "drt_paper_flushes", "drt_paper_start",
                                           "drt_paper_as_flagship"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace recollect::engine
