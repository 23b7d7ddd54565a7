#include "kernels/argmax_block.h"

#include "tests/kernels/argmax_device_checks.h"

namespace recollect::kernels {
namespace {

auto OnHost(HostOrder order) {
  return
      [order](const std::vector<float>& logits, int64_t rows, const NeverChosen& never,
              size_t shift) { return argmax_cases::RunOnHost(logits, rows, never, shift, order); };
}

TEST(ArgmaxTest, HostTakesTheFirstOfTheLargest) {
  argmax_cases::CheckOrder([](const std::vector<float>& logits, int64_t, const NeverChosen& never,
                              size_t) { return argmax_cases::Choices{Argmax(logits, never)}; });
  EXPECT_EQ(Argmax({}), -1);
}

TEST(ArgmaxBlockTest, AgreesWithTheHost) {
  const int64_t vocabs[] = {1, 2, 3, 4, 5, 100, 1023, 4096, 4098, 17000, 65537};
  argmax_cases::CheckAgreesWithTheHost(OnHost(HostOrder::kPhases), vocabs);
}

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(ArgmaxBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  const int64_t rows = 4, vocab = 4098;
  const std::vector<float> logits = Normals(rows * vocab, 1);
  argmax_cases::Choices expected;
  for (int64_t row = 0; row < rows; ++row) {
    expected.push_back(Argmax(std::span(logits).subspan(row * vocab, vocab)));
  }
  for (HostOrder order : kHostOrders) {
    EXPECT_EQ(OnHost(order)(logits, rows, {}, 0), expected) << static_cast<int>(order);
  }
}

TEST(ArgmaxBlockTest, TiesAndLogitsThatAreNoNumbers) {
  argmax_cases::CheckOrder(OnHost(HostOrder::kPhases));
}

TEST(ArgmaxBlockTest, NoLogitsNoChoice) {
  EXPECT_EQ(argmax_cases::RunOnHost({}, 3, {}, 0, HostOrder::kPhases),
            (argmax_cases::Choices{-1, -1, -1}));
}

}  // namespace
}  // namespace recollect::kernels
