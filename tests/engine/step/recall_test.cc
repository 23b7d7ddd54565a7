// The shipped model in the engine: what a document hides comes back, and with the same bits from
// every tier, beside any others and after a restart. The tiny models of the other tests are random:
// their likeliest token hardly depends on what is mounted. Here it is the answer.
#include <filesystem>
#include <map>

#include "gmock/gmock.h"
#include "kernels/gemm/gemm.h"
#include "model/text/tokenizer.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = " The secret number of the silver lantern is 748213.";
constexpr char kQuestion[] =
    "What is the secret number of the silver lantern? The secret number of the silver lantern is";
constexpr char kAnswer[] = " 748213";

// The beginning of F. H. Burnett's "Seth" (1877), of the books in examples/.
std::string Haystack() { return ReadFile(RECOLLECT_SOURCE_DIR "/tests/engine/step/haystack.txt"); }

// In the middle, after a sentence.
std::string WithSecret() {
  std::string text = Haystack();
  return text.insert(text.find(". ", text.size() / 2) + 1, kSecret);
}

std::shared_ptr<const model::CpuModel> ShippedModel(DType dtype) {
  static auto* const models = new std::map<DType, std::shared_ptr<const model::CpuModel>>();
  std::shared_ptr<const model::CpuModel>& slot = (*models)[dtype];
  if (slot == nullptr) {
    auto loaded = model::CpuModel::Load(RECOLLECT_SOURCE_DIR "/models/recollect-7m", dtype);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) slot = *std::move(loaded);
  }
  return slot;
}

GenerateRequest Ask(std::vector<std::string> mounts) {
  GenerateRequest request;
  request.session_options.mounts = std::move(mounts);
  request.prompt.text = kQuestion;
  request.max_tokens = 12;
  return request;
}

// What an engine says of the secret: its answer, and how likely it holds the right one, to the bit.
struct Told {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  friend bool operator==(const Told&, const Told&) = default;
};

Told Tell(Engine& engine, const model::Model& model, std::vector<std::string> mounts) {
  const std::vector<int32_t> question = *model.tokenizer()->Encode(kQuestion);
  const std::vector<int32_t> answer = *model.tokenizer()->Encode(kAnswer);
  ScoreRequest score = ScoreOf(question, mounts);
  score.prompt.tokens.insert(score.prompt.tokens.end(), answer.begin(), answer.end());
  score.flush_after = {static_cast<int64_t>(question.size())};
  const absl::StatusOr<ScoreResult> scored = Score(engine, score);
  EXPECT_EQ(scored.status(), absl::OkStatus());
  Generated generated = Generate(engine, Ask(std::move(mounts)));
  EXPECT_EQ(generated.status, absl::OkStatus());
  return {generated.tokens, scored.ok() ? scored->logprobs : std::vector<float>()};
}

class RecallTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (GetParam() == DType::kBf16 && !kernels::Bf16Supported()) {
      GTEST_SKIP() << "this CPU has no bf16 products";
    }
    std::filesystem::remove_all(directory_);
    model_ = ShippedModel(GetParam());
    ASSERT_NE(model_, nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<EngineImpl> Open(const TestOptions& options = SmallOptions()) {
    auto store = store::OpenRocksStore({.directory = directory_});
    EXPECT_TRUE(store.ok()) << store.status();
    return MakeEngine(options, *std::move(store), model_);
  }

  const std::string directory_ = ::testing::TempDir() + "/recall";
  std::shared_ptr<const model::CpuModel> model_;
};

TEST_P(RecallTest, TheAnswerComesFromTheDocument) {
  auto engine = Open();
  ASSERT_TRUE(Ingest(*engine, "with", WithSecret()).ok());
  ASSERT_TRUE(Ingest(*engine, "without", Haystack()).ok());
  EXPECT_THAT(Generate(*engine, Ask({"with"})).text, testing::StartsWith(kAnswer));
  EXPECT_THAT(Generate(*engine, Ask({"without", "with"})).text, testing::StartsWith(kAnswer));
  EXPECT_THAT(Generate(*engine, Ask({"without"})).text, Not(HasSubstr(kAnswer)));
  EXPECT_THAT(Generate(*engine, Ask({})).text, Not(HasSubstr(kAnswer)));
}

TEST_P(RecallTest, SameBitsFromEveryTierAndAfterARestart) {
  Told expected;
  {
    auto engine = Open();
    ASSERT_TRUE(Ingest(*engine, "doc", WithSecret()).ok());
    expected = Tell(*engine, *model_, {"doc"});
    EXPECT_NE(Tell(*engine, *model_, {}), expected);
    EXPECT_EQ(Tell(*engine, *model_, {"doc"}), expected) << "from the device tier";
    engine->tiers_for_test().DropMemory();
    EXPECT_EQ(Tell(*engine, *model_, {"doc"}), expected) << "from the host tier";
  }
  EXPECT_EQ(Tell(*Open(), *model_, {"doc"}), expected) << "from the store, after a restart";
  TestOptions tiny = SmallOptions();
  tiny.memory_budget_bytes = 0;
  tiny.chunk_states_budget_bytes = 100'000;  // a few chunks
  const auto engine = Open(tiny);
  EXPECT_EQ(Tell(*engine, *model_, {"doc"}), expected) << "with hardly any room";
  EXPECT_LE(engine->stats().chunk_states_bytes, 100'000);
}

TEST_P(RecallTest, SameBitsInAnySlicesOnAnyThreadsBesideAnyOthers) {
  ASSERT_TRUE(Ingest(*Open(), "doc", WithSecret()).ok());
  const Told expected = Tell(*Open(), *model_, {"doc"});
  for (const int threads : {1, 2}) {
    for (const int64_t slice : {3, 17, 512}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, slices of " << slice);
      TestOptions options = SmallOptions();
      options.threads = threads;
      options.prefill_slice_tokens = slice;
      const auto engine = Open(options);
      std::vector<std::shared_ptr<Collector>> others;
      for (int i = 0; i < 4; ++i) {
        others.push_back(std::make_shared<Collector>());
        GenerateRequest other =
            Ask(i % 2 == 0 ? std::vector<std::string>{"doc"} : std::vector<std::string>());
        other.prompt.text.insert(0, static_cast<size_t>(i), '\n');
        other.max_tokens = 40;
        engine->Generate(other, others.back());
      }
      EXPECT_EQ(Tell(*engine, *model_, {"doc"}), expected);
      for (const auto& other : others) EXPECT_EQ(other->Wait().status, absl::OkStatus());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RecallTest, testing::Values(DType::kFloat32, DType::kBf16),
                         [](const auto& dtype) {
                           return dtype.param == DType::kBf16 ? "bf16" : "fp32";
                         });

}  // namespace
}  // namespace recollect::engine
