// The groups of a landmark share a pass over the 4-bit codes of a document's sketch: what the
// engine finds and generates is what it finds and generates without that, and without any sketch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/cpu/sketch_sums.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

enum class Sums { kShared, kAlone, kNoSketch };

// A tiny model whose keys are wide enough for a sketch with directions, as the shipped model's are.
std::shared_ptr<const model::CpuModel> WideKeys() {
  static const auto* const loaded = [] {
    model::ModelConfig config = TinyConfig();
    config.d_r = 160;
    config.lexicon.d = 104;
    const std::string directory = ::testing::TempDir() + "/wide_keys";
    WriteTinyModel(directory, config, 3);
    return new std::shared_ptr<const model::CpuModel>(model::CpuModel::Load(directory).value());
  }();
  return *loaded;
}

// Counts the queries that an earlier search has summed for; with Sums::kAlone it lets none do that.
class Watched final : public LandmarkIndex {
 public:
  explicit Watched(Sums sums)
      : sums_(sums),
        landmarks_(std::make_shared<ComputeThreads>(2),
                   sums == Sums::kNoSketch ? kernels::SketchShape{}
                                           : kernels::SketchShape{WideKeys()->config().key_width(),
                                                                  WideKeys()->config().d_r}) {}
  std::string name() const override { return landmarks_.name(); }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(LargeVector<Bf16> keys) override {
    return landmarks_.Keep(std::move(keys));
  }
  void Search(std::span<LandmarkQuery> queries) override {
    for (LandmarkQuery& query : queries) {
      if (sums_ == Sums::kAlone) query.later.clear();
      const auto* const known = dynamic_cast<const SumsAhead*>(query.known.get());
      if (known == nullptr) continue;
      summed += std::any_of(known->of.begin(), known->of.end(), [&](const SumsOfSketch& sums) {
        return known->Find(*sums.sketch, query.u) != nullptr;
      });
    }
    landmarks_.Search(queries);
  }
  void AwaitSketches() { landmarks_.AwaitSketches(); }

  std::atomic<int64_t> summed{0};

 private:
  const Sums sums_;
  CpuLandmarks landmarks_;
};

// A document of which an engine has read `source`'s text 50 times would have no chunk that differs
// from another: the encoder's numbers of one chunk stand beside the lexical ones of another.
void WriteLarge(store::DocumentStore& store, const std::string& source) {
  constexpr int64_t kTimes = 50, kStride = 7;
  const model::ModelConfig& config = WideKeys()->config();
  const int64_t width = config.key_width();
  const store::DocumentInfo from = store.Get(source).value();
  const std::vector<Bf16> keys = store.ReadLandmarkKeys(from.owner, from.chunks, width).value();
  const auto begun = store.BeginIngest("large", from.fingerprint, true, "").value();
  for (int64_t time = 0; time < kTimes; ++time) {
    store::IngestBatch batch;
    std::vector<ChunkRef> refs;
    for (int64_t i = 0; i < from.chunks; ++i) {
      const auto begin = keys.begin() + i * width;
      const auto other = keys.begin() + (i + time * kStride) % from.chunks * width;
      batch.landmark_keys.insert(batch.landmark_keys.end(), begin, begin + config.d_r);
      batch.landmark_keys.insert(batch.landmark_keys.end(), other + config.d_r, other + width);
      refs.push_back({from.owner, i});
    }
    for (absl::StatusOr<store::ChunkRecord>& chunk : store.ReadChunks(refs)) {
      batch.chunks.push_back(std::move(chunk).value());
      batch.chunks.back().text_begin += time * from.bytes;
      batch.chunks.back().text_end += time * from.bytes;
    }
    batch.tokens = store.ReadTokens(from.owner, 0, from.tokens).value();
    batch.text = store.ReadText(from.owner, 0, from.bytes).value();
    ASSERT_THAT(store.CommitIngest(begun.owner, batch), IsOk());
  }
  const auto large = store.PublishIngest(begun.owner, {});
  ASSERT_THAT(large, IsOk());
  ASSERT_GT(large->chunks, 8192) << "fewer have no sketch";
}

