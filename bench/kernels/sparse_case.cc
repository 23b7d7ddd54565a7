#include "bench/kernels/sparse_case.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "bench/kernels/device.h"
#include "kernels/cuda/cuda_operations.h"
#include "kernels/landmark_topk/best_candidates.h"
#include "kernels/sparse_topk/sparse_topk.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

constexpr int64_t kSparseBlocks = 290000;
constexpr int64_t kBlockRows = 55;
constexpr int32_t kSparseWords = 30000;
constexpr int kSparseHits = 8;

// Blocks whose words have frequencies of about 1 / rank, with those of the blocks nearby.
SparseRange MakeRange(int64_t blocks, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share;
  std::vector<int32_t> words(static_cast<size_t>(blocks * kBlockRows));
  for (int32_t& word : words) {
    word = static_cast<int32_t>(std::pow(kSparseWords, share(random))) - 1;
  }
  const std::vector<int64_t> block_rows(static_cast<size_t>(blocks), kBlockRows);
  constexpr uint8_t kNear[] = {9, 6, 4};
  return SparseRange::Make({words, {}, block_rows, {}, kSparseWords}).Spread(0, 0, kNear);
}

std::vector<SparseRange> MakeRanges() {
  std::vector<SparseRange> ranges;
  for (int64_t first = 0; first < kSparseBlocks; first += SparseRange::kMaxBlocks) {
    ranges.push_back(MakeRange(std::min(SparseRange::kMaxBlocks, kSparseBlocks - first),
                               static_cast<uint32_t>(ranges.size())));
  }
  return ranges;
}

std::vector<SparseTerm> CommonWords(int64_t words) {
  std::vector<SparseTerm> terms;
  for (int32_t word = 0; word < words; ++word) {
    terms.push_back({word, 1 + std::log(1.0f + static_cast<float>(word))});
  }
  return terms;
}

// Ranges in the device's memory.
struct OnDevice {
  std::vector<DeviceArray<std::byte>> lists;
  DeviceArray<Bf16> dense;
  std::vector<DeviceSparseRange> ranges;
};

absl::StatusOr<OnDevice> Place(std::span<const SparseRange> ranges, const Pattern<Bf16>& keys,
                               int width) {
  OnDevice placed;
  if (width > 0) {
    ASSIGN_OR_RETURN(placed.dense, Upload(keys, kSparseBlocks * width, "dense keys"));
  }
  int64_t first = 0;
  for (const SparseRange& range : ranges) {
    ASSIGN_OR_RETURN(DeviceArray<std::byte> lists, UploadAll(range.Pack(), "lists"));
    const Bf16* const dense = width == 0 ? nullptr : placed.dense.get() + first * width;
    placed.ranges.push_back({range.PackedAt(lists.get()), dense, first});
    placed.lists.push_back(std::move(lists));
    first += range.blocks();
  }
  return placed;
}

// Bytes of the query's lists.
int64_t ListBytes(std::span<const SparseRange> ranges, std::span<const SparseTerm> terms) {
  int64_t bytes = 0;
  for (const SparseRange& range : ranges) {
    for (const SparseTerm& term : terms) {
      const SparseList list = range.list(term.word);
      bytes += list.count * (list.blocks == nullptr ? 1 : 3);
    }
  }
  return bytes;
}

// The scores of the CPU's best.
std::vector<float> BestScores(std::span<const SparseRange> ranges,
                              const std::vector<SparseTerm>& terms, const Pattern<Bf16>& keys,
                              const std::vector<float>& query) {
  OpContext ctx;
  BestCandidates best(kSparseHits);
  const auto width = std::ssize(query);
  int64_t first = 0;
  for (const SparseRange& range : ranges) {
    std::vector<float> scores(static_cast<size_t>(range.blocks())), dense(scores.size());
    SparseScoresOf(ctx, terms, range, scores.data());
    std::vector<Bf16> rows;
    for (int64_t i = 0; i < range.blocks() * width; ++i) rows.push_back(keys[first * width + i]);
    if (width > 0) {
      LandmarkScores(ctx, query.data(), width, rows.data(), range.blocks(), dense.data());
    }
    for (size_t i = 0; i < scores.size(); ++i) {
      best.Offer({first + static_cast<int64_t>(i), scores[i] + dense[i]});
    }
    first += range.blocks();
  }
  std::vector<float> scores;
  for (const ScoredCandidate& one : std::move(best).Sorted()) scores.push_back(one.score);
  return scores;
}

}  // namespace

absl::Status SparseSearchOf16M(Report& report, Case c, int64_t words, int width) {
  static const auto* const ranges = new std::vector<SparseRange>(MakeRanges());
  const Pattern<Bf16> keys(1);
  const std::vector<float> query = Pattern<float>(2).Floats(0, width);
  const std::vector<SparseTerm> terms = CommonWords(words);
  const WholeQuery whole = InWholeNumbers(terms);
  ASSIGN_OR_RETURN(const OnDevice placed, Place(*ranges, keys, width));
  const std::vector<SparseSlice> slices = SparseSlices(placed.ranges);
  SparseTopKOp op;
  ASSIGN_OR_RETURN(op.plan, PlanSparseTopK({.queries = 1,
                                            .slices = std::ssize(slices),
                                            .candidates = kSparseBlocks,
                                            .width = width,
                                            .n = kSparseHits}));
  const DeviceSparseQuery one = {0, static_cast<int32_t>(whole.terms.size()), whole.scale};
  ASSIGN_OR_RETURN(const auto device_ranges, UploadAll(placed.ranges, "ranges"));
  ASSIGN_OR_RETURN(const auto device_slices, UploadAll(slices, "slices"));
  ASSIGN_OR_RETURN(const auto device_terms, UploadAll(whole.terms, "terms"));
  ASSIGN_OR_RETURN(const auto device_query, UploadAll(std::vector{one}, "query"));
  ASSIGN_OR_RETURN(const auto dense, UploadAll(query, "dense query"));
  ASSIGN_OR_RETURN(const auto workspace,
                   DeviceArray<char>::Create(op.plan.workspace_bytes, "workspace"));
  ASSIGN_OR_RETURN(const auto candidates, DeviceArray<int64_t>::Create(kSparseHits, "hits"));
  ASSIGN_OR_RETURN(const auto scores, DeviceArray<float>::Create(kSparseHits, "scores"));
  op.ranges = device_ranges.get();
  op.slices = device_slices.get();
  op.terms = device_terms.get();
  op.queries = device_query.get();
  op.dense = dense.get();
  op.workspace = workspace.get();
  op.candidates = candidates.get();
  op.scores = scores.get();
  c.bytes = static_cast<double>(ListBytes(*ranges, terms)) +
            static_cast<double>(sizeof(Bf16)) * static_cast<double>(kSparseBlocks * width);
  return report.Measure(
      c, [&] { return kernels::Launch(report.stream(), op); },
      [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<float> actual, Download(scores.get(), kSparseHits));
        // A dense part is summed in another order; without one the bits are the same.
        return ExpectClose(actual, BestScores(*ranges, terms, keys, query), width > 0 ? 1000 : 0,
                           "best score");
      });
}

}  // namespace recollect::bench
