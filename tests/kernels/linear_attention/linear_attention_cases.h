// The calls that linear attention is tested on, with their tolerances, and how they run on the CPU
// and on a device.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::linear_cases {

// Rows of a sequence, the positions that enter in the last of them, and S before.
struct Sequence {
  int64_t rows = 0, entering = 0;
  std::vector<float> q = {}, keys = {}, values = {}, state = {};
};

struct Call {
  static constexpr int kWays = 2;  // of RunOnDevice
  LinearAttentionShape shape;
  std::vector<float> initial = {};  // empty: none
  std::vector<Sequence> sequences = {};
  int64_t spare = 0;  // segments for which a plan has room beyond those of the call

  int64_t q_width() const { return int64_t{shape.heads} * 2 * shape.head_dim; }
  int64_t out_width() const { return int64_t{shape.heads} * shape.head_dim; }
  int64_t key_width() const { return int64_t{shape.kv_heads} * 2 * shape.head_dim; }
  int64_t value_width() const { return int64_t{shape.kv_heads} * shape.head_dim; }
};

// out and S after it, of one sequence.
struct Result {
  std::vector<float> out, state;
};

// A run returns what each sequence came to.
inline Result RunOnCpu(OpContext& ctx, const Call& call, const Sequence& sequence) {
  Guarded out(sequence.rows * call.out_width()), state(sequence.state);
  LinearAttention(ctx, call.shape, sequence.q.data(), sequence.rows,
                  {sequence.keys.data(), sequence.values.data(), sequence.entering},
                  call.initial.empty() ? nullptr : call.initial.data(), state.data(), out.data());
  return {out.values(), state.values()};
}
inline std::vector<Result> RunOnCpu(OpContext& ctx, const Call& call) {
  std::vector<Result> results;
  for (const Sequence& sequence : call.sequences) results.push_back(RunOnCpu(ctx, call, sequence));
  return results;
}

// Arrays at aligned addresses and a float past them.
inline std::vector<Result> RunOnDevice(Device& device, const Call& call, int way) {
  const absl::StatusOr<LinearAttentionPlan> plan = PlanLinearAttention(
      {.segments = static_cast<int64_t>(call.sequences.size()) + call.spare, .shape = call.shape});
  EXPECT_TRUE(plan.ok()) << plan.status();
  device_cases::Arrays arrays(device);
  std::vector<LinearAttentionSegment> segments;
  for (const Sequence& sequence : call.sequences) {
    const bool enters = sequence.entering > 0;
    const std::vector<float> nothing(sequence.rows * call.out_width(), std::nanf(""));
    segments.push_back({.q = arrays.Place(sequence.q, way),
                        .keys = enters ? arrays.Place(sequence.keys, way) : nullptr,
                        .values = enters ? arrays.Place(sequence.values, way) : nullptr,
                        .state = arrays.Place(sequence.state, way),
                        .out = arrays.Place(nothing, way),
                        .rows = sequence.rows,
                        .entering = sequence.entering});
  }
  EXPECT_EQ(CheckLinearAttention(*plan, segments), absl::OkStatus());
  EXPECT_EQ(device.Run(LinearAttentionOp{
                .plan = *plan,
                .segments = arrays.Place(segments),
                .segment_count = static_cast<int64_t>(segments.size()),
                .initial = call.initial.empty() ? nullptr : arrays.Place(call.initial, way)}),
            absl::OkStatus());
  std::vector<Result> results;
  for (const LinearAttentionSegment& segment : segments) {
    results.push_back({arrays.Read(segment.out, segment.rows * call.out_width()),
                       arrays.Read(segment.state, call.key_width() * call.shape.head_dim)});
  }
  return results;
}

inline Sequence RandomSequence(const Call& call, int64_t rows, int64_t entering, uint32_t seed) {
  return {.rows = rows,
          .entering = entering,
          .q = Normals(rows * call.q_width(), seed),
          .keys = Normals(entering * call.key_width(), seed + 1),
          .values = Normals(entering * call.value_width(), seed + 2),
          .state = Normals(call.key_width() * call.shape.head_dim, seed + 3)};
}

inline std::vector<float> RandomInitial(const Call& call, uint32_t seed) {
  return Normals(call.q_width() * call.shape.head_dim, seed);
}

// Rows [begin, end), with the state of `before`.
inline Sequence Slice(const Call& call, const Sequence& sequence, int64_t begin, int64_t end,
                      const Result& before) {
  const auto slice = [](const std::vector<float>& all, int64_t width, int64_t from, int64_t to) {
    return std::vector<float>(all.begin() + from * width, all.begin() + to * width);
  };
  const int64_t late = sequence.rows - sequence.entering;
  const int64_t first = std::max<int64_t>(begin - late, 0), last = std::max<int64_t>(end - late, 0);
  return {.rows = end - begin,
          .entering = last - first,
          .q = slice(sequence.q, call.q_width(), begin, end),
          .keys = slice(sequence.keys, call.key_width(), first, last),
          .values = slice(sequence.values, call.value_width(), first, last),
          .state = before.state};
}

inline void ExpectMatchesReference(const Call& call, const Sequence& sequence,
                                   const Result& result) {
  const Result expected = RunOnCpu(Scalar(), call, sequence);
  // The same over absolute values says how much was added up.
  Call sizes = call;
  Sequence absolute = sequence;
  for (auto* numbers :
       {&sizes.initial, &absolute.q, &absolute.keys, &absolute.values, &absolute.state}) {
    for (float& number : *numbers) number = std::abs(number);
  }
  const Result magnitudes = RunOnCpu(Scalar(), sizes, absolute);
  ASSERT_EQ(result.out.size(), expected.out.size());
  for (size_t i = 0; i < expected.out.size(); ++i) {
    EXPECT_CLOSE(result.out[i], expected.out[i], magnitudes.out[i],
                 testing::kLinearAttentionFactor);
  }
  for (size_t i = 0; i < expected.state.size(); ++i) {
    EXPECT_CLOSE(result.state[i], expected.state[i], magnitudes.state[i],
                 testing::kLinearAttentionFactor);
  }
}

inline ::testing::AssertionResult SameBits(const Result& actual, const Result& expected) {
  if (auto same = kernels::SameBits(actual.out, expected.out); !same) return same << ", out";
  return kernels::SameBits(actual.state, expected.state) << ", state";
}
inline ::testing::AssertionResult SameBits(const std::vector<Result>& actual,
                                           const std::vector<Result>& expected) {
  for (size_t s = 0; s < expected.size(); ++s) {
    if (auto same = SameBits(actual[s], expected[s]); !same) return same << ", sequence " << s;
  }
  return ::testing::AssertionSuccess();
}

// Heads, key-value heads and widths of all kinds; groups that fill a step, and that do not.
inline const LinearAttentionShape kShapes[] = {
    {1, 1, 2}, {4, 2, 8}, {6, 2, 34}, {3, 3, 10}, {2, 1, 64}, {4, 1, 128}, {9, 1, 6}, {40, 2, 16},
};

}  // namespace recollect::kernels::linear_cases
