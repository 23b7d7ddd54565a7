#include "kernels/gca/gca.h"

#include <algorithm>
#include <functional>

#include "kernels/gca/gca_bf16.h"
#include "tests/kernels/cpu/served_team.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/gca/gca_cases.h"

namespace recollect::kernels {
namespace {

using gca_cases::AddGroup;
using gca_cases::Call;
using gca_cases::CallOf;
using gca_cases::Case;
using gca_cases::Cases;
using gca_cases::Inputs;

class GcaTest : public OpTest<Call> {};
class GcaDeviceTest : public GcaTest {};

TEST_P(GcaTest, MatchesReference) {
  for (const Case& c : Cases()) {
    // Large scores: the off-by-one vanishes beside them; small ones: it dominates.
    for (float deviation : {0.1f, 1.0f, 5.0f}) {
      for (DType q_dtype : gca_cases::kDTypes) {
        SCOPED_TRACE(absl::StrCat(c.rows, " rows, ", c.chunk_rows.size(), " chunks, deviation ",
                                  deviation, q_dtype == DType::kBf16 ? ", bf16" : ", fp32"));
        const Inputs in(c, deviation, q_dtype);
        gca_cases::ExpectMatchesReference(c, in, RunInAllWays(CallOf(c, in)));
      }
    }
  }
}

// Rows of one case cut into calls.
std::vector<float> RunInCallsOf(int64_t step, const Case& c, const Inputs& in,
                                const std::function<std::vector<float>(const Call&)>& run) {
  std::vector<float> out;
  for (int64_t r = 0; r < c.rows; r += step) {
    Call some{.shape = c.shape};
    AddGroup(in, r, std::min(r + step, c.rows), &some);
    const std::vector<float> of_some = run(some);
    out.insert(out.end(), of_some.begin(), of_some.end());
  }
  return out;
}

TEST_P(GcaTest, ARowHasTheSameBitsInAnyBatch) {
  for (const Case& c : Cases()) {
    for (DType q_dtype : gca_cases::kDTypes) {
      const Inputs in(c, 1, q_dtype);
      const std::vector<float> whole = Run(CallOf(c, in));
      for (int64_t step : {1, 3, 16}) {
        SCOPED_TRACE(absl::StrCat(c.rows, " rows, step ", step));
        EXPECT_TRUE(SameBits(RunInCallsOf(step, c, in, [&](const Call& some) { return Run(some); }),
                             whole));
      }
    }
  }
}

// A machine chooses one code for pairs of bf16 numbers; here each of them runs.
TEST(GcaOfBf16Test, EveryCodeMatchesTheReferenceWithTheSameBitsInAnyBatch) {
  for (const PairCode& code : PairCodes(DetectIsa())) {
    const auto run = [&](const Call& call) {
      OpContext ctx;
      Guarded out(static_cast<int64_t>(call.q.size()));
      for (const GcaGroup& group : call.groups) {
        GcaByPairs(ctx, code, call.shape, call.q.data(), group.rows, call.chunks.data(),
                   call.weights.data(), group.chunks, out.data());
      }
      return out.values();
    };
    for (const Case& c : Cases()) {
      if (!PairsCanAttend(ShapeOfChunk(c.shape))) continue;
      for (const float deviation : {0.1f, 1.0f, 5.0f}) {
        SCOPED_TRACE(absl::StrCat(code.name, ", ", c.rows, " rows, deviation ", deviation));
        const Inputs in(c, deviation, DType::kBf16);
        const std::vector<float> whole = run(CallOf(c, in));
        gca_cases::ExpectMatchesReference(c, in, whole);
        for (int64_t step : {1, 5, 33}) {
          EXPECT_TRUE(SameBits(RunInCallsOf(step, c, in, run), whole)) << "step " << step;
        }
      }
    }
  }
}

// A thread of a team takes other chunks, of one row, or other heads and rows, of many.
TEST(GcaOfBf16Test, ATeamComputesTheSameBits) {
  for (const PairCode& code : PairCodes(DetectIsa())) {
    for (const int64_t rows : {0, 1, 2, 5, 33, 64}) {
      const Case c{{6, 2, 64}, rows, {63, 17, 1, 64, 40}};
      const Inputs in(c, 1, DType::kBf16);
      const auto run = [&](OpContext& ctx) {
        Guarded out(rows * in.width);
        GcaByPairs(ctx, code, c.shape, in.q.data(), rows, in.chunks.data(), in.weights.data(),
                   in.count(), out.data());
        return out.values();
      };
      OpContext alone;
      const std::vector<float> expected = run(alone);
      for (const int servers : {1, 3}) {
        SCOPED_TRACE(absl::StrCat(code.name, ", ", rows, " rows, ", servers, " servers"));
        ServedTeam team(servers);
        EXPECT_TRUE(SameBits(run(team.leader()), expected));
      }
    }
  }
}

// A slow fallback must not go unnoticed.
TEST(GcaOfBf16Test, UsesAmxWhereTheMachineHasIt) {
  const std::vector<PairCode> codes = PairCodes(DetectIsa());
  if (codes.empty() || codes.front().attend != &avx512::AttendSpanByTiles) {
    GTEST_SKIP() << "needs AMX";
  }
  const Case c{{4, 4, 64}, 5, {63, 17}};
  const Inputs in(c, 1, DType::kBf16);
  OpContext ctx;
  std::vector<float> best(5 * in.width), out(best.size());
  GcaByPairs(ctx, codes.front(), c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(),
             in.count(), best.data());
  GcaOfBf16(ctx, c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(), in.count(),
            out.data());
  EXPECT_TRUE(SameBits(out, best));
}

// Sessions of different rows and chunks in one call: each row as alone.
TEST_P(GcaTest, ARowHasTheSameBitsAmongOtherSessions) {
  const GcaShape shape{4, 2, 64};
  const std::vector<Case> sessions = {
      {shape, 5, {63, 1, 16, 17}}, {shape, 1, {}}, {shape, 1, {63}}, {shape, 64, {40, 63}}};
  for (DType q_dtype : gca_cases::kDTypes) {
    Call together{.shape = shape};
    std::vector<float> rows;
    std::vector<Inputs> kept;  // the chunks' memory
    kept.reserve(sessions.size());
    for (const Case& c : sessions) {
      const Inputs& in = kept.emplace_back(c, 1.0f, q_dtype);
      AddGroup(in, 0, c.rows, &together);
      for (int64_t r = 0; r < c.rows; ++r) {
        Call alone{.shape = shape};
        AddGroup(in, r, r + 1, &alone);
        const std::vector<float> row = Run(alone);
        rows.insert(rows.end(), row.begin(), row.end());
      }
    }
    EXPECT_TRUE(SameBits(RunInAllWays(together), rows));
  }
}

// Rows that read all chunks, and a row that reads the last one of them.
TEST_P(GcaTest, GroupsMayReadTheSameChunks) {
  for (DType q_dtype : gca_cases::kDTypes) {
    const Case c{{4, 2, 12}, 5, {63, 2, 17}};
    const Inputs in(c, 1, q_dtype);
    Call call = CallOf(c, in), first{.shape = c.shape}, last = CallOf(c, in);
    call.groups = {{.rows = 4, .chunks = 3},
                   {.first_row = 4, .first_chunk = 2, .rows = 1, .chunks = 1}};
    AddGroup(in, 0, 4, &first);
    last.q.erase(last.q.begin(), last.q.begin() + 4 * in.width);
    last.groups = {{.rows = 1, .chunks = 1}};
    last.chunks = {in.chunks[2]};
    last.weights = {in.weights[2]};
    std::vector<float> expected = Run(first);
    const std::vector<float> row = Run(last);
    expected.insert(expected.end(), row.begin(), row.end());
    EXPECT_TRUE(SameBits(RunInAllWays(call), expected));
  }
}

TEST_P(GcaTest, ChunksDoNotShareASoftmax) {
  const Case c{{2, 2, 64}, 4, {63, 20}};
  const Inputs in(c, 1);
  const std::vector<float> both = Run(CallOf(c, in));
  std::vector<float> sum(both.size());
  for (size_t e = 0; e < in.chunks.size(); ++e) {
    Call one = CallOf(c, in);
    one.groups[0].chunks = 1;
    one.chunks = {in.chunks[e]};
    one.weights = {1};
    const std::vector<float> out = Run(one);
    for (size_t i = 0; i < out.size(); ++i) sum[i] += in.weights[e] * out[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(both[i], sum[i], 1e-5);
}

// All scores equal 0: each of n rows gets 1 / (1 + n), exactly what "off by one" means; 1 / n
// without.
TEST_P(GcaTest, SoftmaxIsOffByOneUnlessOrdinary) {
  const std::vector<Bf16> memory(3 * 16, Bf16::FromFloat(1.0f));
  Call call{.shape = {1, 1, 16},
            .q = std::vector<float>(16, 0.0f),
            .groups = {{.rows = 1, .chunks = 1}},
            .chunks = {{memory.data(), memory.data(), 3}},
            .weights = {1}};
  for (float v : Run(call)) EXPECT_FLOAT_EQ(v, 0.75f);
  call.shape.off_by_one = false;
  for (float v : Run(call)) EXPECT_FLOAT_EQ(v, 1.0f);
}

#ifdef RECOLLECT_TEST_ON_CUDA
// The bits of tensor cores are the device's own.
TEST_P(GcaDeviceTest, HasTheBitsOfTheHostInFp32) {
  HostDevice host;
  for (const Case& c : Cases()) {
    const Inputs in(c, 1);
    const Call call = CallOf(c, in);
    EXPECT_TRUE(SameBits(RunInAllWays(call), gca_cases::RunOnDevice(host, call, 0)))
        << c.rows << " rows";
  }
}
#endif

TEST_P(GcaDeviceTest, RefusesMoreGroupsThanPlanned) {
  device_cases::Arrays arrays(*device_);
  const GcaPlan plan =
      *PlanGca({4, 4, 64}, {.groups = 1, .rows = 2, .max_group_rows = 1}, DType::kFloat32);
  const std::vector<GcaGroup> groups = {{.rows = 1}, {.first_row = 1, .rows = 1}};
  EXPECT_EQ(
      device_->Run(GcaOp{.plan = plan, .groups = arrays.Place(groups), .group_count = 2}).code(),
      absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Runners, GcaTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, GcaDeviceTest, ::testing::Values(Runner()), NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
