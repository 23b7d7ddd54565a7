// What any device run of the greedy choice must do, checked on the host run of the kernel's blocks
// and on a GPU alike: a runner is called as run(logits, rows, never, shift) and returns the
// choices; the logits begin `shift` floats past an aligned address.
#ifndef RECOLLECT_TESTS_KERNELS_ARGMAX_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_ARGMAX_DEVICE_CHECKS_H_

#include <limits>

#include "tests/kernels/host_launches.h"
#include "tests/kernels/kernel_test_util.h"

namespace recollect::kernels::argmax_cases {

using Choices = std::vector<int32_t>;

// The kernel's thread blocks, on the host.
inline Choices RunOnHost(const std::vector<float>& logits, int64_t rows, const NeverChosen& never,
                         size_t shift, HostOrder order) {
  HostArray<float> memory(logits, shift);
  HostArray<int32_t> choices(Choices(rows, -2));
  if (rows == 0) return {};
  const auto vocab = static_cast<int32_t>(static_cast<int64_t>(logits.size()) / rows);
  EXPECT_EQ(ArgmaxOnHost(order, memory.data(), rows, vocab, never, choices.data()),
            absl::OkStatus());
  return choices.Download();
}

// Rows of few different logits, many of them equal, with some that are no numbers: those of the
// host's scalar loop.
template <typename Runner>
void CheckAgreesWithTheHost(const Runner& run, std::span<const int64_t> vocabs) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float strange[] = {std::nanf(""), -kInf, kInf, -0.0f};
  for (int64_t vocab : vocabs) {
    for (int64_t rows : {0, 1, 5}) {
      std::vector<float> logits = Normals(rows * vocab, static_cast<uint32_t>(vocab));
      for (int64_t i = 0; i < rows * vocab; ++i) {
        const int64_t row = i / vocab;
        if (row > 0) logits[i] = std::round(logits[i] * static_cast<float>(row));
        if (row > 1 && i % 7 == 0) logits[i] = strange[row % 4];
      }
      for (const NeverChosen& never : {NeverChosen{}, NeverChosen{1, 0}, NeverChosen{-1, 3}}) {
        Choices expected;
        for (int64_t row = 0; row < rows; ++row) {
          expected.push_back(Argmax(std::span(logits).subspan(row * vocab, vocab), never));
        }
        for (size_t shift : {0, 1}) {
          EXPECT_EQ(run(logits, rows, never, shift), expected)
              << rows << " x " << vocab << ", never " << never.first << ", " << never.second
              << ", shift " << shift;
        }
      }
    }
  }
}

template <typename Runner>
void CheckOrder(const Runner& run) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const auto choice = [&](const std::vector<float>& logits, const NeverChosen& never = {}) {
    return run(logits, 1, never, 0)[0];
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

}  // namespace recollect::kernels::argmax_cases

#endif  // RECOLLECT_TESTS_KERNELS_ARGMAX_DEVICE_CHECKS_H_
