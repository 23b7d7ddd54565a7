// Properties of RAT+ that hold whatever the weights: the model of the family ratplus against
// itself.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/weights.h"
#include "tests/model/model_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LocalPattern Pattern(int64_t window, int64_t dilation, int64_t initial) {
  return {window, dilation, initial, kUnboundedSpan};
}

// Different patterns by layer and, in the second, by head, one of them with a span.
LocalPatterns Hybrid() {
  return LocalPatterns(
      {{Pattern(0, 4, 1)}, {Pattern(0, 1, 0), {9, 16, 2, 60}}, {Pattern(30, -1, 0)}});
}

// The pattern of the highest sparsity, and the best of blocks of 16.
LocalPatterns Chosen(int64_t count, BlockScore score = BlockScore::kQuest) {
  return LocalPatterns(Pattern(0, -1, 0)).WithBlocks({count, 16, score});
}

std::vector<LocalPatterns> SomePatterns() {
  const LocalPattern bounded{5, 4, 2, 40};
  return {Pattern(0, 1, 0),   Pattern(0, 16, 4),
          Pattern(7, 3, 5),   Pattern(0, 128, 1),
          Pattern(20, -1, 0), bounded,
          Hybrid(),           LocalPatterns(Pattern(0, 4, 0)).WithContext(700),
          Chosen(3),          LocalPatterns(bounded).WithBlocks({2, 16, BlockScore::kQuest})};
}

TEST(RatPlusLoadTest, HoldsTheTensorsOfThePageAndNoOthers) {
  const ModelConfig config = TinyRatPlusConfig();
  const auto model = Make("holds", config);
  const int64_t layer = 2 * 32 + 5 * 32 * 32 + 32 * 32 + 2 * 64 * 32;
  EXPECT_EQ(model->parameters(), 320 * 32 + 3 * layer + 32);
  std::vector<std::string> names;
  for (const TensorSpec& spec : ExpectedTensors(config)) names.push_back(spec.name);
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "embed.weight", "layers.0.mixer_norm.weight",
                         "layers.0.mixer.in_proj.weight", "layers.0.mixer.out_proj.weight",
                         "layers.0.ffn_norm.weight", "layers.0.ffn.in_proj.weight",
                         "layers.0.ffn.out_proj.weight", "layers.1.mixer_norm.weight",
                         "layers.1.mixer.in_proj.weight", "layers.1.mixer.out_proj.weight",
                         "layers.1.ffn_norm.weight", "layers.1.ffn.in_proj.weight",
                         "layers.1.ffn.out_proj.weight", "layers.2.mixer_norm.weight",
                         "layers.2.mixer.in_proj.weight", "layers.2.mixer.out_proj.weight",
                         "layers.2.ffn_norm.weight", "layers.2.ffn.in_proj.weight",
                         "layers.2.ffn.out_proj.weight", "final_norm.weight"));
  EXPECT_NE(model->tokenizer(), nullptr);
}

TEST(RatPlusLoadTest, ConfigAndWeightsThatDisagreeNameBothShapes) {
  ModelConfig config = TinyRatPlusConfig();
  WriteTinyModel(Directory("shapes"), config, 1);
  config.ffn = 56;
  config.n_low = 2;
  WriteFile(Directory("shapes") + "/config.json", ConfigJson(config));
  const absl::Status status = CpuModel::Load(Directory("shapes")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("layers.0.ffn.in_proj.weight is [64, 32], the config expects [56, 32]"),
            HasSubstr("layers.2.mixer.in_proj.weight [160, 32] is not a tensor of this config"),
            Not(HasSubstr("gate_bias")), Not(HasSubstr("encoder"))));
}

TEST(RatPlusTest, PrefillInAnySplitEqualsTokenByToken) {
  for (const DType dtype : DTypes()) {
    ExpectAnySplitHasTheSameBits(*Make("split", TinyRatPlusConfig(), dtype), SomePatterns());
  }
}

// A cut that is no multiple of D keeps the phase.
TEST(RatPlusTest, StoredStateGoesOnWithTheSameBits) {
  ExpectStoredStateGoesOn(*Make("continue", TinyRatPlusConfig()), SomePatterns());
}

