#include "kernels/landmark_topk/landmark_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(SketchCoordinates)
RECOLLECT_CPU_OP_CODE(SumSketch)
RECOLLECT_CPU_OP_CODE(SketchBounds)
RECOLLECT_CPU_OP_CODE(BoundsNotBelow)

namespace {

// The encoder's 256 numbers of the shipped model vary in 32 directions: the 32nd has 0.2 of the
// variance, the 33rd 0.002. Directions that keys of the sample span instead need a few more.
constexpr int64_t kDirections = 40;
static_assert(kDirections <= kSketchColumns && kDirections % kSketchRowCoordinates == 0);
// Below this many numbers a direction, directions would save little.
constexpr int64_t kNumbersPerDirection = 4;
constexpr int64_t kSampleKeys = 1024;
// Of the deviation of a coordinate: the step of 16 levels that leaves least of a normal
// distribution, |c - ĉ| = 0.107 |c|.
constexpr double kCoarseStep = 0.3352;
// The range of a fine coordinate, in deviations to each side.
constexpr double kFineRange = 8;
constexpr int kFineLevels = 256, kCoarseLevels = 16;
// Added to norms, so that squares which vanish in fp32 are covered.
constexpr float kTiny = 1e-17f;
// Beyond it sums could be infinite on the way to a bound that is not.
constexpr float kMaxFactor = 1e25f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t FineRows(const SketchShape& shape) {
  return shape.dense >= kNumbersPerDirection * kDirections ? kDirections / kSketchRowCoordinates
                                                           : 0;
}

SketchRows RowsOf(const SketchShape& shape) {
  const int64_t fine = FineRows(shape);
  const int64_t coarse = shape.width - (fine > 0 ? shape.dense : 0);
  return {fine, (coarse + kSketchRowCoordinates - 1) / kSketchRowCoordinates};
}

// What sums of this many terms may round away in fp32, relative to the norms of both sides: of the
// directions' products with a key and with a query, of LandmarkScores, and of what surrounds them.
double RoundingOf(double terms) { return std::ldexp(terms, -24); }
double DirectionTerms(int64_t dense) {
  return static_cast<double>(dense) * std::sqrt(static_cast<double>(kDirections));
}

// In 16 sums, which the compiler keeps in vectors.
float Norm(const float* numbers, int64_t count) {
  float sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) sums[lane] += numbers[i + lane] * numbers[i + lane];
  }
  for (; i < count; ++i) sums[0] += numbers[i] * numbers[i];
  float sum = 0;
  for (const float lane : sums) sum += lane;
  return std::sqrt(sum);
}

// The norm of what directions leave of a vector, from its own norm and that of its coordinates.
float Outside(float norm, float coordinates, int64_t dense) {
  const double n = norm, c = coordinates;
  const double left = std::max(n * n - c * c, 0.0);
  return static_cast<float>(std::sqrt(left + RoundingOf(4 * DirectionTerms(dense)) * n * n));
}

// The nearest code, and what it leaves; NaN gets code 0.
void Quantise(const float* coordinates, const float* steps, const float* per_step, int64_t count,
              float levels, uint8_t* codes, float* left) {
  const float mid = (levels - 1) / 2;
  for (int64_t j = 0; j < count; ++j) {
    float code = coordinates[j] * per_step[j] + (mid + 0.5f);
    code = code > 0 ? code : 0;
    code = code < levels - 1 ? code : levels - 1;
    const auto whole = static_cast<int32_t>(code);
    codes[j] = static_cast<uint8_t>(whole);
    left[j] = coordinates[j] - (static_cast<float>(whole) - mid) * steps[j];
  }
}

// |code - mid|, exactly up to its root.
float CodeNorm(const uint8_t* codes, int64_t count, int levels) {
  int32_t sum = 0;  // of squares of twice as much, which is an integer
  for (int64_t j = 0; j < count; ++j) {
    const int32_t twice = 2 * codes[j] - (levels - 1);
    sum += twice * twice;
  }
  return std::sqrt(static_cast<float>(sum)) / 2;
}

// The largest error so far, with what its own computation rounds away; infinite once one is no
// number.
void Keep(float& most, float error) {
  most = error < kInfinity ? std::max(most, error * 1.001f + kTiny) : kInfinity;
}

// In 255ths, rounded up; all of what is infinite.
uint8_t PartOf(float error, float most) {
  if (!(most < kInfinity) || !(most > 0)) return 255;
  return static_cast<uint8_t>(std::min(error / most * 255 + 1, 255.0f));
}

