#include "kernels/block_topk/block_topk.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(BlockScores)

void ChooseBlocks(std::span<const float> scores, int64_t count, std::vector<int64_t>& chosen) {
  const auto blocks = static_cast<int64_t>(scores.size());
  chosen.resize(scores.size());
  for (int64_t b = 0; b < blocks; ++b) chosen[static_cast<size_t>(b)] = b;
  if (count < blocks) {
    const auto score = [&](int64_t b) {
      const float s = scores[static_cast<size_t>(b)];
      return std::isnan(s) ? -std::numeric_limits<float>::infinity() : s;
    };
    const auto better = [&](int64_t a, int64_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    };
    const int64_t kept = std::max<int64_t>(count, 0);
    std::nth_element(chosen.begin(), chosen.begin() + kept, chosen.end(), better);
    chosen.resize(static_cast<size_t>(kept));
    std::sort(chosen.begin(), chosen.end());
  }
}

}  // namespace recollect::kernels
