// The shapes that Grouped Cross-Attention is tested on, with their inputs and tolerances, and how a
// call of it runs on the CPU and on a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/types.h"
#include "kernels/gca/gca.h"
#include "kernels/gca/gca_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::gca_cases {

struct Case {
  GcaShape shape;
  int64_t rows;
  std::vector<int> chunk_rows;
};

inline std::vector<Case> Cases() {
  return {
      {{4, 4, 64}, 0, {63}},
      {{4, 4, 64}, 3, {}},
      {{4, 4, 64}, 1, {1}},
      {{4, 4, 64}, 64, {63, 63, 63, 63, 63, 63, 63, 63}},
      {{4, 2, 64}, 5, {63, 1, 16, 17}},
      {{6, 2, 10}, 17, {15, 63}},
      {{2, 1, 16}, 33, {48, 49}},
      {{3, 3, 72}, 2, {2, 33}},
      {{2, 1, 16}, 3, {64, 48}},
      {{2, 1, 128}, 6, {64, 3}},
      {{1, 1, 80}, 40, {63, 64, 9}},
      // The ordinary softmax.
      {{4, 4, 64, false}, 64, {64, 64, 1}},
      {{6, 2, 10, false}, 17, {15, 64}},
  };
}

struct Inputs {
  // Behind a chunk's rows, up to 64, its memory is NaN.
  Inputs(const Case& c, float deviation, DType dtype_of_q = DType::kFloat32)
      : width(static_cast<int64_t>(c.shape.heads) * c.shape.head_dim),
        q_dtype(dtype_of_q),
        q(Normals(c.rows * width, 1, deviation)) {
    if (q_dtype == DType::kBf16) {
      for (float& number : q) number = recollect::RoundToBf16(number);
    }
    const int64_t memory_width = static_cast<int64_t>(c.shape.kv_heads) * c.shape.head_dim;
    for (size_t e = 0; e < c.chunk_rows.size(); ++e) {
      const auto seed = static_cast<uint32_t>(10 * e);
      const int64_t before = Before(e), count = before + c.chunk_rows[e] * memory_width;
      keys.push_back(NormalBf16(count, seed + 2, deviation));
      values.push_back(NormalBf16(count, seed + 3));
      for (auto* memory : {&keys.back(), &values.back()}) {
        memory->resize(before + kMaxChunkTokens * memory_width, Bf16::FromFloat(std::nanf("")));
      }
      weights.push_back(1.0f / static_cast<float>(e + 2));
    }
    for (size_t e = 0; e < c.chunk_rows.size(); ++e) {
      chunks.push_back({keys[e].data() + Before(e), values[e].data() + Before(e), c.chunk_rows[e]});
    }
  }
  // Every other chunk's memory is misaligned by a number before it.
  static int64_t Before(size_t chunk) { return chunk % 2 == 0 ? 1 : 0; }

  int64_t count() const { return static_cast<int64_t>(chunks.size()); }

  int64_t width;
  DType q_dtype;  // that has the numbers of q
  std::vector<float> q;
  std::vector<std::vector<Bf16>> keys, values;
  std::vector<float> weights;
  std::vector<MemoryView> chunks;
};

inline double Magnitude(const Case& c, const Inputs& in, int64_t row, int head) {
  const double rounded = in.q_dtype == DType::kBf16 ? testing::kBf16Probabilities : 0;
  double magnitude = 0;
  for (size_t e = 0; e < in.chunks.size(); ++e) {
    double largest_value = 0, largest_score = 0;
    for (int j = 0; j < in.chunks[e].rows; ++j) {
      double score = 0;
      for (int d = 0; d < c.shape.head_dim; ++d) {
        const int kv_head = head * c.shape.kv_heads / c.shape.heads;
        const int64_t at = (j * c.shape.kv_heads + kv_head) * c.shape.head_dim + d;
        score += std::abs(in.q[row * in.width + head * c.shape.head_dim + d] *
                          in.chunks[e].keys[at].ToFloat());
        largest_value =
            std::max<double>(largest_value, std::abs(in.chunks[e].values[at].ToFloat()));
      }
      largest_score = std::max(largest_score, score / std::sqrt(c.shape.head_dim));
    }
    magnitude += in.weights[e] * largest_value * (1 + largest_score + rounded);
  }
  return magnitude;
}

// A call of the operation: groups of rows with their chunks.
struct Call {
  static constexpr int kWays = 4;  // of RunOnDevice
  GcaShape shape;
  DType q_dtype = DType::kFloat32;
  std::vector<float> q = {};
  std::vector<GcaGroup> groups = {};
  std::vector<MemoryView> chunks = {};
  std::vector<float> weights = {};

