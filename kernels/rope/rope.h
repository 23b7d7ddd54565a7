// Rotary position embedding: pair j, (a, b), of a head's channels, j < head_dim / 2, is rotated by
// an angle that depends on its position p:
//   a' = a cos θ - b sin θ,   b' = b cos θ + a sin θ,
//   θ = floor(p / step) base^(-2j / head_dim) / divisor_j
// Angles are reduced in double: position 16 million has no usable fp32 angle (design 2.2). fp32,
// serial; a row's result depends on its position alone.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Which channels of a head are pair j, j < head_dim/2.
enum class RopePairs {
  kHalves,       // j and j + head_dim/2
  kInterleaved,  // 2j and 2j + 1
};

// The angles of a sequence.
struct RopeAngles {
  double base = 10000;
  RopePairs pairs = RopePairs::kHalves;
  int64_t step = 1;  // positions that share an angle
  // [head_dim / 2] divisors of the pairs' angles, as LLaMA 3 stretches them; empty: all are 1.
  // Borrowed for the call.
  std::span<const double> divisors = {};

  double Divisor(int pair) const {
    return divisors.empty() ? 1 : divisors[static_cast<size_t>(pair)];
  }
};

// In place on x[rows, heads, head_dim] with rows `row_stride` floats apart; row r has position
// first_position + r. head_dim is even.
void Rope(OpContext& ctx, const RopeAngles& angles, int64_t first_position, int64_t rows,
          int64_t row_stride, int heads, int head_dim, float* x);

// The factors by which Rope's vector code rotates rows at these positions, for rotations elsewhere
// (kernels/rope/rope_operation.h): cosines[p, j] = cos θ and sines[p, j] = sin θ of positions[p]
// and pair j, [positions, head_dim / 2] fp32, dense. The same bits on every instruction set.
void RopeFactors(OpContext& ctx, const RopeAngles& angles, std::span<const int64_t> positions,
                 int head_dim, float* cosines, float* sines);

}  // namespace recollect::kernels