TEST(RatPlusTest, BatchOfSequencesEqualsEachAlone) {
  ExpectABatchEqualsEachAlone(*Make("batch", TinyRatPlusConfig()), SomePatterns());
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Other ranges, hence another order of summation: equal up to rounding.
TEST(RatPlusTest, AWindowOverEverythingIsDenseForAnyDilation) {
  const auto model = Make("dense", TinyRatPlusConfig());
  const auto ids = RandomTokens(140, 3);
  const std::vector<float> dense = RunTokens(*model, Pattern(0, 1, 0), ids);
  for (const int64_t dilation : {1, 3, 4, 64, 128, -1}) {
    EXPECT_LT(LargestDifference(RunTokens(*model, Pattern(140, dilation, 0), ids), dense), 2e-3);
  }
  EXPECT_LT(LargestDifference(RunTokens(*model, Pattern(0, -1, 140), ids), dense), 2e-3);
  EXPECT_GT(LargestDifference(RunTokens(*model, Pattern(0, 16, 0), ids), dense), 0.1);
}

TEST(RatPlusTest, ChoosingEveryBlockIsDenseAndOneIsTheOwn) {
  const auto model = Make("blocks", TinyRatPlusConfig());
  const auto ids = RandomTokens(140, 3);
  const std::vector<float> dense = RunTokens(*model, Pattern(0, 1, 0), ids);
  for (const BlockScore score : {BlockScore::kQuest, BlockScore::kMoba}) {
    EXPECT_LT(LargestDifference(RunTokens(*model, Chosen(9, score), ids), dense), 2e-3);
    EXPECT_GT(LargestDifference(RunTokens(*model, Chosen(3, score), ids), dense), 0.01);
  }
  // One block is the query's own, however it is scored.
  EXPECT_EQ(RunTokens(*model, Chosen(1), ids),
            RunTokens(*model, Chosen(1, BlockScore::kMoba), ids));
}

TEST(RatPlusTest, AStretchedContextChangesTheAnglesOnly) {
  const auto model = Make("context", TinyRatPlusConfig());
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.RopeBase(0), 10000);
  EXPECT_EQ(config.RopeBase(256), 10000);
  EXPECT_NEAR(config.RopeBase(1024), 10000 * std::pow(4.0, 16.0 / 14.0), 1e-6);
  const auto ids = RandomTokens(100, 3);
  const LocalPatterns pattern = Pattern(0, 4, 0);
  const std::vector<float> trained = RunTokens(*model, pattern, ids);
  EXPECT_EQ(RunTokens(*model, pattern.WithContext(256), ids), trained);
  EXPECT_NE(RunTokens(*model, pattern.WithContext(1024), ids), trained);
}

// A pattern with a span, and the last position before its first entry leaves: that is the first
// block end after the initial positions, e = D floor(I / D) + D - 1, which position e + C still
// sees.
struct Bounded {
  LocalPattern pattern;
  int64_t last;
};
const Bounded kBounded[] = {{{0, 1, 0, 25}, 25},   {{0, 4, 0, 40}, 43},    {{5, 16, 4, 33}, 48},
                            {{20, 3, 17, 20}, 37}, {{7, 16, 21, 90}, 121}, {{3, 128, 2, 60}, 187}};

// A choice of one block of one position, the own, adds nothing to the pattern and keeps every
// position: one mask over the whole sequence.
TEST(RatPlusTest, StreamingUnderASpanEqualsOneMaskOverEverything) {
  const auto model = Make("mask", TinyRatPlusConfig());
  const auto ids = RandomTokens(300, 3);
  for (const auto& [pattern, last] : kBounded) {
    const LocalPatterns streaming = pattern;
    SCOPED_TRACE(streaming.Text());
    const std::vector<float> masked =
        RunTokens(*model, streaming.WithBlocks({1, 1, BlockScore::kQuest}), ids);
    EXPECT_LT(LargestDifference(RunTokens(*model, streaming, ids), masked), 2e-4);
  }
}

TEST(RatPlusTest, ASpanChangesNothingUntilTheFirstEntryLeavesIt) {
  const auto model = Make("span", TinyRatPlusConfig());
  const auto ids = RandomTokens(200, 3);
  const int64_t vocab = model->config().vocab_size;
  for (const auto& [pattern, last] : kBounded) {
    const LocalPatterns bounded = pattern;
    SCOPED_TRACE(bounded.Text());
    const std::vector<float> actual = RunTokens(*model, bounded, ids);
    const std::vector<float> unbounded =
        RunTokens(*model, bounded.With(&LocalPattern::span, kUnboundedSpan), ids);
    const auto first_other = std::mismatch(actual.begin(), actual.end(), unbounded.begin()).first;
    EXPECT_EQ((first_other - actual.begin()) / vocab, last + 1);
  }
}

// What a token attends to before the first block end and outside window and initial is itself.
TEST(RatPlusTest, PatternsAgreeWhereTheirSetsAreTheSame) {
  const auto model = Make("prefix", TinyRatPlusConfig());
  const auto ids = RandomTokens(64, 3);
  const std::vector<float> sparse = RunTokens(*model, Pattern(0, 64, 0), ids);
  EXPECT_EQ(sparse, RunTokens(*model, Pattern(0, -1, 0), ids));
  EXPECT_NE(sparse, RunTokens(*model, Pattern(0, 32, 0), ids));
}

