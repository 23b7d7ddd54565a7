// Chunk states in MXINT8, beside those that are as the model computed them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/numeric/mxint8.h"
#include "gmock/gmock.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

class ChunkStatesFormatTest : public ::testing::Test {
 protected:
  std::unique_ptr<EngineImpl> EngineOf(ChunkStatesFormat format) {
    TestOptions options = SmallOptions();
    options.chunk_states_format = format;
    return MakeEngine(options, std::make_unique<ForwardingStore>(store_));
  }
  std::vector<store::ChunkRecord> Records(const store::DocumentInfo& info) {
    std::vector<store::ChunkRecord> records;
    for (int64_t i = 0; i < info.chunks; ++i) {
      const ChunkRef ref{info.owner, i};
      records.push_back(*store_->ReadChunks({&ref, 1})[0]);
    }
    return records;
  }

  const std::shared_ptr<const model::CpuModel> model_ = TinyModelForTest();
  const std::shared_ptr<store::DocumentStore> store_ = store::CreateMemoryStore();
};

std::vector<model::EncodedChunk> Rounded(std::vector<model::EncodedChunk> chunks) {
  for (model::EncodedChunk& chunk : chunks) RoundToMxInt8(chunk.states);
  return chunks;
}

TEST_F(ChunkStatesFormatTest, AnIngestKeepsRoundedStatesAndWholeKeys) {
  const std::vector<int32_t> tokens = SampleTokens(700, 11);
  const auto small = IngestTokens(*EngineOf(ChunkStatesFormat::kMxInt8), "small", tokens);
  const auto whole = IngestTokens(*EngineOf(ChunkStatesFormat::kBf16), "whole", tokens);
  ASSERT_THAT(small, IsOk());
  ASSERT_THAT(whole, IsOk());
  const std::vector<model::EncodedChunk> expected = IngestReference(*model_, tokens);
  const std::vector<store::ChunkRecord> rounded = Records(*small), exact = Records(*whole);
  ASSERT_EQ(rounded.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<Bf16> states = expected[i].states;
    EXPECT_EQ(exact[i].states, states);
    EXPECT_FALSE(exact[i].mxint8);
    RoundToMxInt8(states);
    EXPECT_NE(states, expected[i].states);
    EXPECT_EQ(rounded[i].states, states);
    EXPECT_TRUE(rounded[i].mxint8);
    EXPECT_EQ(rounded[i].tokens, exact[i].tokens);
  }
  const int64_t width = model_->config().key_width();
  EXPECT_EQ(*store_->ReadLandmarkKeys(small->owner, small->chunks, width),
            *store_->ReadLandmarkKeys(whole->owner, whole->chunks, width));
  EXPECT_LT(small->stored_bytes, whole->stored_bytes);
}

TEST_F(ChunkStatesFormatTest, DocumentsOfBothKindsAreReadTogether) {
  const std::vector<int32_t> first = SampleTokens(700, 11), second = SampleTokens(500, 12);
  ASSERT_THAT(IngestTokens(*EngineOf(ChunkStatesFormat::kMxInt8), "first", first), IsOk());
  auto engine = EngineOf(ChunkStatesFormat::kBf16);
  ASSERT_THAT(IngestTokens(*engine, "second", second), IsOk());
  const std::vector<int32_t> prompt = SampleTokens(300, 13);
  const Generated generated = Generate(*engine, TokensRequest(prompt, 80, {"first", "second"}));
  ASSERT_THAT(generated.status, IsOk());
  SequenceLayout layout(model_->config());
  layout.Add(prompt);
  layout.Flush();
  layout.Add(generated.tokens);
  const ReferenceResult reference = RunReference(
      *model_,
      {.pattern = model_->config().local,
       .blocks = layout.blocks(),
       .mounted = {Rounded(IngestReference(*model_, first)), IngestReference(*model_, second)}});
  EXPECT_EQ(generated.tokens, GreedyTokens(*model_, reference, layout, 80));
}

// The chunks that were written before stay as they are.
TEST_F(ChunkStatesFormatTest, AnIngestGoesOnInTheOtherFormat) {
  const std::string text = SampleText(12000, 9);
  {
    auto engine = EngineOf(ChunkStatesFormat::kBf16);
    const auto stream = *engine->BeginIngest("d", /*from_tokens=*/false, {});
    ASSERT_THAT(Append(*stream, 0, text.substr(0, 6000)).status(), IsOk());
  }
  const auto info = Ingest(*EngineOf(ChunkStatesFormat::kMxInt8), "d", text);
  ASSERT_THAT(info, IsOk());
  const std::vector<store::ChunkRecord> records = Records(*info);
  const auto small = [](const store::ChunkRecord& record) { return record.mxint8; };
  EXPECT_TRUE(std::is_partitioned(records.rbegin(), records.rend(), small));
  EXPECT_FALSE(small(records.front()));
  EXPECT_TRUE(small(records.back()));
}

}  // namespace
}  // namespace recollect::engine
