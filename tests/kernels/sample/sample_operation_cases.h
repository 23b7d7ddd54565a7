// The rows that samples on a device are tested on, and how they run there.
#pragma once

#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::sample_cases {

using Choices = std::vector<int32_t>;
using Settings = std::vector<SampleSettings>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline int32_t VocabOf(const std::vector<float>& logits, size_t rows) {
  return rows == 0 ? 0 : static_cast<int32_t>(logits.size() / rows);
}

// Returns the choices; the logits begin `shift` floats past an aligned address.
inline Choices RunOnDevice(Device& device, const std::vector<float>& logits,
                           const Settings& settings, const NeverChosen& never = {},
                           size_t shift = 0) {
  device_cases::Arrays arrays(device);
  int32_t* const choices = arrays.Place(Choices(settings.size(), -2), 1);
  EXPECT_EQ(device.Run(SampleOp{arrays.Place(logits, shift), std::ssize(settings),
                                VocabOf(logits, settings.size()), never, arrays.Place(settings),
                                choices}),
            absl::OkStatus());
  return arrays.Read(choices, std::ssize(settings));
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

// Expects the order of the logits from run(logits, settings, never), which returns the choices.
template <typename Runner>
void ExpectOrder(const Runner& run) {
  const float nan = std::nanf("");
  const auto choice = [&](const std::vector<float>& logits, const NeverChosen& never = {}) {
    // Top-k 1 leaves the best one, too.
    const Choices drawn = run(logits, {{.temperature = 1, .top_k = 1, .draw = 0.5}}, never);
    EXPECT_EQ(run(logits, {{}}, never), drawn);
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

}  // namespace recollect::kernels::sample_cases