// Rows g of every in_proj set to large values of one sign drive the gates to 0 or 1; the norm's
// gain is 1 and a constant embedding channel makes the sign sure.
std::unique_ptr<CpuModel> WithGates(const std::string& name, float push, bool recurrence) {
  ModelConfig config = TinyRatPlusConfig();
  config.recurrence = recurrence;
  return MakeChanged(name, config, [&](const std::string& tensor_name, FloatTensor& tensor) {
    const int64_t d = config.d;
    if (tensor_name == "embed.weight") {
      for (int64_t row = 0; row < config.vocab_size; ++row) tensor.values[row * d] = 100;
    }
    if (tensor_name.find("mixer.in_proj") != std::string::npos) {
      for (int64_t row = 4 * config.inner(); row < 5 * config.inner(); ++row) {
        std::fill_n(tensor.values.begin() + row * d, d, 0.0f);
        tensor.values[row * d] = push;
      }
    }
    // Nothing but the mixers' gates reads the constant channel, and nothing changes it.
    if (tensor_name.find("out_proj") != std::string::npos) {
      std::fill_n(tensor.values.begin(), tensor.shape[1], 0.0f);
    }
  });
}

TEST(RatPlusTest, ClosedGatesAreAttentionWithoutRecurrence) {
  const auto ids = RandomTokens(100, 4);
  const auto closed = WithGates("closed", -1000, true);
  const auto plain = WithGates("plain", -1000, false);
  for (const LocalPatterns& pattern : SomePatterns()) {
    EXPECT_EQ(RunTokens(*closed, pattern, ids), RunTokens(*plain, pattern, ids));
  }
}

// k~ and v~ of the latest position, layer by layer.
std::vector<float> Recurrence(const ModelConfig& config, LocalState& state) {
  std::vector<float> values;
  for (LayerState& layer : state.layers) {
    for (const float* part : {layer.key_recurrence(), layer.value_recurrence()}) {
      values.insert(values.end(), part, part + config.inner());
    }
  }
  return values;
}

// With the gates at 1 the state stays what it was: zero, or what another model's gates made of it.
TEST(RatPlusTest, OpenGatesKeepTheState) {
  const auto open = WithGates("open", 1000, true);
  const auto other = Make("other", TinyRatPlusConfig());
  const ModelConfig& config = open->config();
  const LocalPattern pattern = Pattern(0, 4, 0);
  for (const int64_t length : {0, 30}) {
    LocalState state = LocalState::Create(config, pattern, config.layers());
    RunTokens(*other, pattern, RandomTokens(length, 3), kBlockRows, &state);
    const std::vector<float> before = Recurrence(config, state);
    EXPECT_EQ(std::count(before.begin(), before.end(), 0), length > 0 ? 0 : std::ssize(before));
    RunTokens(*open, pattern, RandomTokens(50, 4), kBlockRows, &state);
    EXPECT_EQ(Recurrence(config, state), before);
  }
}

TEST(RatPlusTest, TheFirstTokensStateIsItsShareOfItself) {
  const auto model = Make("first", TinyRatPlusConfig());
  const ModelConfig& config = model->config();
  const int64_t d = config.d, inner = config.inner();
  const auto file = SafetensorsFile::Open(Directory("first") + "/model.safetensors");
  const std::vector<float> gain = file->ReadFloats("layers.0.mixer_norm.weight").value();
  const std::vector<float> in_proj = file->ReadFloats("layers.0.mixer.in_proj.weight").value();
  for (const int32_t id : RandomTokens(3, 5)) {
    std::vector<float> h(static_cast<size_t>(d));
    model->Embed(std::vector<int32_t>{id}, h.data());
    double squares = 0;
    for (const float x : h) squares += double{x} * x;
    const double rms = std::sqrt(squares / static_cast<double>(d) + config.norm_eps);
    // Row `row` of in_proj RMS(h): o, q, k, v, g.
    const auto projected = [&](int64_t row) {
      double sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += in_proj[row * d + i] * (h[i] / rms * gain[i]);
      return sum;
    };
    LocalState state = LocalState::Create(config, Pattern(0, 4, 0), config.layers());
    RunTokens(*model, Pattern(0, 4, 0), {id}, kBlockRows, &state);
    for (int64_t i = 0; i < inner; ++i) {
      const double share = 1 / (1 + std::exp(projected(4 * inner + i)));  // 1 - g
      EXPECT_NEAR(state.layers[0].key_recurrence()[i], share * projected(2 * inner + i), 1e-5);
      EXPECT_NEAR(state.layers[0].value_recurrence()[i], share * projected(3 * inner + i), 1e-5);
    }
  }
}

}  // namespace
}  // namespace recollect::model
