// A coarse copy of landmark keys that tells of each key how well it can score at most, so that an
// exact search (LandmarkTopK) reads only the keys that may be among the best. What a search costs
// is reading: half a byte a number here, two bytes in a key.
//
// The first `dense` numbers of a key are the encoder's, and vary in few directions: a sketch has
// their coordinates along some directions b, found in a sample, in 8 bits each. Every other number
// is a coordinate of its own, in 4 bits. With x = κ - μ, the distance from the sample's mean:
//   c_j = <b_j, x>,  ĉ_j = (code_j - mid) step_j
// For a query u with w_j = <b_j, u>, and by Cauchy-Schwarz for each part of what codes leave out:
//   <u, κ> <= <u, μ> + Σ_j w_j ĉ_j + |w| |c - ĉ| + |u - Σ_j w_j b_j| |x - Σ_j c_j b_j|
// w_j step_j are rounded to 8 bits, so that the sum is one of integers; the length of that error
// times the length of the codes is added, and so is what fp32 may round away, here and in
// LandmarkScores. Norms of errors are kept for 16 keys at once, the largest of each. Keys and
// queries that are not finite, or whose squares are not, have bounds that rule nothing out.
#ifndef RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_SKETCH_H_
#define RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_SKETCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "base/large_vector.h"
#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Of keys: all their numbers, and how many of these, from the first, vary in few directions.
struct SketchShape {
  int64_t width = 0;
  int64_t dense = 0;
};

// Codes lie in blocks of 16 keys, as rows of 64 bytes; row r has coordinates 8r to 8r + 7. Bytes 4i
// to 4i + 3 are of key i: coordinate 8r + j in the lower half of byte 4i + j, 8r + 4 + j in its
// upper half. Rows come in this order: upper halves of 8-bit codes, their lower halves, 4-bit
// codes.
inline constexpr int64_t kSketchBlock = 16, kSketchRowBytes = 64, kSketchRowCoordinates = 8;
struct SketchRows {
  int64_t fine = 0;    // of upper halves, and as many of lower halves
  int64_t coarse = 0;  // of 4-bit codes
  int64_t all() const { return 2 * fine + coarse; }
};

// What the codes of 16 keys leave out, at most.
struct SketchErrors {
  float fine = 0, coarse = 0;              // |c - ĉ| of the 8-bit and of the 4-bit coordinates
  float outside = 0;                       // |x - Σ_j c_j b_j|
  float fine_codes = 0, coarse_codes = 0;  // |code - mid|
  float size = 0;                          // |κ| + |μ|
};

// How a query's sums over codes become bounds.
struct SketchFactors {
  float base = 0, fine = 0, coarse = 0;
  SketchErrors errors;  // of each error of a block
};

struct SketchQuery {
  std::vector<int8_t> weights;  // [all rows, 8]; -127 to 127
  SketchFactors factors;
};

// Columns of the matrix of directions, those that are used and zeros.
inline constexpr int64_t kSketchColumns = 48;
// coordinates[rows, 48] = x[rows, dense] · directions[dense, 48], row after row of x `stride`
// apart.
void SketchCoordinates(OpContext& ctx, const float* x, int64_t stride, int64_t rows, int64_t dense,
                       const float* directions, float* coordinates);

// bounds[16 blocks]: no finite score (LandmarkScores) is greater, unless its bound is NaN.
void SketchBounds(OpContext& ctx, const int8_t* weights, const SketchFactors& factors,
                  const SketchRows& rows, const uint8_t* codes, const SketchErrors* errors,
                  int64_t blocks, float* bounds);

// The places of bounds[count] that are not below `least`, those that are NaN among them, in order
// into places[count]. -> how many.
int64_t BoundsNotBelow(OpContext& ctx, const float* bounds, int64_t count, float least,
                       int64_t* places);

// Thread-safe once encoded. Owns its memory and borrows no keys.
class LandmarkSketch {
 public:
  // Chooses mean, directions and steps by a sample of keys [count, width].
  LandmarkSketch(const SketchShape& shape, const Bf16* keys, int64_t count);
  // Encodes blocks [begin, end) of the same keys. Threads may encode different blocks at once.
  void Encode(OpContext& ctx, const Bf16* keys, int64_t begin, int64_t end);

  int64_t count() const { return count_; }
  int64_t blocks() const { return BlocksOf(count_); }
  // Memory of the sketch of `count` keys, but for some KB that do not grow with them.
  static int64_t BytesOf(const SketchShape& shape, int64_t count);

  SketchQuery Prepare(OpContext& ctx, std::span<const float> query) const;
  // Of the keys of blocks [first, first + blocks).
  void Bounds(OpContext& ctx, const SketchQuery& query, int64_t first, int64_t blocks,
              float* bounds) const {
    SketchBounds(ctx, query.weights.data(), query.factors, rows_,
                 codes_.data() + first * rows_.all() * kSketchRowBytes, errors_.data() + first,
                 blocks, bounds);
  }

 private:
  static int64_t BlocksOf(int64_t count) { return (count + kSketchBlock - 1) / kSketchBlock; }
  void FindDirections(const std::vector<std::vector<double>>& sample);
  // x: the key less the mean; c: its coordinates along directions.
  void EncodeKey(const float* x, const float* c, uint8_t* codes, float* left,
                 SketchErrors& errors) const;
  // codes[16, coordinates] of a byte each -> a block.
  void Pack(const uint8_t* codes, uint8_t* block) const;

  const SketchShape shape_;
  const int64_t count_;
  const SketchRows rows_;
  const int64_t dense_;            // the numbers that directions replace: shape_.dense or none
  std::vector<float> mean_;        // [width]
  std::vector<float> directions_;  // [dense_, 48], orthonormal columns
  std::vector<float> steps_;       // of the fine coordinates, then of the coarse ones
  std::vector<float> per_step_;    // 1 / steps_
  double mean_norm_ = 0;
  LargeVector<uint8_t> codes_;  // written block by block
  std::vector<SketchErrors> errors_;  // by block
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_SKETCH_H_
