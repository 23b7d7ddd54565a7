// The thread blocks of the row-wise operations on a device. All but RMSNorm are y[r, j] = f(a[r,
// j], b[r, j]): a thread computes four neighbouring numbers of a row with one of the functions
// below. RMSNorm sums a row's squares in an order that depends on its width:
//   lane l of L takes the numbers 4 l to 4 l + 3, 4 (l + L) to …, one Fma after the other; each 32
//   lanes are added by exchange, from 16 lanes apart down to 1, then these sums in order
// with L = 32, a warp, for rows up to kWarpRowWidth, and a whole block for wider ones.
#pragma once

#include "absl/strings/string_view.h"
#include "kernels/block/launch.h"
#include "kernels/elementwise/elementwise_operations.h"

namespace recollect::kernels::cuda {

// ---- y = f(a, b) -------------------------------------------------------------------------------

constexpr int kRowThreads = 256;
constexpr int kRowPiece = 4;

// Out is float, or Bf16, to which results are rounded.
template <typename Out>
struct RowArgs {
  int64_t rows = 0;
  int64_t width = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;  // null: zeros
  int64_t b_stride = 0;
  Out* y = nullptr;  // may be a or b if the strides are equal
  int64_t y_stride = 0;
};

struct SiluProduct {
  static RECOLLECT_HD float Of(float a, float b) { return Mul(Mul(a, Sigmoid(a)), b); }
};
struct GeluProduct {
  static RECOLLECT_HD float Of(float a, float b) { return Mul(Gelu(a), b); }
};
struct SigmoidProduct {
  static RECOLLECT_HD float Of(float a, float b) { return Mul(Sigmoid(a), b); }
};
struct Sum {
  static RECOLLECT_HD float Of(float a, float b) { return Add(a, b); }
};
struct GeluAlone {
  static RECOLLECT_HD float Of(float a, float) { return Gelu(a); }
};
struct Unchanged {
  static RECOLLECT_HD float Of(float a, float) { return a; }
};

// A row-wise operation: its name, the stride that is checked, its arguments.
template <typename Function, typename Out>
struct RowCall {
  absl::string_view name;
  int64_t stride = 0;
  RowArgs<Out> args;
};

template <typename Out>
RowCall<SiluProduct, Out> RowCallOf(const SwiGluOp& op, Out* y) {
  const int64_t width = op.width;
  return {"SwiGLU", width, {op.rows, width, op.x, 2 * width, op.x + width, 2 * width, y, width}};
}
template <typename Out>
RowCall<GeluProduct, Out> RowCallOf(const GeGluOp& op, Out* y) {
  const int64_t width = op.width;
  return {"GEGLU", width, {op.rows, width, op.x, 2 * width, op.x + width, 2 * width, y, width}};
}
template <typename Out>
RowCall<GeluAlone, Out> RowCallOf(const GeluOp& op, Out* y) {
  return {"GELU", op.count, {1, op.count, op.x, op.count, nullptr, op.count, y, op.count}};
}
template <typename Out>
RowCall<SigmoidProduct, Out> RowCallOf(const SigmoidGateOp& op, Out* y) {
  const int64_t width = op.width;
  return {"sigmoid gate",
          op.gate_stride,
          {op.rows, width, op.gate, op.gate_stride, op.x, width, y, width}};
}
inline RowCall<Sum, float> RowCallOf(const AddOp& op, float* y) {
  return {"sum", op.count, {1, op.count, y, op.count, op.x, op.count, y, op.count}};
}
inline RowCall<Unchanged, Bf16> RowCallOf(const ConvertToBf16Op& op, Bf16* y) {
  return {"conversion to bf16",
          op.stride,
          {op.rows, op.width, op.x, op.stride, nullptr, 0, y, op.width}};
}

template <typename Out>
RECOLLECT_HD int64_t PiecesOfRow(const RowArgs<Out>& args) {
  return (args.width + kRowPiece - 1) / kRowPiece;
}

// Pieces kRowThreads * index and those that follow.
template <typename Function, typename Out, typename Block>
RECOLLECT_HD void RunRows(Block& block, const RowArgs<Out>& args, int64_t index) {
  const int64_t pieces = PiecesOfRow(args);
  block.Run([&](int t) {
    const int64_t piece = index * kRowThreads + t;
    const int64_t row = piece / pieces, column = piece % pieces * kRowPiece;
    if (row >= args.rows) return;
    const int64_t left = args.width - column;
    float a[kRowPiece], b[kRowPiece] = {};
    ReadFour(args.a + row * args.a_stride + column, left, a);
    if (args.b != nullptr) ReadFour(args.b + row * args.b_stride + column, left, b);
    RECOLLECT_UNROLL
    for (int i = 0; i < kRowPiece; ++i) a[i] = Function::Of(a[i], b[i]);
    WriteFour(args.y + row * args.y_stride + column, left, a);
  });
}

// ---- RMSNorm -----------------------------------------------------------------------------------

constexpr int kNormThreads = 256;
constexpr int kNormWarp = 32;
constexpr int kNormAhead = 4;            // pieces whose loads a thread has in flight
constexpr int64_t kWarpRowWidth = 1024;  // eight pieces a lane

struct NormShared {
  float sums[kNormThreads / kNormWarp];  // of each warp
};

template <typename Out>
struct NormArgs {
  RowSizes sizes;
  const float* x = nullptr;
  const float* gain = nullptr;  // [width], or [heads, width]; null: ones
  int64_t gain_stride = 0;      // 0 or width, accordingly
  float eps = 0;
  Out* y = nullptr;  // laid out as x, which it may be
};

template <typename Out>
NormArgs<Out> NormArgsOf(const RmsNormOp& op, Out* y) {
  return {op.sizes, op.x, op.gain, op.gain_by_head ? op.sizes.width : 0, op.eps, y};
}

// Threads per row.
RECOLLECT_HD int NormLanes(int64_t width) {
  return width <= kWarpRowWidth ? kNormWarp : kNormThreads;
}

// Thread block `index`: eight narrow rows, or a wide one. A head of a row counts as a row here.
struct NormBlocks : Blocks<kNormThreads, NormShared> {
  template <typename Block, typename Out>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const NormArgs<Out>& args,
                               BlockIndex at) {
    const int64_t index = at.x;
    const RowSizes& sizes = args.sizes;
    const int lanes = NormLanes(sizes.width);
    const int64_t step = lanes * kRowPiece;
    const int64_t first = index * (kNormThreads / lanes), rows = sizes.rows * sizes.heads;
    const auto place_of = [&](int t) {
      const int64_t row = first + t / lanes;
      return row / sizes.heads * sizes.stride + row % sizes.heads * sizes.width;
    };
    typename Block::template PerThread<Floats<1>> sums(block);
    block.Run([&](int t) {
      float sum = 0;
      if (first + t / lanes < rows) {
        const float* x = args.x + place_of(t);
        for (int64_t i = t % lanes * kRowPiece; i < sizes.width; i += kNormAhead * step) {
          float pieces[kNormAhead][kRowPiece];
          RECOLLECT_UNROLL
          for (int u = 0; u < kNormAhead; ++u) {
            ReadFour(x + i + u * step, sizes.width - i - u * step, pieces[u]);
          }
          RECOLLECT_UNROLL
          for (int u = 0; u < kNormAhead * kRowPiece; ++u) {
            const float number = pieces[u / kRowPiece][u % kRowPiece];
            sum = Fma(number, number, sum);
          }
        }
      }
      sums[t].v[0] = sum;
    });
    block.XorSum(sums, kNormWarp);
    block.Phase([&](int t) {
      if (t % kNormWarp == 0) shared.sums[t / kNormWarp] = sums[t].v[0];
    });
    block.Run([&](int t) {
      if (first + t / lanes >= rows) return;
      const float* of_row = shared.sums + t / lanes * (lanes / kNormWarp);
      float sum = of_row[0];
      for (int warp = 1; warp < lanes / kNormWarp; ++warp) sum = Add(sum, of_row[warp]);
      const float mean = Div(sum, static_cast<float>(sizes.width));
      const float scale = Div(1.0f, Sqrt(Add(mean, args.eps)));
      const float* x = args.x + place_of(t);
      const float* gain = args.gain;
      if (gain != nullptr) gain += (first + t / lanes) % sizes.heads * args.gain_stride;
      Out* y = args.y + place_of(t);
      for (int64_t i = t % lanes * kRowPiece; i < sizes.width; i += step) {
        float numbers[kRowPiece], gains[kRowPiece];
        ReadFour(x + i, sizes.width - i, numbers);
        if (gain != nullptr) ReadFour(gain + i, sizes.width - i, gains);
        RECOLLECT_UNROLL
        for (int u = 0; u < kRowPiece; ++u) {
          numbers[u] = Mul(numbers[u], scale);
          if (gain != nullptr) numbers[u] = Mul(numbers[u], gains[u]);
        }
        WriteFour(y + i, sizes.width - i, numbers);
      }
    });
  }
};

