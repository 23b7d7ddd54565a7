// Checks for any device run of a sample, made on the host run of the kernel's blocks and on a GPU
// alike: a runner is called as run(logits, settings of each row, never, shift) and returns the
// choices; the logits begin `shift` floats past an aligned address.
#ifndef RECOLLECT_TESTS_KERNELS_SAMPLE_SAMPLE_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_SAMPLE_SAMPLE_DEVICE_CHECKS_H_

#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::sample_cases {

using Choices = std::vector<int32_t>;
using Settings = std::vector<SampleSettings>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline int32_t VocabOf(const std::vector<float>& logits, size_t rows) {
  return rows == 0 ? 0 : static_cast<int32_t>(logits.size() / rows);
}

// Runs the kernel's thread blocks on the host.
inline Choices RunOnHost(const std::vector<float>& logits, const Settings& settings,
                         const NeverChosen& never, size_t shift, HostOrder order) {
  HostArray<float> memory(logits, shift);
  HostArray<SampleSettings> set(settings);
  HostArray<int32_t> choices(Choices(settings.size(), -2));
  EXPECT_EQ(
      OnHost(order, SampleOp{memory.data(), static_cast<int64_t>(settings.size()),
                             VocabOf(logits, settings.size()), never, set.data(), choices.data()}),
      absl::OkStatus());
  return choices.Download();
}

// Returns what Sample chooses for each row.
inline Choices Expected(const std::vector<float>& logits, const Settings& settings,
                        const NeverChosen& never) {
  const auto vocab = static_cast<size_t>(VocabOf(logits, settings.size()));
  SampleScratch scratch;
  Choices expected;
  for (size_t row = 0; row < settings.size(); ++row) {
    const auto of_row = std::span(logits).subspan(row * vocab, vocab);
    expected.push_back(Sample(of_row, settings[row], never, scratch));
  }
  return expected;
}

// Settings for greedy choice, then for each cut alone and all together, at low, middle and high
// draws.
inline Settings AllSettings() {
  Settings all = {{}, {.top_k = 3, .top_p = 0.5, .draw = 0.9}};
  for (const double draw : {0.0, 0.4, 0.999999999}) {
    for (const float temperature : {0.01f, 0.7f, 3.0f, kInf}) {
      all.push_back({.temperature = temperature, .draw = draw});
    }
    all.push_back({.temperature = 1, .top_k = 1, .draw = draw});
    all.push_back({.temperature = 1, .top_k = 7, .draw = draw});
    all.push_back({.temperature = 1, .top_k = 1 << 30, .draw = draw});
    all.push_back({.temperature = 1, .top_p = 1e-9, .draw = draw});
    all.push_back({.temperature = 1, .top_p = 0.9, .draw = draw});
    all.push_back({.temperature = 2, .top_k = 40, .top_p = 0.8, .draw = draw});
  }
  return all;
}

// Checks that rows with few different logits, many of them equal and some NaN or infinite, give the
// choices of the host.
template <typename Runner>
void CheckAgreesWithTheHost(const Runner& run, std::span<const int64_t> vocabs) {
  const float strange[] = {std::nanf(""), -kInf, kInf, -0.0f};
  const Settings settings = AllSettings();
  for (int64_t vocab : vocabs) {
    std::vector<float> logits =
        Normals(static_cast<int64_t>(settings.size()) * vocab, static_cast<uint32_t>(vocab));
    for (size_t i = 0; i < logits.size(); ++i) {
      const size_t row = i / static_cast<size_t>(vocab);
      if (row % 3 > 0) logits[i] = std::round(logits[i] * static_cast<float>(row % 3));
      if (row % 4 == 1 && i % 7 == 0) logits[i] = strange[row / 4 % 4];
    }
    for (const NeverChosen& never : {NeverChosen{}, NeverChosen{1, 0}, NeverChosen{-1, 3}}) {
      const Choices expected = Expected(logits, settings, never);
      for (size_t shift : {0, 1}) {
        EXPECT_EQ(run(logits, settings, never, shift), expected)
            << vocab << ", never " << never.first << ", " << never.second << ", shift " << shift;
      }
    }
  }
}

template <typename Runner>
void CheckOrder(const Runner& run) {
  const float nan = std::nanf("");
  const auto choice = [&](const std::vector<float>& logits, const NeverChosen& never = {}) {
    // Top-k 1 leaves the best one, too.
    const Choices drawn = run(logits, {{.temperature = 1, .top_k = 1, .draw = 0.5}}, never, 0);
    EXPECT_EQ(run(logits, {{}}, never, 0), drawn);
    return drawn[0];
  };
  EXPECT_EQ(choice({2, 5, 5, 2, 5}), 1);
  EXPECT_EQ(choice({-2, -5, -1.5f}), 2);
  EXPECT_EQ(choice({-3, -0.0f, 0}), 1);
  EXPECT_EQ(choice({-3, 0, -0.0f}), 1);
  EXPECT_EQ(choice({nan, -kInf, -7, -nan, -8}), 2);
  EXPECT_EQ(choice({1, kInf, nan, kInf}), 1);
  EXPECT_EQ(choice({nan, nan}), -1);
  EXPECT_EQ(choice({-kInf, nan}), -1);
  EXPECT_EQ(choice({-std::numeric_limits<float>::max()}), 0);
  EXPECT_EQ(choice({9, 8, 1, 3, 3}, {0, 1}), 3);
  EXPECT_EQ(choice({9, 8}, {1, 0}), -1);
  EXPECT_EQ(choice({9, 8}, {7, -5}), 0) << "no such indices";
}

// Checks that rows without logits have no choice.
template <typename Runner>
void CheckNoLogits(const Runner& run) {
  const Settings settings = {{}, {.temperature = 1}, {.temperature = 1, .top_k = 2, .top_p = 0.5}};
  EXPECT_EQ(run({}, settings, NeverChosen{}, 0), Choices(3, -1));
  EXPECT_EQ(run({}, Settings{}, NeverChosen{}, 0), Choices());
}

}  // namespace recollect::kernels::sample_cases

#endif  // RECOLLECT_TESTS_KERNELS_SAMPLE_SAMPLE_DEVICE_CHECKS_H_
