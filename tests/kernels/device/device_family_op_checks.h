// Checks for the operations of block top-k on any kernels::Device; device_op_checks.h has those for
// the others.
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_

#include <vector>

#include "tests/kernels/block_topk/block_bounds_device_checks.h"
#include "tests/kernels/block_topk/block_topk_device_checks.h"
#include "tests/kernels/device/device_op_checks.h"

namespace recollect::kernels::device_cases {

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

// Checks rows of several sequences, every head with a pattern of its own.
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

}  // namespace recollect::kernels::device_cases

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_FAMILY_OP_CHECKS_H_
