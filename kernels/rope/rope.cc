#include "kernels/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
// Vector code rotates a row by factors as RopeTable has them.
using RotateRow = void(const float* cosines, const float* sines, int heads, int head_dim,
                       float* row);
namespace reference {
decltype(kernels::Rope) Rope;
}  // namespace reference
RECOLLECT_CPU_CODE(RotateRow, RotateHalves, nullptr)
RECOLLECT_CPU_CODE(RotateRow, RotatePairs, nullptr)

namespace {

// cos and sin of p w for position p = kStep a + b come from those of kStep a w and b w by the
// addition theorem, in double: two library calls per step of 64 positions, and a result that
// depends on p alone.
constexpr int64_t kStep = 64;

struct Angles {
  std::vector<double> cosines, sines;  // [half]
};

class RopeTable {
 public:
  RopeTable(const RopeAngles& angles, RopePairs pairs, int head_dim)
      : base_(angles.base),
        divisors_(angles.divisors.begin(), angles.divisors.end()),
        pairs_(pairs),
        head_dim_(head_dim) {
    for (int j = 0; j < head_dim / 2; ++j) {
      frequencies_.push_back(std::pow(base_, -2.0 * j / head_dim) / angles.Divisor(j));
    }
    for (int64_t b = 0; b < kStep; ++b) within_.push_back(At(b));
    cosines_.resize(static_cast<size_t>(head_dim));
    sines_.resize(static_cast<size_t>(head_dim));
  }
  bool Is(const RopeAngles& angles, RopePairs pairs, int head_dim) const {
    return angles.base == base_ && pairs == pairs_ && head_dim == head_dim_ &&
           std::ranges::equal(angles.divisors, divisors_);
  }

  void MoveTo(int64_t position) {
    if (position == position_) return;
    position_ = position;
    const int64_t step = position / kStep;
    if (step != step_) {
      start_ = At(step * kStep);
      step_ = step;
    }
    const Angles& b = within_[position % kStep];
    for (size_t j = 0; j < frequencies_.size(); ++j) {
      cosines_[j] =
          static_cast<float>(start_.cosines[j] * b.cosines[j] - start_.sines[j] * b.sines[j]);
      sines_[j] =
          static_cast<float>(start_.sines[j] * b.cosines[j] + start_.cosines[j] * b.sines[j]);
    }
    if (pairs_ == RopePairs::kInterleaved) SpreadOverChannels();
  }
  // As the vector code reads them: with halves one of each pair; interleaved one of each channel,
  // the sine with the sign of its product.
  const float* cosines() const { return cosines_.data(); }
  const float* sines() const { return sines_.data(); }

 private:
  // Backwards, so that nothing is overwritten before it was read.
  void SpreadOverChannels() {
    for (size_t j = frequencies_.size(); j-- > 0;) {
      const float cosine = cosines_[j], sine = sines_[j];
      cosines_[2 * j] = cosines_[2 * j + 1] = cosine;
      sines_[2 * j] = -sine;
      sines_[2 * j + 1] = sine;
    }
  }
  Angles At(int64_t position) const {
    Angles angles;
    for (double frequency : frequencies_) {
      const double angle = static_cast<double>(position) * frequency;
      angles.cosines.push_back(std::cos(angle));
      angles.sines.push_back(std::sin(angle));
    }
    return angles;
  }

  const double base_;
  const std::vector<double> divisors_;
  const RopePairs pairs_;
  const int head_dim_;
  std::vector<double> frequencies_;
  std::vector<Angles> within_;
  int64_t step_ = -1;
  int64_t position_ = -1;
  Angles start_;
  std::vector<float> cosines_, sines_;  // of position_
};

// Sessions of one batch may have different bases; making a table costs thousands of cosines, and as
// many bases as this seldom meet.
constexpr size_t kMaxTables = 8;
constexpr ScratchName kTables;

RopeTable& TableOf(OpContext& ctx, const RopeAngles& angles, RopePairs pairs, int head_dim) {
  using Tables = std::deque<RopeTable>;
  std::shared_ptr<void>& kept = ctx.Kept(kTables);
  if (kept == nullptr) kept = std::make_shared<Tables>();
  Tables& tables = *static_cast<Tables*>(kept.get());
  for (RopeTable& table : tables) {
    if (table.Is(angles, pairs, head_dim)) return table;
  }
  if (tables.size() == kMaxTables) tables.pop_front();
  return tables.emplace_back(angles, pairs, head_dim);
}

}  // namespace

void Rope(OpContext& ctx, const RopeAngles& angles, int64_t first_position, int64_t rows,
          int64_t row_stride, int heads, int head_dim, float* x) {
  RECOLLECT_DCHECK(first_position >= 0 && angles.step >= 1 && head_dim % 2 == 0);
  RotateRow* const rotate =
      (angles.pairs == RopePairs::kHalves ? kRotateHalves : kRotatePairs).For(ctx);
  if (rotate == nullptr) {
    return reference::Rope(ctx, angles, first_position, rows, row_stride, heads, head_dim, x);
  }
  RopeTable& table = TableOf(ctx, angles, angles.pairs, head_dim);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t position = first_position + r;
    table.MoveTo(angles.step == 1 ? position : position / angles.step);  // a division costs
    rotate(table.cosines(), table.sines(), heads, head_dim, x + r * row_stride);
  }
}

void RopeFactors(OpContext& ctx, const RopeAngles& angles, std::span<const int64_t> positions,
                 int head_dim, float* cosines, float* sines) {
  RECOLLECT_DCHECK(angles.step >= 1 && head_dim % 2 == 0);
  // As halves have them: one of each pair.
  RopeTable& table = TableOf(ctx, angles, RopePairs::kHalves, head_dim);
  const int64_t half = head_dim / 2;
  for (int64_t position : positions) {
    table.MoveTo(position / angles.step);
    cosines = std::copy_n(table.cosines(), half, cosines);
    sines = std::copy_n(table.sines(), half, sines);
  }
}

}  // namespace recollect::kernels