SketchRounded RoundWeights(const std::vector<double>& weights, int8_t* out) {
  double most = 0;
  for (const double weight : weights) most = std::max(most, std::abs(weight));
  SketchRounded rounded;
  if (most == 0) return rounded;
  rounded.scale = most / 127;
  for (size_t j = 0; j < weights.size(); ++j) {
    out[j] = static_cast<int8_t>(std::lround(weights[j] / rounded.scale));
    const double error = weights[j] - rounded.scale * out[j];
    rounded.error += error * error;
    rounded.sum += rounded.scale * out[j];
  }
  rounded.error = std::sqrt(rounded.error);
  return rounded;
}

}  // namespace

int64_t LandmarkSketch::BytesOf(const SketchShape& shape, int64_t count) {
  return BlocksOf(count) *
         (RowsOf(shape).all() * kSketchRowBytes + static_cast<int64_t>(sizeof(SketchErrors)));
}

LandmarkSketch::LandmarkSketch(const SketchShape& shape, const Bf16* keys, int64_t count)
    : shape_(shape),
      rows_(RowsOf(shape)),
      dense_(rows_.fine > 0 ? shape.dense : 0),
      mean_(static_cast<size_t>(shape.width)),
      directions_(static_cast<size_t>(dense_ * kSketchColumns)) {
  Resize(count);
  // Keys at equal distances; such that have no mean are left out.
  std::vector<std::vector<double>> sample;
  const int64_t stride = std::max<int64_t>(1, count / kSampleKeys);
  for (int64_t k = 0; k < count && std::ssize(sample) < kSampleKeys; k += stride) {
    std::vector<double> key;
    double square = 0;
    for (int64_t i = 0; i < shape.width; ++i) {
      key.push_back(keys[k * shape.width + i].ToFloat());
      square += key.back() * key.back();
    }
    if (square < 1e30) sample.push_back(std::move(key));
  }
  const auto size = static_cast<double>(std::max<int64_t>(std::ssize(sample), 1));
  double variance = 0;
  std::vector<double> deviations;
  for (int64_t i = 0; i < shape.width; ++i) {
    const auto at = static_cast<size_t>(i);
    double sum = 0, square = 0;
    for (const auto& key : sample) sum += key[at];
    mean_[at] = static_cast<float>(sum / size);
    for (auto& key : sample) {
      key[at] -= mean_[at];
      square += key[at] * key[at];
    }
    mean_norm_ += static_cast<double>(mean_[at]) * mean_[at];
    variance += square / size;
    deviations.push_back(std::sqrt(square / size));
  }
  mean_norm_ = std::sqrt(mean_norm_);
  if (dense_ > 0) FindDirections(sample);
  // Coordinates that the sample has at one value only get steps of some size, too.
  const double least =
      std::max(1e-6 * std::sqrt(variance / static_cast<double>(shape.width)), 1e-30);
  for (float& step : steps_) step = std::max(step, static_cast<float>(least));
  for (int64_t i = dense_; i < shape.width; ++i) {
    steps_.push_back(
        static_cast<float>(std::max(kCoarseStep * deviations[static_cast<size_t>(i)], least)));
  }
  for (const float step : steps_) per_step_.push_back(1 / step);
}

void LandmarkSketch::Resize(int64_t count) {
  const int64_t blocks = BlocksOf(count);
  // One row more: kernels compute addresses of keys in a row also where a block has no rows.
  fine_codes_.resize(static_cast<size_t>((2 * blocks * rows_.fine + 1) * kSketchRowBytes));
  coarse_codes_.resize(static_cast<size_t>((blocks * rows_.coarse + 1) * kSketchRowBytes));
  errors_.resize(static_cast<size_t>(blocks));
  count_ = count;
}

void LandmarkSketch::Grow(OpContext& ctx, const Bf16* keys, int64_t count) {
  if (count <= count_) return;
  const int64_t first = count_ / kSketchBlock, covered = blocks();
  Resize(count);
  // A block that was not full is encoded again, its errors are those of all its keys.
  if (first < covered) errors_[static_cast<size_t>(first)] = SketchErrors();
  Encode(ctx, keys, first, blocks());
}

