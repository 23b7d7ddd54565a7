// The reader of a memory adapter: what its oracle, train/memory/reader.py, says of the golden
// question's blocks (tests/golden/memory).
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "model/cpu/cpu_model.h"
#include "model/reading.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/model/oracle_case.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::SizeIs;

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteTinyAdapter(directory_); }
  static OracleCase Case() {
    return {{}, SafetensorsFile::Open(TinyAdapterGolden() + "/reader_case.safetensors").value()};
  }
  // The reading of the golden question's blocks.
  Reading Read(DType dtype) const {
    const auto model = CpuModel::Load(directory_, dtype).value();
    const OracleCase golden = Case();
    const nlohmann::json text = nlohmann::json::parse(ReadFile(TinyAdapterGolden() + "/case.json"));
    const std::vector<int32_t> question =
        *model->tokenizer()->Encode(text["question"].get<std::string>());
    const std::vector<float> rows = golden.Floats("rows"), states = golden.Floats("states");
    const std::vector<float> weights = golden.Floats("weights");
    const std::vector<int32_t> tokens = golden.Integers("tokens");
    const std::vector<int32_t> lengths = golden.Integers("lengths");
    const auto width = static_cast<size_t>(model->config().state_width());
    const auto most = static_cast<size_t>(model->config().chunk_tokens);
    kernels::OpContext ctx;
    const std::vector<Bf16> asked =
        model->AskReader(ctx, rows.data(), std::ssize(rows) / model->config().d);
    ReaderQuestion asks{asked, question, {}};
    std::vector<Memory> memories;
    for (size_t block = 0; block < lengths.size(); ++block) {
      const auto length = static_cast<size_t>(lengths[block]);
      std::vector<Bf16> stored;
      std::transform(&states[block * most * width], &states[block * most * width] + length * width,
                     std::back_inserter(stored), Bf16::FromFloat);
      memories.push_back(model->ProjectMemory(ctx, stored, lengths[block]));
    }
    for (size_t block = 0; block < lengths.size(); ++block) {
      const auto own = std::span(tokens).subspan(block * most, static_cast<size_t>(lengths[block]));
      asks.blocks.push_back({memories[block].reader_rows.data(), own, weights[block]});
    }
    std::vector<std::vector<TokenScores>> scores;
    for (const ReaderBlock& block : asks.blocks)
      scores.push_back(model->ReadBlock(ctx, asks, block));
    return MakeReading(model->config().adapter.reader, scores);
  }

  const std::string directory_ = ::testing::TempDir() + "/reader";
};

TEST_F(ReaderTest, ReadsAsTheOracleDoes) {
  const OracleCase golden = Case();
  const std::vector<int32_t> spans = golden.Integers("spans");
  const std::vector<float> logprobs = golden.Floats("logprobs");
  const Reading reading = Read(DType::kFloat32);
  ASSERT_THAT(reading.spans, SizeIs(logprobs.size()));
  for (size_t i = 0; i < logprobs.size(); ++i) {
    EXPECT_THAT(std::vector<int32_t>({static_cast<int32_t>(reading.spans[i].block),
                                      reading.spans[i].first, reading.spans[i].last}),
                ElementsAre(spans[3 * i], spans[3 * i + 1], spans[3 * i + 2]))
        << i;
    EXPECT_NEAR(reading.spans[i].logprob, logprobs[i], 1e-3) << i;
  }
  EXPECT_NEAR(reading.nothing, golden.Floats("nothing").front(), 1e-3);
}

TEST_F(ReaderTest, ReadsNearlyTheSameInBf16) {
  if (!CpuModel::Load(directory_, DType::kBf16).ok()) GTEST_SKIP() << "no bf16 here";
  const Reading exact = Read(DType::kFloat32), rounded = Read(DType::kBf16);
  EXPECT_NEAR(rounded.nothing, exact.nothing, 0.1);
  EXPECT_NEAR(rounded.spans.front().logprob, exact.spans.front().logprob, 0.1);
}

TEST(ReadingTest, SpansShareNoTokenAndTheLikeliestComeFirst) {
  const ReaderConfig config{.width = 1, .span_tokens = 2, .spans = 3};
  const std::vector<std::vector<TokenScores>> scores = {
      {{.begins = 5, .ends = 0}, {.begins = 4, .ends = 6}, {.begins = 0, .ends = 7}},
      {{.begins = 3, .ends = 3}}};
  const Reading reading = MakeReading(config, scores);
  // Begins at 0 and ends at 2 is likeliest, and too long.
  ASSERT_THAT(reading.spans, SizeIs(3));
  EXPECT_THAT(reading.spans[0], FieldsAre(0u, 0, 1, ::testing::_));
  EXPECT_THAT(reading.spans[1], FieldsAre(0u, 2, 2, ::testing::_));
  EXPECT_THAT(reading.spans[2], FieldsAre(1u, 0, 0, ::testing::_));
  EXPECT_GT(reading.spans[0].logprob, reading.spans[1].logprob);
  // Over the same scores, ln of both softmaxes.
  EXPECT_NEAR(reading.spans[0].logprob - reading.nothing, 11, 1e-5);
}

}  // namespace
}  // namespace recollect::model
