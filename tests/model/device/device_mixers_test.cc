// Properties of every mixer on a device: prompts in any cut, stored states and batches have the
// same bits, whatever the weights.
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/device/test_device.h"
#include "tests/model/device/device_functions.h"
#include "tests/model/model_testing.h"
#include "tests/support/tiny_llama.h"

namespace recollect::model {
namespace {

constexpr int64_t kPositions = 150;

// The patterns that sequences of a batch have in turn.
struct Family {
  const char* name;
  void (*write)(const std::string& directory);
  std::vector<LocalPatterns> (*patterns)(const ModelConfig& config);
};

template <ModelConfig (*config)()>
void WriteTiny(const std::string& directory) {
  WriteTinyModel(directory, config(), 1);
}

void WriteLlama(const std::string& directory) { WriteTinyLlama(directory); }

// A layer with the heads of SmolLM2-135M: nine of 64 channels over three.
void WriteHeadsAsPublished(const std::string& directory) {
  nlohmann::json config = TinyLlamaConfig();
  config["num_hidden_layers"] = 1;
  config["hidden_size"] = 576;
  config["num_attention_heads"] = 9;
  config["num_key_value_heads"] = 3;
  config["tie_word_embeddings"] = true;
  WriteTinyLlama(directory, config);
}

std::vector<LocalPatterns> ItsOwn(const ModelConfig& config) { return {config.local}; }

// Everything, in two ways, and a window beside the sequence's beginning.
std::vector<LocalPatterns> DenseAndWindow(const ModelConfig& config) {
  return {config.local, LocalPattern{1000, kNoDilation, 0, kUnboundedSpan},
          LocalPattern{31, kNoDilation, 4, kUnboundedSpan}};
}

// Blocks beside none, of one pattern or one for each head, and heads with patterns of their own.
std::vector<LocalPatterns> ManyPatterns(const ModelConfig&) {
  const LocalPattern dense{0, 1, 0, kUnboundedSpan}, bounded{5, 4, 2, 40};
  const LocalPatterns heads({{dense}, {dense, {9, 16, 2, 60}}, {{30, kNoDilation, 0, 1024}}});
  return {bounded,
          LocalPatterns(bounded).WithBlocks({2, 16, BlockScore::kQuest}),
          heads,
          heads.WithBlocks({3, 16, BlockScore::kQuest}),
          heads.WithBlocks({3, 16, BlockScore::kQuest}),
          LocalPatterns(dense).WithContext(700)};
}

class DeviceMixersTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override { RECOLLECT_SKIP_WITHOUT(device_); }