// Gram-Schmidt over the sample, each time with the key of which most is left.
void LandmarkSketch::FindDirections(const std::vector<std::vector<double>>& sample) {
  std::vector<std::vector<double>> left;
  std::vector<double> squares;
  for (const auto& key : sample) {
    left.emplace_back(key.begin(), key.begin() + dense_);
    double square = 0;
    for (const double number : left.back()) square += number * number;
    squares.push_back(square);
  }
  steps_.assign(static_cast<size_t>(kDirections), 0);
  if (left.empty()) return;
  const double enough = 1e-12 * *std::max_element(squares.begin(), squares.end());
  for (int64_t j = 0; j < kDirections; ++j) {
    const auto most = std::max_element(squares.begin(), squares.end());
    if (*most <= enough) return;
    std::vector<double> direction = left[static_cast<size_t>(most - squares.begin())];
    for (double& number : direction) number /= std::sqrt(*most);
    double variance = 0;
    for (size_t k = 0; k < left.size(); ++k) {
      double along = 0, square = 0;
      for (size_t d = 0; d < direction.size(); ++d) along += left[k][d] * direction[d];
      for (size_t d = 0; d < direction.size(); ++d) {
        left[k][d] -= along * direction[d];
        square += left[k][d] * left[k][d];
      }
      squares[k] = square;
      variance += along * along / static_cast<double>(left.size());
    }
    for (int64_t d = 0; d < dense_; ++d) {
      directions_[static_cast<size_t>(d * kSketchColumns + j)] =
          static_cast<float>(direction[static_cast<size_t>(d)]);
    }
    steps_[static_cast<size_t>(j)] =
        static_cast<float>(kFineRange * std::sqrt(variance) * 2 / kFineLevels);
  }
}

void LandmarkSketch::Encode(OpContext& ctx, const Bf16* keys, int64_t begin, int64_t end) {
  const int64_t width = shape_.width, coordinates = std::ssize(steps_);
  std::vector<float> x(static_cast<size_t>(kSketchBlock * width));
  std::vector<float> along(static_cast<size_t>(kSketchBlock * kSketchColumns));
  std::vector<float> left(static_cast<size_t>(coordinates));
  std::vector<uint8_t> codes(static_cast<size_t>(kSketchBlock * coordinates));
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kSketchBlock;
    const int64_t count = std::min(kSketchBlock, count_ - first);
    SketchErrors& errors = errors_[static_cast<size_t>(block)];
    for (int64_t k = 0; k < count; ++k) {
      const Bf16* key = keys + (first + k) * width;
      float* row = x.data() + k * width;
      for (int64_t i = 0; i < width; ++i) row[i] = key[i].ToFloat();
      Keep(errors.size, Norm(row, width) + static_cast<float>(mean_norm_));
      for (int64_t i = 0; i < width; ++i) row[i] -= mean_[static_cast<size_t>(i)];
    }
    if (dense_ > 0) {
      SketchCoordinates(ctx, x.data(), width, count, dense_, directions_.data(), along.data());
    }
    float coarse[kSketchBlock];
    for (int64_t k = 0; k < count; ++k) {
      coarse[k] = EncodeKey(x.data() + k * width, along.data() + k * kSketchColumns,
                            codes.data() + k * coordinates, left.data(), errors);
    }
    for (int64_t k = 0; k < count; ++k) {
      errors.coarse_part[k] = PartOf(coarse[k], errors.coarse);
    }
    Pack(codes.data(), block);
  }
}

float LandmarkSketch::EncodeKey(const float* x, const float* c, uint8_t* codes, float* left,
                                SketchErrors& errors) const {
  const int64_t fine = rows_.fine * kSketchRowCoordinates, coarse = shape_.width - dense_;
  Quantise(c, steps_.data(), per_step_.data(), fine, kFineLevels, codes, left);
  Quantise(x + dense_, steps_.data() + fine, per_step_.data() + fine, coarse, kCoarseLevels,
           codes + fine, left + fine);
  Keep(errors.fine, Norm(left, fine));
  float coarse_error = 0;
  Keep(coarse_error, Norm(left + fine, coarse));
  errors.coarse = std::max(errors.coarse, coarse_error);
  Keep(errors.outside, dense_ > 0 ? Outside(Norm(x, dense_), Norm(c, fine), dense_) : 0);
  Keep(errors.fine_codes, CodeNorm(codes, fine, kFineLevels));
  Keep(errors.coarse_codes, CodeNorm(codes + fine, coarse, kCoarseLevels));
  return coarse_error;
}