// ---- Launches ----------------------------------------------------------------------------------

template <typename Function>
struct RowBlocks : Blocks<kRowThreads> {
  template <typename Block, typename Out>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const RowArgs<Out>& args, BlockIndex at) {
    RunRows<Function>(block, args, at.x);
  }
};
template <typename Launcher, typename Function, typename Out>
absl::Status LaunchRows(const Launcher& launch, const RowCall<Function, Out>& call) {
  const RowArgs<Out>& args = call.args;
  RETURN_IF_ERROR(CheckRows(call.name, {args.rows, args.width, 1, call.stride}));
  const int64_t blocks = CeilDiv(args.rows * PiecesOfRow(args), kRowThreads);
  return launch(RowBlocks<Function>{}, call.name, {.x = blocks}, args);
}

template <typename Launcher, typename Op>
absl::Status LaunchOp(const Launcher& launch, const Op& op) {
  return WithNumbers(op.y, [&](auto* y) { return LaunchRows(launch, RowCallOf(op, y)); });
}

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const RmsNormOp& op) {
  const RowSizes& sizes = op.sizes;
  RETURN_IF_ERROR(CheckRows("RMSNorm", sizes));
  const int64_t rows = sizes.width == 0 ? 0 : sizes.rows * sizes.heads;
  const BlockGrid grid = {.x = CeilDiv(rows, kNormThreads / NormLanes(sizes.width))};
  return WithNumbers(
      op.y, [&](auto* y) { return launch(NormBlocks{}, "RMSNorm", grid, NormArgsOf(op, y)); });
}

}  // namespace recollect::kernels::cuda
