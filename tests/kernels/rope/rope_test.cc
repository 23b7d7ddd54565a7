#include "kernels/rope/rope.h"

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/rope/rope_cases.h"

namespace recollect::kernels {
namespace {

using rope_cases::Call;

class RopeTest : public OpTest<Call> {};
class RopeDeviceTest : public RopeTest {};

TEST_P(RopeTest, MatchesReferenceUpToSixteenMillionPositions) {
  for (const Call& call : rope_cases::Calls()) {
    SCOPED_TRACE(rope_cases::NameOf(call));
    rope_cases::ExpectMatchesReference(call, RunInAllWays(call));
  }
}

// One row at a time, backwards, on the CPU with a context of its own: a row depends on its position
// alone.
TEST_P(RopeTest, ARowHasTheSameBitsInAnyBatch) {
  for (const Call& call : rope_cases::Calls()) {
    SCOPED_TRACE(rope_cases::NameOf(call));
    const std::vector<float> whole = Run(call);
    OpContext fresh(GetParam().value_or(Isa::kScalar));
    for (int64_t row = call.rows() - 1; row >= 0; --row) {
      const Call alone = RowOf(call, row);
      EXPECT_TRUE(SameBits(on_cpu() ? RunOnCpu(fresh, alone) : Run(alone),
                           std::span(whole).subspan(row * call.stride(), call.stride())))
          << row;
    }
  }
}

TEST_P(RopeDeviceTest, HasTheBitsOfVectorCode) {
  for (const Isa isa : RunnableIsas()) {
    if (isa == Isa::kScalar) continue;
    OpContext ctx(isa);
    for (const Call& call : rope_cases::Calls()) {
      EXPECT_TRUE(SameBits(Run(call), RunOnCpu(ctx, call)))
          << IsaName(isa) << ", " << rope_cases::NameOf(call);
    }
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
// Many thread blocks.
TEST_P(RopeDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < 1000; ++row) positions.push_back(row * row);
  for (const RopeAngles& angles : rope_cases::Angles()) {
    const Call call = rope_cases::CallOf(angles, 24, 64, positions);
    EXPECT_TRUE(SameBits(Run(call), RunOnDevice(host, call, 0)));
  }
}
#endif

TEST(RopeTableTest, ManyBasesInTurnKeepTheirBits) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 12; ++i) {
        OpContext fresh(isa);
        const Call call = rope_cases::CallOf({.base = 10000.0 + 100 * i}, 2, 32, {1000 + i});
        EXPECT_TRUE(SameBits(rope_cases::RunOnCpu(ctx, call), rope_cases::RunOnCpu(fresh, call)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runners, RopeTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, RopeDeviceTest, ::testing::Values(Runner()), NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