  int64_t width() const { return int64_t{shape.heads} * shape.head_dim; }
};

// Appends rows [begin, end) of a case as one group.
inline void AddGroup(const Inputs& in, int64_t begin, int64_t end, Call* call) {
  if (begin == end) return;
  call->groups.push_back({.first_row = static_cast<int64_t>(call->q.size()) / in.width,
                          .first_chunk = static_cast<int64_t>(call->chunks.size()),
                          .rows = static_cast<int32_t>(end - begin),
                          .chunks = static_cast<int32_t>(in.chunks.size())});
  call->q_dtype = in.q_dtype;
  call->q.insert(call->q.end(), in.q.begin() + begin * in.width, in.q.begin() + end * in.width);
  call->chunks.insert(call->chunks.end(), in.chunks.begin(), in.chunks.end());
  call->weights.insert(call->weights.end(), in.weights.begin(), in.weights.end());
}

inline Call CallOf(const Case& c, const Inputs& in) {
  Call call{.shape = c.shape};
  AddGroup(in, 0, c.rows, &call);
  return call;
}

// A run returns out [rows, heads, head_dim], NaN where nothing was written.
inline std::vector<float> RunOnCpu(OpContext& ctx, const Call& call) {
  Guarded out(static_cast<int64_t>(call.q.size()));
  for (const GcaGroup& group : call.groups) {
    const int64_t at = group.first_row * call.width();
    auto* run = call.q_dtype == DType::kBf16 ? &GcaOfBf16 : &Gca;
    run(ctx, call.shape, call.q.data() + at, group.rows, call.chunks.data() + group.first_chunk,
        call.weights.data() + group.first_chunk, group.chunks, out.data() + at);
  }
  return out.values();
}

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kBf16};

// Strategies, with q, out and the chunks' memory at aligned addresses and an element past them.
inline std::vector<float> RunOnDevice(Device& device, const Call& call, int way) {
  const auto strategy = way % 2 == 0 ? GcaPlan::Strategy::kByChunk : GcaPlan::Strategy::kByGroup;
  const size_t shift = way / 2;
  GcaSizes sizes{.groups = static_cast<int64_t>(call.groups.size())};
  for (const GcaGroup& group : call.groups) {
    sizes.rows = std::max(sizes.rows, group.first_row + group.rows);
    sizes.max_group_rows = std::max(sizes.max_group_rows, group.rows);
    sizes.max_group_chunks = std::max(sizes.max_group_chunks, group.chunks);
  }
  const absl::StatusOr<GcaPlan> plan = PlanGca(call.shape, sizes, call.q_dtype, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckGca(*plan, call.groups, call.chunks), absl::OkStatus());
  device_cases::Arrays arrays(device);
  std::vector<MemoryView> chunks;
  for (const MemoryView& chunk : call.chunks) {
    const int64_t count = int64_t{chunk.rows} * call.shape.kv_heads * call.shape.head_dim;
    const auto place = [&](const Bf16* from) {
      return arrays.Place(std::vector<Bf16>(from, from + count), shift);
    };
    const Bf16* const keys = place(chunk.keys);
    chunks.push_back({keys, place(chunk.values), chunk.rows});
  }
  const std::vector<float> nothing(call.q.size(), std::nanf(""));
  GcaOp op;
  op.plan = *plan;
  op.q = arrays.PlaceAs(call.q_dtype, call.q, shift);
  op.groups = arrays.Place(call.groups);
  op.group_count = sizes.groups;
  op.chunks = arrays.Place(chunks);
  op.weights = arrays.Place(call.weights);
  op.workspace = arrays.Allocate(plan->workspace_bytes);
  op.out = arrays.Place(nothing, shift);
  EXPECT_EQ(device.Run(op), absl::OkStatus());
  return arrays.Read(op.out, static_cast<int64_t>(call.q.size()));
}

// `out` [rows, heads, head_dim] against the scalar double reference.
inline void ExpectMatchesReference(const Case& c, const Inputs& in, std::span<const float> out) {
  std::vector<float> expected(c.rows * in.width);
  ASSERT_EQ(out.size(), expected.size());
  Gca(Scalar(), c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(), in.count(),
      expected.data());
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int h = 0; h < c.shape.heads; ++h) {
      const double magnitude = Magnitude(c, in, r, h);
      for (int d = 0; d < c.shape.head_dim; ++d) {
        const int64_t at = r * in.width + h * c.shape.head_dim + d;
        EXPECT_CLOSE(out[at], expected[at], magnitude, testing::kGcaFactor);
      }
    }
  }
}

}  // namespace recollect::kernels::gca_cases
