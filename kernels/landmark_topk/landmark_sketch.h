// A coarse copy of landmark keys that gives an upper bound of each key's score, so that an exact
// search (LandmarkTopK) reads only the keys that may be among the best. The cost of a search is
// reading: half a byte a number here, two bytes in a key.
//
// The first `dense` numbers of a key are the encoder's, and vary in few directions: a sketch keeps
// their coordinates along some directions b, found in a sample, in 8 bits each. Every other number
// is a coordinate of its own, in 4 bits. With x = κ - μ, the distance from the sample's mean:
//   c_j = <b_j, x>,  ĉ_j = (code_j - mid) step_j
// For a query u with w_j = <b_j, u>, by Cauchy-Schwarz for each part of the error of the codes:
//   <u, κ> <= <u, μ> + Σ_j w_j ĉ_j + |w| |c - ĉ| + |u - Σ_j w_j b_j| |x - Σ_j c_j b_j|
// w_j step_j are rounded to 8 bits, so that the sum is one of integers; the norm of that error
// times the norm of the codes is added, and so is the possible rounding error of fp32, here and in
// LandmarkScores. Norms of errors are kept for 16 keys at once, as the largest of each; for the
// 4-bit coordinates, which have the largest error, each key also has its fraction of that in 8
// bits. Keys and queries that are not finite, or whose squares are not, have bounds that exclude no
// key.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/large_vector.h"
#include "base/numeric/bf16.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// The width of keys, and how many of their first numbers vary in few directions.
struct SketchShape {
  int64_t width = 0;
  int64_t dense = 0;
};

// Codes lie in blocks of 16 keys, as rows of 64 bytes; row r has coordinates 8r to 8r + 7. Bytes 4i
// to 4i + 3 belong to key i: coordinate 8r + j in the lower half of byte 4i + j, 8r + 4 + j in its
// upper half. Blocks of 8-bit codes have the rows of their upper halves, then those of their lower
// halves. Blocks of 4-bit codes are stored separately: a query's sums over them may be known before
// the rest of the query, and the codes need not be read again then.
inline constexpr int64_t kSketchBlock = 16, kSketchRowBytes = 64, kSketchRowCoordinates = 8;
struct SketchRows {
  int64_t fine = 0;    // of upper halves, and as many of lower halves
  int64_t coarse = 0;  // of 4-bit codes
  int64_t all() const { return 2 * fine + coarse; }
};

// Upper bounds of the errors of the codes of 16 keys.
struct SketchErrors {
  float fine = 0, coarse = 0;              // |c - ĉ| of the 8-bit and of the 4-bit coordinates
  float outside = 0;                       // |x - Σ_j c_j b_j|
  float fine_codes = 0, coarse_codes = 0;  // |code - mid|
  float size = 0;                          // |κ| + |μ|
  uint8_t coarse_part[kSketchBlock] =
      {};  // of each key, |c - ĉ| at most so many 255ths of `coarse`
};

// The factors that turn a query's sums over codes into bounds.
struct SketchFactors {
  float base = 0, fine = 0, coarse = 0;
  SketchErrors errors;  // the factor of each error; coarse_part is unused
  // Slack returns what errors add to the bounds of all keys of a block, CoarseSlack what they add
  // for each 255th of its coarse error.
  float Slack(const SketchErrors& block) const {
    return errors.fine * block.fine + errors.outside * block.outside +
           errors.fine_codes * block.fine_codes + errors.coarse_codes * block.coarse_codes +
           errors.size * block.size;
  }
  float CoarseSlack(const SketchErrors& block) const {
    return errors.coarse * block.coarse * (1.0f / 255);
  }
};

struct SketchQuery {
  std::vector<int8_t> fine, coarse;  // weights [rows, 8], -127 to 127; the fine rows' twice
  SketchFactors factors;
};

// The weights [coarse rows, 8] of a query, and the place for its sums over 4-bit codes.
struct SketchSums {
  const int8_t* weights = nullptr;
  int32_t* sums = nullptr;  // [16 blocks]
};

// The weights of a part of a query, rounded to integers to be summed over codes.
struct SketchRounded {
  double scale = 0;  // weight = scale * integer
  double sum = 0;    // of weights as rounded
  double error = 0;  // the norm of what rounding leaves
};

// The columns of the matrix of directions: the directions in use, and zeros.
inline constexpr int64_t kSketchColumns = 48;
// Computes coordinates[rows, 48] = x[rows, dense] · directions[dense, 48]; rows of x are `stride`
// apart.
RECOLLECT_CPU_OP(SketchCoordinates,
                 void(OpContext& ctx, const float* x, int64_t stride, int64_t rows, int64_t dense,
                      const float* directions, float* coordinates));