  void Load(DType dtype) {
    GetParam().write(Directory("model"));
    auto in_ram = CpuModel::Load(Directory("model"), dtype);
    ASSERT_TRUE(in_ram.ok()) << in_ram.status();
    model_ = *std::move(in_ram);
    auto loaded = DeviceModel::Load(*device_, *model_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    on_device_ = *std::move(loaded);
    patterns_ = GetParam().patterns(model_->config());
  }

  const ModelConfig& config() const { return model_->config(); }
  std::vector<float> Embedded(uint64_t seed) const {
    std::vector<float> h(static_cast<size_t>(kPositions * config().d));
    model_->Embed(RandomTokens(kPositions, seed), h.data());
    return h;
  }
  // Rows [first, first + rows) of h through all layers, in place, `rows_per_call` at a time.
  void Advance(DeviceFunctions& sequence, int64_t first, int64_t rows, int64_t rows_per_call,
               std::vector<float>& h) {
    sequence.RunLayers(0, config().layers(), rows, rows_per_call, nullptr,
                       h.data() + first * config().d);
  }
  std::vector<float> Whole(const LocalPatterns& pattern, uint64_t seed) {
    std::vector<float> h = Embedded(seed);
    DeviceFunctions sequence(*on_device_, pattern);
    Advance(sequence, 0, kPositions, kPositions, h);
    return h;
  }

  const std::shared_ptr<kernels::Device> device_ = kernels::OpenTestDevice();
  std::unique_ptr<CpuModel> model_;
  std::unique_ptr<DeviceModel> on_device_;
  std::vector<LocalPatterns> patterns_;
};

TEST_P(DeviceMixersTest, AnyCutOfAPromptHasTheSameBits) {
  for (const DType dtype : DTypes()) {
    ASSERT_NO_FATAL_FAILURE(Load(dtype));
    for (const LocalPatterns& pattern : patterns_) {
      SCOPED_TRACE(pattern.Text());
      const std::vector<float> whole = Whole(pattern, 5);
      for (const int64_t rows : {1, 33}) {
        std::vector<float> h = Embedded(5);
        DeviceFunctions sequence(*on_device_, pattern);
        Advance(sequence, 0, kPositions, rows, h);
        EXPECT_EQ(h, whole) << rows;
      }
    }
  }
}

TEST_P(DeviceMixersTest, AStoredStateGoesOnWithTheSameBits) {
  for (const DType dtype : DTypes()) {
    ASSERT_NO_FATAL_FAILURE(Load(dtype));
    for (const LocalPatterns& pattern : patterns_) {
      SCOPED_TRACE(pattern.Text());
      const std::vector<float> whole = Whole(pattern, 6);
      for (const int64_t cut : {1, 16, 77}) {
        std::vector<float> h = Embedded(6);
        DeviceFunctions first(*on_device_, pattern), second(*on_device_, pattern);
        Advance(first, 0, cut, 20, h);
        const auto stored = first.Stored();
        ASSERT_TRUE(stored.ok()) << stored.status();
        ASSERT_EQ(second.state().Begin(*device_, *stored), absl::OkStatus());
        const auto again = second.Stored();
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(again->Serialize(), stored->Serialize());
        Advance(second, cut, kPositions - cut, 20, h);
        EXPECT_EQ(h, whole) << cut;
      }
    }
  }
}

// A state that forgets what it has run goes on as if it had not; one that cannot says so.
TEST_P(DeviceMixersTest, ARewoundStateGoesOnWithTheSameBits) {
  for (const DType dtype : DTypes()) {
    ASSERT_NO_FATAL_FAILURE(Load(dtype));
    const bool kept_by_position = config().mixers[0].kind == MixerKind::kAttention;
    for (const LocalPatterns& pattern : patterns_) {
      SCOPED_TRACE(pattern.Text());
      const std::vector<float> whole = Whole(pattern, 8);
      std::vector<float> h = Embedded(9);
      DeviceFunctions sequence(*on_device_, pattern);
      Advance(sequence, 0, kPositions, kPositions, h);
      EXPECT_FALSE(sequence.state().Rewind(kPositions + 1));
      for (const int64_t length : {0, 149, 77, 1}) {
        const bool rewinds = sequence.state().Rewind(length);
        if (kept_by_position) {
          EXPECT_TRUE(rewinds || pattern != config().local) << length;
        } else {
          EXPECT_FALSE(rewinds) << length;
        }
        if (!rewinds) break;
        EXPECT_EQ(sequence.state().length(), length);
        h = Embedded(8);
        Advance(sequence, length, kPositions - length, 20, h);
        EXPECT_TRUE(std::equal(h.begin() + length * config().d, h.end(),
                               whole.begin() + length * config().d))
            << length;
      }
    }
  }
}

// Decode steps and prompt slices side by side, each sequence with a pattern of its own.
TEST_P(DeviceMixersTest, SequencesInOneCallHaveTheBitsOfEachAlone) {
  const std::vector<std::vector<int64_t>> steps = {
      {64, 1, 30, 17, 5, 9}, {1, 1, 1, 1, 1, 1}, {1, 64, 64, 1, 3, 20}};
  for (const DType dtype : DTypes()) {
    ASSERT_NO_FATAL_FAILURE(Load(dtype));
    const int64_t d = config().d;
    std::vector<std::vector<float>> rows, whole;
    std::vector<std::unique_ptr<DeviceFunctions>> sequences;
    std::vector<int64_t> done(steps[0].size());
    for (size_t i = 0; i < done.size(); ++i) {
      const LocalPatterns& pattern = patterns_[i % patterns_.size()];
      rows.push_back(Embedded(10 + i));
      whole.push_back(Whole(pattern, 10 + i));
      sequences.push_back(std::make_unique<DeviceFunctions>(*on_device_, pattern));
    }
    for (const std::vector<int64_t>& step : steps) {
      std::vector<float> h;
      std::vector<DeviceSegment> segments;
      for (size_t i = 0; i < step.size(); ++i) {
        const auto from = rows[i].begin() + done[i] * d;
        h.insert(h.end(), from, from + step[i] * d);
        segments.push_back({.state = &sequences[i]->state(), .rows = step[i]});
      }
      const auto bytes = static_cast<int64_t>(h.size() * sizeof(float));
      const auto memory = device_->Allocate(bytes).value();
      float* const x = static_cast<float*>(memory->data());
      ASSERT_EQ(device_->Upload(h.data(), bytes, x), absl::OkStatus());
      ASSERT_EQ(on_device_->RunLayers(0, config().layers(), segments, x), absl::OkStatus());
      ASSERT_EQ(device_->Download(x, bytes, h.data()), absl::OkStatus());
      auto from = h.begin();
      for (size_t i = 0; i < step.size(); from += step[i] * d, done[i] += step[i], ++i) {
        const auto expected = whole[i].begin() + done[i] * d;
        EXPECT_TRUE(std::equal(from, from + step[i] * d, expected)) << "sequence " << i;
      }
    }
  }
}

// One token of each sequence after the other: only where memory grows or moves, a dilated position
// comes in or a size doubles, something else than the last step's graph runs.
TEST_P(DeviceMixersTest, TheStepsOfADecodeRunAsGraphs) {
  constexpr int64_t kSteps = 100;
  for (const DType dtype : DTypes()) {
    ASSERT_NO_FATAL_FAILURE(Load(dtype));
    for (const LocalPatterns& pattern : patterns_) {
      SCOPED_TRACE(pattern.Text());
      std::vector<float> h = Embedded(7);
      DeviceFunctions sequence(*on_device_, pattern);
      Advance(sequence, 0, kPositions - kSteps, kPositions, h);
      const int64_t before = on_device_->graphs().launched();
      const int64_t bytes = config().d * int64_t{sizeof(float)};
      const auto memory = device_->Allocate(bytes).value();
      float* const x = static_cast<float*>(memory->data());
      for (int64_t position = kPositions - kSteps; position < kPositions; ++position) {
        float* const row = h.data() + position * config().d;
        const DeviceSegment one{.state = &sequence.state(), .rows = 1};
        ASSERT_EQ(device_->Upload(row, bytes, x), absl::OkStatus());
        ASSERT_EQ(on_device_->RunLayers(0, config().layers(), {&one, 1}, x), absl::OkStatus());
        ASSERT_EQ(device_->Download(x, bytes, row), absl::OkStatus());
      }
      EXPECT_EQ(h, Whole(pattern, 7));
      const int64_t launched = on_device_->graphs().launched() - before;
      std::printf("%s %s: %d of %d steps\n", GetParam().name, pattern.Text().c_str(),
                  static_cast<int>(launched), static_cast<int>(kSteps));
      EXPECT_GE(launched, kSteps * 8 / 10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, DeviceMixersTest,
    ::testing::Values(Family{"RatPlus", WriteTiny<TinyRatPlusConfig>, ManyPatterns},
                      Family{"RatSwa", WriteTiny<TinyRatSwaConfig>, ItsOwn},
                      Family{"Rattention", WriteTiny<TinyRattentionConfig>, ItsOwn},
                      Family{"LinearAlone", WriteTiny<LinearAlone>, ItsOwn},
                      Family{"Alibi", WriteTiny<TinyDrtPaperConfig>, ItsOwn},
                      Family{"Llama", WriteLlama, DenseAndWindow},
                      Family{"HeadsAsPublished", WriteHeadsAsPublished, ItsOwn}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace recollect::model
