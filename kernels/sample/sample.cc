#include "kernels/sample/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/sample/row_greatest.h"
#include "kernels/sample/sample_total.h"
#include "kernels/sample/sample_weights.h"

namespace recollect::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The logits as keys that sort as they do, [i] for i = 0, 1, … from the greatest on. A draw ends
// among the first few: only what is asked for is sorted, and only logits near the greatest are
// looked at until more are needed.
class FromTheGreatest {
 public:
  FromTheGreatest(std::span<const float> logits, const NeverChosen& never, float greatest,
                  std::vector<uint64_t>& keys)
      : logits_(logits), never_(never), greatest_(greatest), keys_(keys) {
    keys_.clear();
  }

  // REQUIRES: there are so many.
  uint64_t operator[](size_t i) {
    while (i >= sorted_) {
      while (sorted_ == keys_.size()) AddBand();
      SortMore();
    }
    return keys_[i];
  }

  // Leaves out all but the first `count`. Returns them in any order. Before any is asked for.
  std::span<const uint64_t> Keep(size_t count) {
    Add(BoundOf(count), kInfinity);
    band_ = kBands;
    if (count < keys_.size()) {
      std::ranges::nth_element(keys_, keys_.begin() + static_cast<int64_t>(count), std::greater());
      keys_.resize(count);
    }
    return keys_;
  }

 private:
  // How far below the greatest the bands of logits end.
  static constexpr float kDepths[] = {2, 8, 32, kInfinity};
  static constexpr size_t kBands = std::size(kDepths);

  void AddBand() {
    RECOLLECT_CHECK(band_ < kBands);
    const float above = band_ == 0 ? kInfinity : greatest_ - kDepths[band_ - 1];
    Add(greatest_ - kDepths[band_], above);
    ++band_;
  }

  // Adds the logits from `least` on that are below `above`; infinity is no limit.
  void Add(float least, float above) {
    for (size_t i = 0; i < logits_.size(); ++i) {
      const float logit = logits_[i];
      if (!(logit >= least) || (logit >= above && above < kInfinity)) continue;
      const auto index = static_cast<int32_t>(i);
      const uint64_t key = cuda::PackChoice(logit, index);
      if (key == 0 || index == never_.first || index == never_.second) continue;
      keys_.push_back(key);
    }
  }

  // Returns a bound that at least `count` logits reach which may be chosen, if there are so many:
  // as many blocks, and two for those that never are, have a logit that does.
  float BoundOf(size_t count) const {
    constexpr size_t kBlock = 64, kSideBySide = 4;
    const size_t blocks = logits_.size() / kBlock;
    if (blocks < count + 2) return -kInfinity;
    std::vector<float> greatest(blocks, -kInfinity);
    for (size_t b = 0; b < blocks; ++b) {
      float most[kSideBySide] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
      for (size_t i = b * kBlock; i < (b + 1) * kBlock; i += kSideBySide) {
        for (size_t j = 0; j < kSideBySide; ++j) {
          most[j] = logits_[i + j] > most[j] ? logits_[i + j] : most[j];
        }
      }
      greatest[b] = *std::max_element(most, most + kSideBySide);
    }
    const auto bound = greatest.begin() + static_cast<int64_t>(count) + 1;
    std::ranges::nth_element(greatest, bound, std::greater());
    return *bound;
  }

  void SortMore() {
    const auto begin = keys_.begin() + static_cast<int64_t>(sorted_);
    sorted_ = std::min(keys_.size(), std::max<size_t>(64, 2 * sorted_));
    const auto end = keys_.begin() + static_cast<int64_t>(sorted_);
    std::nth_element(begin, end - 1, keys_.end(), std::greater());
    std::sort(begin, end - 1, std::greater());
  }

  const std::span<const float> logits_;
  const NeverChosen& never_;
  const float greatest_;
  std::vector<uint64_t>& keys_;
  size_t sorted_ = 0;
  size_t band_ = 0;  // the next one
};

// The logits between those that are never chosen.
struct Run {
  size_t begin = 0, end = 0;
};
std::array<Run, 3> RunsOf(std::span<const float> logits, const NeverChosen& never) {
  const size_t count = logits.size();
  const auto place = [&](int32_t index) {
    return index < 0 ? count : std::min(static_cast<size_t>(index), count);
  };
  const auto [first, second] = std::minmax({place(never.first), place(never.second)});
  const size_t after_first = std::min(first + 1, count);
  return {{{0, first},
           {after_first, std::max(second, after_first)},
           {std::min(second + 1, count), count}}};
}

// Says which instruction set there is.
OpContext& Best() {
  static OpContext best;
  return best;
}

// The weights of all logits but those that are never chosen.
uint64_t TotalOf(std::span<const float> logits, const NeverChosen& never, float greatest,
                 float temperature) {
  uint64_t total = 0;
  for (const Run& run : RunsOf(logits, never)) {
    total += SampleTotal(Best(), logits.data() + run.begin,
                         static_cast<int64_t>(run.end - run.begin), greatest, temperature);
  }
  return total;
}

}  // namespace

int32_t Argmax(std::span<const float> logits, const NeverChosen& never) {
  constexpr size_t kAtOnce = 1024;  // of which one is then looked for
  Run best;
  float greatest = -kInfinity;
  for (const Run& run : RunsOf(logits, never)) {
    for (size_t begin = run.begin; begin < run.end; begin += kAtOnce) {
      const size_t end = std::min(begin + kAtOnce, run.end);
      const float here =
          RowGreatest(Best(), logits.data() + begin, static_cast<int64_t>(end - begin));
      if (here > greatest) {
        greatest = here;
        best = {begin, end};
      }
    }
  }
  if (best.end == 0) return -1;
  const float* const row = logits.data();
  return static_cast<int32_t>(std::find(row + best.begin, row + best.end, greatest) - row);
}

int32_t Sample(std::span<const float> logits, const SampleSettings& settings,
               const NeverChosen& never, SampleScratch& scratch) {
  const int32_t best = Argmax(logits, never);
  if (settings.temperature == 0 || best < 0) return best;
  const float greatest = logits[static_cast<size_t>(best)];
  const auto weight = [&](uint64_t key) {
    return cuda::WeightOf(cuda::LogitOf(key), greatest, settings.temperature);
  };
  FromTheGreatest sorted(logits, never, greatest, scratch.keys);
  const auto top_k = static_cast<size_t>(settings.top_k);
  uint64_t left = 0;
  if (std::isinf(greatest) || (top_k > 0 && top_k < logits.size())) {
    for (const uint64_t key : sorted.Keep(top_k > 0 ? top_k : logits.size())) left += weight(key);
  } else {
    left = TotalOf(logits, never, greatest, settings.temperature);
  }
  if (settings.top_p < 1) {
    const uint64_t enough = cuda::ShareOf(settings.top_p, left);
    left = 0;
    for (size_t i = 0; left < enough; ++i) left += weight(sorted[i]);
  }
  uint64_t before = cuda::WeightBefore(settings.draw, left);
  size_t drawn = 0;
  for (uint64_t own; before >= (own = weight(sorted[drawn])); ++drawn) before -= own;
  return cuda::ChoiceOf(sorted[drawn]);
}

}  // namespace recollect::kernels