// An engine with "large" mounted and its sketch made, and "small", which has none.
class Searched {
 public:
  explicit Searched(Sums sums, const TestOptions& with = SmallOptions())
      : landmarks_(std::make_shared<Watched>(sums)) {
    const std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
    TestOptions options = with;
    options.landmark_index = landmarks_;
    engine_ = MakeEngine(options, std::make_unique<ForwardingStore>(store), WideKeys());
    EXPECT_THAT(IngestTokens(*engine_, "source", SampleTokens(180 * 63, 1)), IsOk());
    EXPECT_THAT(IngestTokens(*engine_, "small", SampleTokens(900, 2)), IsOk());
    WriteLarge(*store, "source");
    EXPECT_THAT(engine_->OpenSession({.mounts = {"large"}}), IsOk());
    landmarks_->AwaitSketches();
  }

  // Sessions that ask at once, each behind a prompt of its own.
  std::vector<Generated> Together(size_t sessions) {
    std::vector<std::shared_ptr<Collector>> collectors;
    for (size_t i = 0; i < sessions; ++i) {
      collectors.push_back(std::make_shared<Collector>());
      engine_->Generate(TokensRequest(SampleTokens(200, 10 + i), 200, {"small", "large"}),
                        collectors.back());
    }
    std::vector<Generated> all;
    for (const auto& collector : collectors) all.push_back(collector->Wait());
    return all;
  }
  int64_t summed() const { return landmarks_->summed; }

 private:
  const std::shared_ptr<Watched> landmarks_;
  std::unique_ptr<EngineImpl> engine_;
};

// Hits with the bits of their scores, and tokens.
void ExpectSame(const Generated& found, const Generated& expected) {
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.tokens, expected.tokens);
  ASSERT_EQ(found.retrievals.size(), expected.retrievals.size());
  for (size_t i = 0; i < expected.retrievals.size(); ++i) {
    const Retrieval &a = found.retrievals[i], &b = expected.retrievals[i];
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.group, b.group);
    EXPECT_EQ(a.candidates, b.candidates);
    ASSERT_EQ(a.hits.size(), b.hits.size());
    for (size_t j = 0; j < b.hits.size(); ++j) {
      EXPECT_EQ(a.hits[j].document, b.hits[j].document);
      EXPECT_EQ(a.hits[j].chunk, b.hits[j].chunk);
      EXPECT_EQ(a.hits[j].score, b.hits[j].score);
      EXPECT_EQ(a.hits[j].weight, b.hits[j].weight);
    }
  }
}

TEST(SearchAheadTest, ASessionFindsAndGeneratesTheSame) {
  Searched shared(Sums::kShared), alone(Sums::kAlone), plain(Sums::kNoSketch);
  const Generated expected = plain.Together(1)[0];
  ASSERT_THAT(expected.status, IsOk());
  ASSERT_GE(expected.retrievals.size(), 8u);
  EXPECT_GT(expected.retrievals.back().candidates, 9000);
  ExpectSame(shared.Together(1)[0], expected);
  ExpectSame(alone.Together(1)[0], expected);
  // Of each landmark of the generation, the second group's search.
  EXPECT_GE(shared.summed(), 3);
  EXPECT_EQ(alone.summed(), 0);
  EXPECT_EQ(plain.summed(), 0);
}

// A session leaves the step between its groups while chunks are read; others come and go meanwhile.
TEST(SearchAheadTest, SessionsThatWaitForChunksFindAndGenerateTheSame) {
  TestOptions from_store = SmallOptions();
  from_store.memory_budget_bytes = from_store.chunk_states_budget_bytes = 0;
  Searched shared(Sums::kShared, from_store), plain(Sums::kNoSketch);
  const std::vector<Generated> found = shared.Together(3), expected = plain.Together(3);
  for (size_t i = 0; i < found.size(); ++i) ExpectSame(found[i], expected[i]);
  EXPECT_EQ(found[0].retrievals.back().hits[0].tier, Tier::kStore);
  EXPECT_GT(shared.summed(), 0);
}

// Two landmarks at once still sum for what comes; with more of them the queries of each group share
// a pass instead.
TEST(SearchAheadTest, SessionsTogetherFindAndGenerateTheSameAsAlone) {
  Searched shared(Sums::kShared), plain(Sums::kNoSketch);
  for (const size_t sessions : {size_t{2}, size_t{5}}) {
    const int64_t before = shared.summed();
    const std::vector<Generated> found = shared.Together(sessions);
    const std::vector<Generated> expected = plain.Together(sessions);
    for (size_t i = 0; i < sessions; ++i) ExpectSame(found[i], expected[i]);
    if (sessions == 2) {
      EXPECT_GT(shared.summed(), before);
    }
  }
}

}  // namespace
}  // namespace recollect::engine
