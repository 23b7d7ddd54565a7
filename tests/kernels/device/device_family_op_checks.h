// What the operations of families other than the flagship must do on any kernels::Device: those of
// block top-k and of linear attention, as device_op_checks.h has the others.
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_

#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/block_topk/block_bounds_device_checks.h"
#include "tests/kernels/block_topk/block_topk_device_checks.h"
#include "tests/kernels/device/device_op_checks.h"
#include "tests/kernels/linear_attention/linear_attention_device_checks.h"

namespace recollect::kernels::device_cases {

// Rows at a distance; y is x.
inline void CheckRmsNormByHead(Device& device) {
  constexpr int64_t kHeads = 4, kDim = kWidth / kHeads, kStride = kWidth + 3;
  Arrays arrays(device);
  OpContext ctx;
  const std::vector<float> x = Normals(kRows * kStride, 1), gain = Normals(kWidth, 2);
  std::vector<float> expected = x;
  for (int64_t i = 0; i < kRows * kHeads; ++i) {
    float* const head = expected.data() + i / kHeads * kStride + i % kHeads * kDim;
    RmsNorm(ctx, head, gain.data() + i % kHeads * kDim, 1e-6f, 1, kDim, head);
  }
  float* const y = arrays.Place(x);
  ASSERT_EQ(device.Run(RmsNormOp{.sizes = {kRows, kDim, kHeads, kStride},
                                 .x = y,
                                 .gain = arrays.Place(gain),
                                 .gain_by_head = true,
                                 .eps = 1e-6f,
                                 .y = {y}}),
            absl::OkStatus());
  const auto magnitude = [&](int64_t i) {
    return i % kStride < kWidth ? std::abs(expected[i]) : 0;  // nothing between rows
  };
  ExpectClose(arrays.Read(y, kRows * kStride), expected, magnitude, testing::kRmsNormFactor);
}

inline void CheckBlockBounds(Device& device) {
  for (const bool mean : {false, true}) {
    Arrays arrays(device);
    const bounds_cases::Call call = bounds_cases::CallOf(3, 6, kWidth, mean);
    const float* const keys = arrays.Place(call.keys);
    float* const low = arrays.Place(std::vector<float>(3 * kWidth));
    float* const high = arrays.Place(std::vector<float>(3 * kWidth));
    std::vector<KeyBlock> blocks;
    for (int64_t b = 0; b < 3; ++b) {
      blocks.push_back({keys + b * 6 * kWidth, low + b * kWidth, high + b * kWidth});
    }
    ASSERT_EQ(device.Run(BlockBoundsOp{call.sizes, arrays.Place(blocks)}), absl::OkStatus());
    bounds_cases::ExpectSame({arrays.Read(low, 3 * kWidth), arrays.Read(high, 3 * kWidth)},
                             bounds_cases::Expected(call));
  }
  EXPECT_EQ(device.Run(BlockBoundsOp{{.blocks = -1, .block = 1}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device.Run(BlockBoundsOp{{.blocks = 0, .block = 1, .width = 1}}), absl::OkStatus());
}

// Rows of two sequences, every head with a pattern of its own.
inline void CheckBlockTopK(Device& device) {
  block_cases::Call call = block_cases::RandomCall(4, 11, 6, 5, 20, false);
  call.patterns.assign(block_cases::kPatterns.begin(), block_cases::kPatterns.begin() + 4);
  const auto rows = static_cast<int64_t>(call.rows.size());
  Arrays arrays(device);
  std::vector<BlockTopKRow> sequences, on_rows;
  for (const block_cases::Bounds& bounds : call.sequences) {
    sequences.push_back({arrays.Place(bounds.low), arrays.Place(bounds.high)});
  }
  BlockTopKSizes sizes{.rows = rows,
                       .heads = call.heads,
                       .head_dim = call.head_dim,
                       .block = call.block,
                       .count = call.count};
  for (const block_cases::Row& row : call.rows) {
    on_rows.push_back(sequences[row.sequence]);
    on_rows.back().position = row.position;
    sizes.max_position = std::max(sizes.max_position, row.position);
  }
  sizes.max_entries = sizes.max_position + 1;
  const auto plan = PlanBlockTopK(sizes, device.multiprocessors());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const int64_t lists = rows * call.heads;
  BlockTopKOp in;
  in.plan = *plan;
  in.q = arrays.Place(call.q);
  in.q_stride = call.width();
  in.rows = arrays.Place(on_rows);
  in.patterns = arrays.Place(call.patterns);
  in.patterns_per_head = 1;
  in.workspace = arrays.Allocate(plan->workspace_bytes);
  in.entries = arrays.Place(std::vector<int32_t>(lists * sizes.max_entries));
  in.counts = arrays.Place(std::vector<int32_t>(lists));
  ASSERT_EQ(device.Run(in), absl::OkStatus());
  const std::vector<int32_t> counts = arrays.Read(in.counts, lists);
  const std::vector<int32_t> entries = arrays.Read(in.entries, lists * sizes.max_entries);
  for (int64_t i = 0; i < lists; ++i) {
    const auto first = entries.begin() + i * sizes.max_entries;
    EXPECT_EQ(std::vector<int32_t>(first, first + counts[i]),
              block_cases::Expected(call, i / call.heads, static_cast<int>(i % call.heads)))
        << i;
  }
}

inline void CheckFeatures(Device& device) {
  constexpr int kHeads = 2, kDim = kWidth / kHeads;
  constexpr int64_t kStride = kWidth + 3;
  Arrays arrays(device);
  OpContext ctx;
  const std::vector<float> x = Normals(kRows * kStride, 1), scale = Normals(kDim, 2);
  const float* const on_x = arrays.Place(x);
  const float* const on_scale = arrays.Place(scale);
  float* const features = arrays.Place(std::vector<float>(2 * kCount));
  std::vector<float> expected(2 * kCount);
  const double magnitude = 1 + Largest(x) * (1 + Largest(scale));
  for (const FeatureMap map : {FeatureMap::kSoftmax, FeatureMap::kRelu}) {
    for (const bool scaled : {false, true}) {
      Features(ctx, map, x.data(), kStride, kRows, kHeads, kDim, scaled ? scale.data() : nullptr,
               expected.data());
      ASSERT_EQ(
          device.Run(FeaturesOp{
              map, {kRows, kDim, kHeads, kStride}, on_x, scaled ? on_scale : nullptr, features}),
          absl::OkStatus());
      ExpectClose(
          arrays.Read(features, 2 * kCount), expected, [&](int64_t) { return magnitude; },
          testing::kFeatureFactor);
    }
  }
  EXPECT_EQ(device.Run(FeaturesOp{FeatureMap::kRelu, {1, 129}, on_x, nullptr, features}).code(),
            absl::StatusCode::kInvalidArgument);
}

// Two sequences, one of which has nothing enter.
inline void CheckLinearAttention(Device& device) {
  linear_cases::Call call{.shape = {4, 2, 10}};
  call.initial = linear_cases::RandomInitial(call, 9);
  call.sequences = {linear_cases::RandomSequence(call, 7, 5, 1),
                    linear_cases::RandomSequence(call, 3, 0, 5)};
  Arrays arrays(device);
  std::vector<LinearAttentionSegment> segments;
  for (const linear_cases::Sequence& sequence : call.sequences) {
    const bool enters = sequence.entering > 0;
    segments.push_back({.q = arrays.Place(sequence.q),
                        .keys = enters ? arrays.Place(sequence.keys) : nullptr,
                        .values = enters ? arrays.Place(sequence.values) : nullptr,
                        .state = arrays.Place(sequence.state),
                        .out = arrays.Place(std::vector<float>(sequence.rows * call.out_width())),
                        .rows = sequence.rows,
                        .entering = sequence.entering});
  }
  const auto plan = PlanLinearAttention({.segments = 2, .shape = call.shape});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(
      device.Run(LinearAttentionOp{*plan, arrays.Place(segments), 2, arrays.Place(call.initial)}),
      absl::OkStatus());
  for (size_t s = 0; s < segments.size(); ++s) {
    const linear_cases::Sequence& sequence = call.sequences[s];
    linear_cases::ExpectMatchesReference(
        call, sequence,
        {arrays.Read(segments[s].out, sequence.rows * call.out_width()),
         arrays.Read(segments[s].state, static_cast<int64_t>(sequence.state.size()))});
  }
}

}  // namespace recollect::kernels::device_cases

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_
