// Counts of measured values by size, as Prometheus has them: buckets with ascending upper bounds.
//
//   constexpr double kBounds[] = {0.01, 0.1, 1};
//   Histogram seconds(kBounds);
//   seconds.Observe(0.05);                       // from any thread, without a lock
//   const HistogramValues now = seconds.values();
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace recollect {

// Bounds in seconds. What takes a CPU from a fraction of a millisecond, as a token of recollect-7m,
// to a second, as one of billions of parameters: tokens, landmark steps, reads of the store.
inline constexpr std::array<double, 22> kStepSeconds = {
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01,   0.02,   0.03,   0.05,   0.075,   0.1,   0.2,    0.3,   0.5,   1,     5};
// Whole requests, and their prompts: from a lookup to a document that is ingested for an hour.
inline constexpr std::array<double, 16> kRequestSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600, 3600};

// As plain numbers. Not thread-safe.
struct HistogramValues {
  HistogramValues() = default;
  explicit HistogramValues(std::span<const double> ascending)
      : bounds(ascending), counts(ascending.size() + 1) {}

  void Add(double value) {
    ++counts[static_cast<size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
    sum += value;
  }
  int64_t count() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

  std::span<const double> bounds;  // each belongs to the bucket below it; of static storage
  std::vector<int64_t> counts;     // of each bucket; one more than bounds, for what is above all
  double sum = 0;
};

// Thread-safe. Counts and sum are read one by one, so that values() is not of one instant.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;

  // REQUIRES: at most kMaxBounds, ascending, of static storage.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  // An addition to each of two numbers, and a search among the bounds.
  void Observe(double value) {
    const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
    counts_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  HistogramValues values() const {
    HistogramValues values(bounds_);
    for (size_t i = 0; i < values.counts.size(); ++i)
      values.counts[i] = counts_[i].load(std::memory_order_relaxed);
    values.sum = sum_.load(std::memory_order_relaxed);
    return values;
  }

 private:
  const std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace recollect