void LandmarkSketch::Pack(const uint8_t* codes, int64_t block) {
  uint8_t* const fine_rows = fine_codes_.data() + 2 * block * rows_.fine * kSketchRowBytes;
  uint8_t* const coarse_rows = coarse_codes_.data() + block * rows_.coarse * kSketchRowBytes;
  const int64_t coordinates = std::ssize(steps_), fine = rows_.fine * kSketchRowCoordinates;
  // Coordinates [first, first + 8) of all keys, `shift` bits of each left out.
  const auto put = [&](int64_t first, int shift, uint8_t* row) {
    const int64_t count = std::min(kSketchRowCoordinates, coordinates - first);
    for (int64_t i = 0; i < kSketchBlock; ++i) {
      uint8_t half[kSketchRowCoordinates] = {};
      for (int64_t j = 0; j < count; ++j) {
        half[j] = (codes[i * coordinates + first + j] >> shift) & 15;
      }
      for (int64_t j = 0; j < 4; ++j) {
        row[4 * i + j] = static_cast<uint8_t>(half[j] | half[4 + j] << 4);
      }
    }
  };
  for (int64_t row = 0; row < rows_.fine; ++row) {
    put(row * kSketchRowCoordinates, 4, fine_rows + row * kSketchRowBytes);
    put(row * kSketchRowCoordinates, 0, fine_rows + (rows_.fine + row) * kSketchRowBytes);
  }
  for (int64_t row = 0; row < rows_.coarse; ++row) {
    put(fine + row * kSketchRowCoordinates, 0, coarse_rows + row * kSketchRowBytes);
  }
}

SketchRounded LandmarkSketch::RoundCoarse(std::span<const float> query_end, int8_t* weights) const {
  const int64_t fine = rows_.fine * kSketchRowCoordinates;
  std::vector<double> exact;
  for (size_t i = 0; i < query_end.size(); ++i) {
    exact.push_back(static_cast<double>(query_end[i]) * steps_[static_cast<size_t>(fine) + i]);
  }
  return RoundWeights(exact, weights);
}

std::vector<int8_t> LandmarkSketch::CoarseWeights(std::span<const float> query_end) const {
  std::vector<int8_t> weights(static_cast<size_t>(rows_.coarse * kSketchRowCoordinates));
  if (Norm(query_end.data(), std::ssize(query_end)) < kInfinity) {
    RoundCoarse(query_end, weights.data());
  }
  return weights;
}

SketchQuery LandmarkSketch::Prepare(OpContext& ctx, std::span<const float> query) const {
  const int64_t fine = rows_.fine * kSketchRowCoordinates, coarse = coarse_numbers();
  SketchQuery prepared;
  prepared.fine.assign(static_cast<size_t>(2 * fine), 0);
  prepared.coarse.assign(static_cast<size_t>(rows_.coarse * kSketchRowCoordinates), 0);
  SketchFactors& factors = prepared.factors;
  const float norm = Norm(query.data(), shape_.width);
  if (!(norm < kInfinity)) {
    factors.base = kInfinity;
    return prepared;
  }
  float along[kSketchColumns] = {};
  if (dense_ > 0) {
    SketchCoordinates(ctx, query.data(), 0, 1, dense_, directions_.data(), along);
  }
  std::vector<double> fine_weights;
  for (int64_t j = 0; j < fine; ++j) {
    fine_weights.push_back(static_cast<double>(along[j]) * steps_[static_cast<size_t>(j)]);
  }
  double mean = 0;
  for (int64_t i = 0; i < shape_.width; ++i) {
    mean += static_cast<double>(query[static_cast<size_t>(i)]) * mean_[static_cast<size_t>(i)];
  }
  const SketchRounded of_fine = RoundWeights(fine_weights, prepared.fine.data());
  std::copy_n(prepared.fine.data(), fine, prepared.fine.data() + fine);
  const SketchRounded of_coarse =
      RoundCoarse(query.subspan(static_cast<size_t>(dense_)), prepared.coarse.data());

  const double scale = 1 / std::sqrt(static_cast<double>(shape_.width));
  const auto scaled = [&](double value) { return static_cast<float>(value * scale); };
  const auto at_least = [&](double value) { return scaled(value * 1.001 + kTiny); };
  factors.base =
      scaled(mean - of_fine.sum * (kFineLevels - 1) / 2 - of_coarse.sum * (kCoarseLevels - 1) / 2);
  factors.fine = scaled(of_fine.scale);
  factors.coarse = scaled(of_coarse.scale);
  for (const float factor : {factors.base, factors.fine, factors.coarse}) {
    if (std::abs(factor) < kMaxFactor) continue;
    factors = {.base = kInfinity, .errors = {}};
    return prepared;
  }
  factors.errors.fine = at_least(Norm(along, fine));
  factors.errors.coarse = at_least(Norm(query.data() + dense_, coarse));
  factors.errors.outside = at_least(Outside(Norm(query.data(), dense_), Norm(along, fine), dense_));
  factors.errors.fine_codes = at_least(of_fine.error);
  factors.errors.coarse_codes = at_least(of_coarse.error);
  factors.errors.size = at_least(
      RoundingOf(2 * DirectionTerms(dense_) + 2 * static_cast<double>(shape_.width) + 256) * norm);
  return prepared;
}

}  // namespace recollect::kernels
