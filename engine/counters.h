// The engine's counters, which Engine::stats reads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/numeric/histogram.h"
#include "base/sync/mutex.h"
#include "engine/stats.h"
#include "engine/types.h"

namespace recollect::engine {

// The last 1024 durations and their percentiles. Thread-safe.
class LatencyWindow {
 public:
  void Add(double ms) {
    MutexLock lock(mutex_);
    values_[static_cast<size_t>(next_++ % kSize)] = ms;
  }

  // Returns the value below which `fraction` of the window lies; 0 if nothing was added.
  double Percentile(double fraction) const {
    std::vector<double> sorted;
    {
      MutexLock lock(mutex_);
      sorted.assign(values_.begin(), values_.begin() + std::min<int64_t>(next_, kSize));
    }
    if (sorted.empty()) return 0;
    const auto at =
        static_cast<size_t>(std::lround(fraction * static_cast<double>(sorted.size() - 1)));
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(at), sorted.end());
    return sorted[at];
  }

 private:
  static constexpr int64_t kSize = 1024;
  mutable Mutex mutex_;
  std::array<double, kSize> values_ ABSL_GUARDED_BY(mutex_){};
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Thread-safe. Counters are read one by one, so a snapshot is not of one instant.
struct Counters : Counts {
  std::atomic<int64_t> running{0};
  LatencyWindow landmark_steps, store_read_ms;
  Histogram time_to_first_token_s{kRequestSeconds};
  Histogram inter_token_s{kStepSeconds};  // between two tokens of one answer
  // Durations of landmark steps while decoding, by the slowest tier of their chunks.
  std::array<Histogram, 3> landmark_step_by_tier_s = {
      Histogram(kStepSeconds), Histogram(kStepSeconds), Histogram(kStepSeconds)};
  Histogram store_read_s{kStepSeconds};

  Histogram& landmark_step_s(Tier tier) {
    return landmark_step_by_tier_s[static_cast<size_t>(tier)];
  }

  // Must be called once for every error of the store.
  void CountError(const absl::Status& status) {
    if (absl::IsDataLoss(status)) ++data_loss_errors;
  }
};

}  // namespace recollect::engine
