// Rows, ranges and queries of sparse search, and how a search runs on the CPU and on a device.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_order.h"
#include "kernels/sparse_topk/sparse_topk.h"
#include "kernels/sparse_topk/sparse_topk_plan.h"
#include "tests/kernels/device/device_arrays.h"
#include "tests/kernels/landmark_topk/landmark_topk_cases.h"

namespace recollect::kernels::sparse_cases {

using Best = std::vector<ScoredCandidate>;
using Query = std::vector<SparseTerm>;

// The rows of the blocks of one range.
struct Rows {
  explicit Rows(int32_t of) : word_count(of) {}
  std::vector<int32_t> words;
  std::vector<uint8_t> weights;
  std::vector<int64_t> block_rows;
  std::vector<float> scales;
  int32_t word_count;

  void Add(const std::vector<int32_t>& block) {
    words.insert(words.end(), block.begin(), block.end());
    block_rows.push_back(std::ssize(block));
  }
  SparseRange range() const {
    return SparseRange::Make({words, weights, block_rows, scales, word_count});
  }
};

// Words as texts have them: low numbers in most blocks, high ones in few.
inline Rows RandomRows(int64_t blocks, bool weighted, uint32_t seed) {
  std::mt19937 random(seed);
  Rows rows(700);
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<int32_t> words(random() % 64);
    for (int32_t& word : words) {
      const double share = static_cast<double>(random() % 100000) / 100000;
      word = static_cast<int32_t>(699 * share * share * share);
    }
    rows.Add(words);
    if (weighted) rows.scales.push_back(0.25f + static_cast<float>(random() % 1000) / 300);
  }
  if (!weighted) return rows;
  for (size_t i = 0; i < rows.words.size(); ++i) {
    rows.weights.push_back(static_cast<uint8_t>(random() % 256));
  }
  return rows;
}

inline Query RandomQuery(size_t terms, uint32_t seed) {
  std::mt19937 random(seed);
  Query query(terms);
  for (SparseTerm& term : query) {
    term = {static_cast<int32_t>(random() % 720), static_cast<float>(random() % 1000) / 77};
  }
  return query;
}

struct Call {
  static constexpr int kWays = 2;  // of RunOnDevice
  std::vector<const SparseRange*> ranges = {};
  std::vector<Query> queries = {};
  int n = 0;
  // On a device only: the dense part.
  int width = 0;
  std::vector<std::vector<Bf16>> dense_keys = {};  // of each range, [blocks, width]
  std::vector<float> dense = {};                   // [queries, width]

  int64_t candidates() const {
    int64_t count = 0;
    for (const SparseRange* range : ranges) count += range->blocks();
    return count;
  }
};

inline std::vector<Best> RunOnCpu(OpContext& ctx, const Call& call) {
  return SparseTopK(ctx, call.queries, call.ranges, call.n);
}

// A call's ranges and queries in the memory of a device.
class DeviceSearch {
 public:
  DeviceSearch(Device& device, const Call& call, int way)
      : device_(device), arrays_(device), call_(call) {
    // The same range again is the same memory.
    std::map<const SparseRange*, SparseLists> placed;
    for (size_t i = 0; i < call.ranges.size(); ++i) {
      const SparseRange& range = *call.ranges[i];
      SparseLists& lists = placed[&range];
      if (lists == SparseLists()) {
        // In the second way between zones that must survive, at a multiple of 4 bytes.
        lists = range.PackedAt(arrays_.Place(range.Pack(), 4 * static_cast<size_t>(way)));
      }
      const Bf16* const dense =
          call.width == 0 ? nullptr : arrays_.Place(call.dense_keys[i], static_cast<size_t>(way));
      ranges_.push_back({lists, dense, first_});
      first_ += range.blocks();
    }
    for (const Query& query : call.queries) {
      const WholeQuery whole = InWholeNumbers(query);
      queries_.push_back(
          {std::ssize(terms_), static_cast<int32_t>(std::ssize(whole.terms)), whole.scale});
      terms_.insert(terms_.end(), whole.terms.begin(), whole.terms.end());
    }
  }

  // All of the call's n: kMaxDeviceTopK at a time, each time what follows what was found.
  std::vector<Best> Run() {
    std::vector<Best> results(queries_.size());
    for (int done = 0; done < call_.n; done += kMaxDeviceTopK) {
      const std::vector<Best> found = RunOnce(std::min(call_.n - done, kMaxDeviceTopK));
      for (size_t q = 0; q < found.size(); ++q) {
        results[q].insert(results[q].end(), found[q].begin(), found[q].end());
        if (found[q].empty()) continue;
        queries_[q].below = cuda::PackCandidate(found[q].back().score, found[q].back().candidate);
      }
    }
    return results;
  }

 private:
  std::vector<Best> RunOnce(int n) {
    const std::vector<SparseSlice> slices = SparseSlices(ranges_);
    const auto plan = PlanSparseTopK({.queries = std::ssize(queries_),
                                      .slices = std::ssize(slices),
                                      .candidates = call_.candidates(),
                                      .width = call_.width,
                                      .n = n});
    EXPECT_TRUE(plan.ok()) << plan.status();
    const int64_t places = std::ssize(queries_) * n;
    SparseTopKOp op;
    op.plan = *plan;
    op.ranges = arrays_.Place(ranges_);
    op.slices = arrays_.Place(slices);
    op.terms = arrays_.Place(terms_);
    op.queries = arrays_.Place(queries_);
    op.dense = arrays_.Place(call_.dense);
    op.workspace = arrays_.Allocate(plan->workspace_bytes);
    op.candidates = arrays_.Place(std::vector<int64_t>(static_cast<size_t>(places), -2));
    op.scores = arrays_.Place(std::vector<float>(static_cast<size_t>(places), std::nanf("")));
    EXPECT_EQ(device_.Run(op), absl::OkStatus());
    const std::vector<int64_t> candidates = arrays_.Read(op.candidates, places);
    const std::vector<float> scores = arrays_.Read(op.scores, places);
    std::vector<Best> results(queries_.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      Best& best = results[i / static_cast<size_t>(n)];
      const auto at = static_cast<int64_t>(i % static_cast<size_t>(n));
      if (candidates[i] < 0) {
        EXPECT_EQ(candidates[i], -1);
        EXPECT_EQ(scores[i], -std::numeric_limits<float>::infinity());
        continue;
      }
      EXPECT_EQ(std::ssize(best), at) << "a hit after the last";
      best.push_back({candidates[i], scores[i]});
    }
    return results;
  }

  Device& device_;
  device_cases::Arrays arrays_;
  const Call& call_;
  std::vector<DeviceSparseRange> ranges_;
  std::vector<WholeTerm> terms_;
  std::vector<DeviceSparseQuery> queries_;
  int64_t first_ = 0;
};

// Way 0: all queries together. Way 1: one by one.
inline std::vector<Best> RunOnDevice(Device& device, const Call& call, int way) {
  if (way == 0) return DeviceSearch(device, call, way).Run();
  std::vector<Best> results;
  for (size_t q = 0; q < call.queries.size(); ++q) {
    Call one = call;
    one.queries = {call.queries[q]};
    if (call.width > 0) {
      const auto begin = call.dense.begin() + static_cast<std::ptrdiff_t>(q) * call.width;
      one.dense.assign(begin, begin + call.width);
    }
    results.push_back(DeviceSearch(device, one, way).Run().front());
  }
  return results;
}

}  // namespace recollect::kernels::sparse_cases
