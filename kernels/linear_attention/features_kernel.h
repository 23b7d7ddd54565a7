// The thread blocks of linear attention's features on a device. A warp takes one head of one row,
// and each lane four neighbouring channels of y = x * scale. For softmax, of y and of -y:
//   the largest by exchange; each lane adds its exp(y_i - largest) in order; these sums are added
//   by exchange, from 16 lanes apart down to 1; each number is divided by the sum
#pragma once

#include "kernels/block/launch.h"
#include "kernels/linear_attention/linear_attention_plan.h"

namespace recollect::kernels::cuda {

constexpr int kFeatureThreads = 256;
constexpr int kFeatureWarp = 32;
constexpr int kFeaturePiece = 4;
static_assert(kFeatureWarp * kFeaturePiece >= kMaxLinearHeadDim, "one piece a lane");

// A lane's channels of y, then of -y.
using FeatureLane = Floats<2 * kFeaturePiece>;

// Replaces y by softmax(y) and -y by softmax(-y), each over the channels of a warp. count_of(t) is
// the number of thread t's channels.
template <typename Block, typename CountOf>
RECOLLECT_HD void SoftmaxOfWarps(Block& block,
                                 typename Block::template PerThread<FeatureLane>& lanes,
                                 const CountOf& count_of) {
  typename Block::template PerThread<Floats<2>> largest(block), sums(block);
  block.Run([&](int t) {
    Floats<2>& own = largest[t];
    own.v[0] = own.v[1] = -Infinity();
    RECOLLECT_UNROLL
    for (int i = 0; i < 2 * kFeaturePiece; ++i) {
      float& most = own.v[i / kFeaturePiece];
      if (i % kFeaturePiece < count_of(t)) most = Max(most, lanes[t].v[i]);
    }
  });
  block.XorMax(largest, kFeatureWarp);
  block.Run([&](int t) {
    Floats<2>& own = sums[t];
    own.v[0] = own.v[1] = 0;
    RECOLLECT_UNROLL
    for (int i = 0; i < 2 * kFeaturePiece; ++i) {
      const int half = i / kFeaturePiece;
      float& number = lanes[t].v[i];
      number = Exp(Add(number, -largest[t].v[half]));
      if (i % kFeaturePiece < count_of(t)) own.v[half] = Add(own.v[half], number);
    }
  });
  block.XorSum(sums, kFeatureWarp);
  block.Run([&](int t) {
    RECOLLECT_UNROLL
    for (int i = 0; i < 2 * kFeaturePiece; ++i) {
      float& number = lanes[t].v[i];
      number = Div(number, sums[t].v[i / kFeaturePiece]);
    }
  });
}

// Thread block `index`, a warp for each of its heads.
template <FeatureMap kMap>
struct FeatureBlocks : Blocks<kFeatureThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const FeaturesOp& op, BlockIndex at) {
    const int64_t index = at.x;
    const RowSizes& sizes = op.sizes;
    const auto head_of = [&](int t) {
      return index * (kFeatureThreads / kFeatureWarp) + t / kFeatureWarp;
    };
    const auto column_of = [](int t) { return t % kFeatureWarp * kFeaturePiece; };
    // The number of a thread's channels: 0 or less if it has no channels or no head.
    const auto count_of = [&](int t) {
      return head_of(t) < sizes.rows * sizes.heads ? sizes.width - column_of(t) : 0;
    };
    typename Block::template PerThread<FeatureLane> lanes(block);
    block.Run([&](int t) {
      float y[kFeaturePiece] = {}, scale[kFeaturePiece];
      if (count_of(t) > 0) {
        const int64_t row = head_of(t) / sizes.heads, head = head_of(t) % sizes.heads;
        ReadFour(op.x + row * sizes.stride + head * sizes.width + column_of(t), count_of(t), y);
      }
      if (op.scale != nullptr) {
        ReadFour(op.scale + column_of(t), count_of(t), scale);
        RECOLLECT_UNROLL
        for (int i = 0; i < kFeaturePiece; ++i) y[i] = Mul(y[i], scale[i]);
      }
      RECOLLECT_UNROLL
      for (int i = 0; i < kFeaturePiece; ++i) {
        lanes[t].v[i] = kMap == FeatureMap::kRelu ? Max(y[i], 0.0f) : y[i];
        lanes[t].v[kFeaturePiece + i] = kMap == FeatureMap::kRelu ? Max(-y[i], 0.0f) : -y[i];
      }
    });
    if constexpr (kMap == FeatureMap::kSoftmax) SoftmaxOfWarps(block, lanes, count_of);
    block.Run([&](int t) {
      if (count_of(t) <= 0) return;
      float* const to = op.features + head_of(t) * 2 * sizes.width + column_of(t);
      WriteFour(to, count_of(t), lanes[t].v);
      WriteFour(to + sizes.width, count_of(t), lanes[t].v + kFeaturePiece);
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const FeaturesOp& op) {
  RETURN_IF_ERROR(CheckFeatures(op.sizes));
  const int64_t heads = op.sizes.width == 0 ? 0 : op.sizes.rows * op.sizes.heads;
  const BlockGrid grid = {.x = CeilDiv(heads, kFeatureThreads / kFeatureWarp)};
  return op.map == FeatureMap::kSoftmax
             ? launch(FeatureBlocks<FeatureMap::kSoftmax>{}, "features", grid, op)
             : launch(FeatureBlocks<FeatureMap::kRelu>{}, "features", grid, op);
}

}  // namespace recollect::kernels::cuda