// Computes the sums of several queries over 4-bit codes [blocks, coarse rows, 64], in one pass.
RECOLLECT_CPU_OP(SumSketch, void(OpContext& ctx, std::span<const SketchSums> queries,
                                 int64_t coarse_rows, const uint8_t* codes, int64_t blocks));

// Computes bounds[16 blocks] from 8-bit codes [blocks, 2 fine rows, 64] and a query's sums over
// 4-bit ones: no finite score (LandmarkScores) is greater than its bound, unless that is NaN.
RECOLLECT_CPU_OP(SketchBounds,
                 void(OpContext& ctx, const int8_t* fine_weights, const SketchFactors& factors,
                      int64_t fine_rows, const uint8_t* codes, const int32_t* sums,
                      const SketchErrors* errors, int64_t blocks, float* bounds));

// Writes the indices of the bounds[count] that are not below `least`, NaN included, in order to
// places[count]. Returns their number.
RECOLLECT_CPU_OP(BoundsNotBelow, int64_t(OpContext& ctx, const float* bounds, int64_t count,
                                         float least, int64_t* places));

// Thread-safe once encoded, except for Grow. Owns its memory and borrows no keys.
class LandmarkSketch {
 public:
  // Chooses mean, directions and steps by a sample of keys [count, width].
  LandmarkSketch(const SketchShape& shape, const Bf16* keys, int64_t count);
  // Encodes blocks [begin, end) of the same keys. Threads may encode different blocks at once.
  void Encode(OpContext& ctx, const Bf16* keys, int64_t begin, int64_t end);
  // Covers `count` keys from now on: encodes those that it does not cover yet along the directions
  // that it has. `keys` has all of them, the covered ones unchanged. Not beside any other call.
  void Grow(OpContext& ctx, const Bf16* keys, int64_t count);

  int64_t count() const { return count_; }
  int64_t blocks() const { return BlocksOf(count_); }
  // Returns the bytes of a sketch of `count` keys, except for some KB that do not grow with them.
  static int64_t BytesOf(const SketchShape& shape, int64_t count);

  SketchQuery Prepare(OpContext& ctx, std::span<const float> query) const;
  // Returns the coarse weights of any query that ends with these numbers, its 4-bit coordinates.
  std::vector<int8_t> CoarseWeights(std::span<const float> query_end) const;
  // The number of 4-bit coordinates at the end of a query.
  int64_t coarse_numbers() const { return shape_.width - dense_; }

  // Sum and Bounds cover the keys of blocks [first, first + blocks).
  void Sum(OpContext& ctx, std::span<const SketchSums> queries, int64_t first,
           int64_t blocks) const {
    SumSketch(ctx, queries, rows_.coarse,
              coarse_codes_.data() + first * rows_.coarse * kSketchRowBytes, blocks);
  }
  void Bounds(OpContext& ctx, const SketchQuery& query, const int32_t* sums, int64_t first,
              int64_t blocks, float* bounds) const {
    SketchBounds(ctx, query.fine.data(), query.factors, rows_.fine,
                 fine_codes_.data() + 2 * first * rows_.fine * kSketchRowBytes, sums,
                 errors_.data() + first, blocks, bounds);
  }

 private:
  static int64_t BlocksOf(int64_t count) { return (count + kSketchBlock - 1) / kSketchBlock; }
  // Makes room for the codes and errors of `count` keys.
  void Resize(int64_t count);
  void FindDirections(const std::vector<std::vector<double>>& sample);
  SketchRounded RoundCoarse(std::span<const float> query_end, int8_t* weights) const;
  // Encodes a key. x: the key minus the mean; c: its coordinates along directions. Returns |c - ĉ|
  // of its 4-bit coordinates.
  float EncodeKey(const float* x, const float* c, uint8_t* codes, float* left,
                  SketchErrors& errors) const;
  // Packs codes[16, coordinates], a byte each, into a block.
  void Pack(const uint8_t* codes, int64_t block);

  const SketchShape shape_;
  int64_t count_ = 0;
  const SketchRows rows_;
  const int64_t dense_;            // the numbers that directions replace: shape_.dense or none
  std::vector<float> mean_;        // [width]
  std::vector<float> directions_;  // [dense_, 48], orthonormal columns
  std::vector<float> steps_;       // of the fine coordinates, then of the coarse ones
  std::vector<float> per_step_;    // 1 / steps_
  double mean_norm_ = 0;
  LargeVector<uint8_t> fine_codes_, coarse_codes_;  // written block by block
  std::vector<SketchErrors> errors_;                // by block
};

}  // namespace recollect::kernels
