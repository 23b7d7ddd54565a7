#include "kernels/sample/sample.h"

#include <algorithm>
#include <functional>

#include "kernels/cuda/cuda_order.h"
#include "kernels/sample/sample_weights.h"

namespace recollect::kernels {
namespace {

// keys[i] for i = 0, 1, … from the greatest on. A draw ends among the first few: only what is asked
// for is sorted.
class FromTheGreatest {
 public:
  explicit FromTheGreatest(std::vector<uint64_t>& keys) : keys_(keys) {}
  uint64_t operator[](size_t i) {
    while (i >= sorted_) {
      const auto begin = keys_.begin() + static_cast<int64_t>(sorted_);
      sorted_ = std::min(keys_.size(), std::max<size_t>(64, 2 * sorted_));
      const auto end = keys_.begin() + static_cast<int64_t>(sorted_);
      std::nth_element(begin, end - 1, keys_.end(), std::greater());
      std::sort(begin, end - 1, std::greater());
    }
    return keys_[i];
  }

 private:
  std::vector<uint64_t>& keys_;
  size_t sorted_ = 0;
};

}  // namespace

int32_t Sample(std::span<const float> logits, const SampleSettings& settings,
               const NeverChosen& never, SampleScratch& scratch) {
  if (settings.temperature == 0) return Argmax(logits, never);
  std::vector<uint64_t>& keys = scratch.keys;
  keys.clear();
  for (int32_t i = 0; i < static_cast<int32_t>(logits.size()); ++i) {
    if (i == never.first || i == never.second) continue;
    const uint64_t key = cuda::PackChoice(logits[static_cast<size_t>(i)], i);
    if (key != 0) keys.push_back(key);
  }
  if (keys.empty()) return -1;
  const auto most = static_cast<size_t>(settings.top_k);
  if (most > 0 && most < keys.size()) {
    std::ranges::nth_element(keys, keys.begin() + settings.top_k, std::greater());
    keys.resize(most);
  }
  const float greatest = cuda::LogitOf(std::ranges::max(keys));
  const auto weight = [&](uint64_t key) {
    return cuda::WeightOf(cuda::LogitOf(key), greatest, settings.temperature);
  };
  uint64_t left = 0;
  for (const uint64_t key : keys) left += weight(key);
  FromTheGreatest sorted(keys);
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
