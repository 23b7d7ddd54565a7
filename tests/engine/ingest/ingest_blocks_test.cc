// What an ingest writes does not depend on how it is cut, for each kind of blocks.
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "tests/engine/ingest/ingest_testing.h"
#include "tests/support/reference_sequence.h"

namespace recollect::engine {
namespace {

// Full blocks, such that end with sentences, and those of documents that are kept as text.
struct Blocks {
  const char* name;
  std::shared_ptr<const model::CpuModel> (*load)();
};

class IngestBlocksTest : public ::testing::TestWithParam<Blocks> {
 protected:
  bool text() const { return model_->config().documents() == DocumentKind::kText; }
  const std::shared_ptr<const model::CpuModel> model_ = GetParam().load();
};

INSTANTIATE_TEST_SUITE_P(Blocks, IngestBlocksTest,
                         ::testing::Values(Blocks{"Full", [] { return TinyModelForTest(); }},
                                           Blocks{"Sentences",
                                                  [] { return TinyModelForTest(1, 24); }},
                                           Blocks{"Text", [] { return TextModelForTest(); }}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(IngestBlocksTest, TextIsRangesOfBlocksAlone) {
  if (!text()) GTEST_SKIP() << "documents have states";
  StoreAndEngine f(SmallOptions(), model_);
  const std::vector<int32_t> tokens = SampleTokens(3000, 5);
  const auto info = IngestTokens(*f.engine, "doc", tokens);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->kind(), DocumentKind::kText);
  const std::vector<std::vector<int32_t>> blocks = DocumentBlocks(*model_, tokens);
  ASSERT_EQ(info->chunks, std::ssize(blocks));
  int64_t text_end = 0;
  for (int64_t i = 0; i < info->chunks; ++i) {
    const ChunkRef ref{info->owner, i};
    const auto record = f.store->ReadChunks({&ref, 1})[0];
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->states.empty() && record->tokens.empty());
    EXPECT_EQ(record->rows, std::ssize(blocks[static_cast<size_t>(i)]));
    EXPECT_TRUE(i + 1 == info->chunks || record->rows >= 32) << record->rows;
    EXPECT_EQ(record->text_begin, text_end);
    text_end = record->text_end;
  }
  EXPECT_EQ(text_end, info->bytes);
  EXPECT_EQ(*f.store->ReadTokens(info->owner, 0, info->tokens), tokens);
  // No layer has run.
  EXPECT_EQ(f.engine->stats().steps, 0);
  EXPECT_EQ(f.engine->stats().ingested_tokens, 3000);
}

TEST_P(IngestBlocksTest, RecordsEqualTheModelRunInOneGo) {
  if (text()) GTEST_SKIP() << "no layer runs";
  StoreAndEngine f(SmallOptions(), model_);
  const model::CpuModel& model = *model_;
  for (const int64_t length : {1, 62, 63, 64, 126, 1000}) {
    SCOPED_TRACE(length);
    const std::vector<int32_t> tokens = SampleTokens(length, 5);
    const std::string id = "doc" + std::to_string(length);
    const absl::StatusOr<store::DocumentInfo> info = IngestTokens(*f.engine, id, tokens);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->tokens, length);
    const std::vector<model::EncodedChunk> expected = IngestReference(model, tokens);
    ASSERT_EQ(info->chunks, std::ssize(expected));
    if (GetParam().name == std::string("Full")) {
      EXPECT_EQ(info->chunks, (length + 62) / 63);
    } else if (length == 1000) {
      EXPECT_GT(info->chunks, 16);
    }
    const auto keys =
        *f.store->ReadLandmarkKeys(info->owner, info->chunks, model.config().key_width());
    int64_t text_end = 0;
    for (int64_t i = 0; i < info->chunks; ++i) {
      const ChunkRef ref{info->owner, i};
      const auto record = f.store->ReadChunks({&ref, 1})[0];
      ASSERT_TRUE(record.ok());
      EXPECT_EQ(record->states, expected[i].states);
      EXPECT_TRUE(std::equal(expected[i].landmark_key.begin(), expected[i].landmark_key.end(),
                             keys.begin() + i * model.config().key_width()));
      EXPECT_EQ(record->text_begin, text_end);
      text_end = record->text_end;
    }
    EXPECT_EQ(text_end, info->bytes);
  }
}

TEST_P(IngestBlocksTest, SlicesMessagesAndCommitsDoNotChangeRecords) {
  const std::string text = SampleText(12000, 9);
  std::string expected;
  for (const int64_t slice : {64, 1000, 65536}) {
    for (const int64_t message : {1 << 20, 1000, 1}) {
      if (message == 1 && slice != 1000) continue;
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << slice << " " << message << " " << threads);
        TestOptions options = SmallOptions();
        options.ingest_slice_tokens = slice;
        options.commit_tokens = options.text_commit_tokens = slice == 64 ? 100 : 1500;
        options.threads = threads;
        StoreAndEngine f(options, model_);
        const auto info = Ingest(*f.engine, "doc", text, message);
        ASSERT_TRUE(info.ok()) << info.status();
        EXPECT_EQ(*f.engine->ReadText("doc", 0, info->bytes), text);
        const std::string dump = f.Dump("doc");
        if (expected.empty()) expected = dump;
        EXPECT_TRUE(dump == expected);
      }
    }
  }
  const auto tokens = *model_->tokenizer()->Encode(text);
  StoreAndEngine f(SmallOptions(), model_);
  EXPECT_EQ(Ingest(*f.engine, "doc", text)->tokens, static_cast<int64_t>(tokens.size()));
  ASSERT_TRUE(IngestTokens(*f.engine, "tokens", tokens).ok());
  EXPECT_EQ(f.engine->GetDocument("tokens")->chunks, f.engine->GetDocument("doc")->chunks);
}

TEST_P(IngestBlocksTest, ABrokenStreamResumesAtItsLastCommit) {
  const std::string text = SampleText(30000, 10);
  StoreAndEngine whole(SmallOptions(), model_);
  ASSERT_TRUE(Ingest(*whole.engine, "doc", text).ok());
  const std::string expected = whole.Dump("doc");

  StoreAndEngine f(SmallOptions(), model_);
  int64_t before = 0;
  for (int part = 1; part <= 8; ++part) {
    auto stream = f.engine->BeginIngest("doc", false, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    const int64_t begin = (*stream)->status().committed_offset;
    EXPECT_GE(begin, before);
    before = begin;
    Sha256 read;
    read.Update(absl::string_view(text).substr(0, static_cast<size_t>(begin)));
    EXPECT_EQ((*stream)->status().committed_sha256, begin > 0 ? read.Hex() : "");
    const int64_t size = 3700 * part - begin > 0 ? 3700 * part - begin : 1;
    EXPECT_TRUE(Append(**stream, begin, text.substr(begin, size)).ok());
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(f.engine->ListIngests()->size(), 1u);
  ASSERT_TRUE(Ingest(*f.engine, "doc", text).ok());
  EXPECT_TRUE(f.Dump("doc") == expected);
  EXPECT_TRUE(f.engine->ListIngests()->empty());
}

}  // namespace
}  // namespace recollect::engine
