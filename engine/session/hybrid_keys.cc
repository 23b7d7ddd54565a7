#include "engine/session/hybrid_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/session/key_search.h"
#include "kernels/cpu/op_context.h"
#include "kernels/landmark_topk/best_candidates.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;

// Of a range, which one thread searches at a time: half a million tokens.
constexpr int64_t kHybridRangeBlocks = 8192;
static_assert(kHybridRangeBlocks <= kernels::SparseRange::kMaxBlocks);
constexpr kernels::ScratchName kDenseScores;

int64_t CountRanges(int64_t blocks) {
  return (blocks + kHybridRangeBlocks - 1) / kHybridRangeBlocks;
}

// The sparse part of a run of blocks in whole numbers.
struct WholeRows {
  std::vector<int32_t> words;
  std::vector<uint8_t> weights;
  std::vector<float> scales;

  void Add(const model::Words& of, std::span<const int32_t> tokens, const Bf16* row_weights) {
    float most = 0;
    for (size_t row = 0; row < tokens.size(); ++row) {
      most = std::max(most, row_weights[row].ToFloat());
    }
    constexpr float kWhole = 255;
    scales.push_back(most > 0 ? most / kWhole : 1);
    for (size_t row = 0; row < tokens.size(); ++row) {
      const float whole = std::round(row_weights[row].ToFloat() / scales.back());
      words.push_back(of.word(tokens[row]));
      weights.push_back(static_cast<uint8_t>(std::clamp(whole, 0.0f, kWhole)));
    }
  }
};

struct Searched {
  const HybridKeys::Range* range = nullptr;
  int64_t first = 0;  // candidate of its first block
  std::vector<ScoredCandidate> best;
};

void Search(const HybridQuery& query, int n, Searched& searched) {
  const HybridKeys::Range& range = *searched.range;
  const int64_t blocks = range.sparse.blocks();
  kernels::OpContext ctx;
  float* const scores = ctx.Floats(kDenseScores, blocks);
  kernels::LandmarkScores(ctx, query.dense.data(), std::ssize(query.dense), range.dense, blocks,
                          scores);
  std::vector<float> sparse(static_cast<size_t>(blocks));
  kernels::SparseScoresOf(ctx, query.terms, range.sparse, sparse.data());
  kernels::BestCandidates best(n);
  for (int64_t block = 0; block < blocks; ++block) {
    const float score = scores[block] + sparse[static_cast<size_t>(block)];
    if (best.MayEnter(score)) best.Offer({searched.first + block, score});
  }
  searched.best = std::move(best).Sorted();
}

}  // namespace

HybridKeys HybridKeys::Make(const model::ModelConfig& config, const model::Words& words,
                            std::span<const Bf16> landmark_keys, std::span<const int32_t> tokens,
                            std::span<const int64_t> block_tokens, ThreadPool* pool) {
  const int64_t width = config.key_width(), d_r = config.d_r;
  HybridKeys keys;
  keys.blocks_ = std::ssize(block_tokens);
  keys.width_ = static_cast<int>(d_r);
  RECOLLECT_CHECK(std::ssize(landmark_keys) == keys.blocks_ * width);
  keys.dense_ = LargeVector<Bf16>(static_cast<size_t>(keys.blocks_ * d_r));
  std::vector<int64_t> begins = {0};
  for (const int64_t count : block_tokens) {
    begins.push_back(begins.back() + count);
    keys.has_successor_.push_back(begins.back() % config.adapter.segment_tokens != 0);
  }
  if (keys.blocks_ > 0) keys.has_successor_.back() = false;
  keys.ranges_.resize(static_cast<size_t>(CountRanges(keys.blocks_)));
  ForEach(pool, std::ssize(keys.ranges_), [&](int64_t i) {
    const int64_t first = i * kHybridRangeBlocks;
    const int64_t end = std::min(first + kHybridRangeBlocks, keys.blocks_);
    WholeRows rows;
    for (int64_t block = first; block < end; ++block) {
      const Bf16* const key = landmark_keys.data() + block * width;
      std::copy_n(key, d_r, keys.dense_.data() + block * d_r);
      const auto begin = static_cast<size_t>(begins[static_cast<size_t>(block)]);
      const auto count = static_cast<size_t>(block_tokens[static_cast<size_t>(block)]);
      rows.Add(words, tokens.subspan(begin, count), key + d_r);
    }
    Range& range = keys.ranges_[static_cast<size_t>(i)];
    range.first_block = first;
    range.dense = keys.dense_.data() + first * d_r;
    range.sparse = kernels::SparseRange::Make(
        {rows.words, rows.weights,
         block_tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)),
         rows.scales, words.count()});
  });
  return keys;
}

absl::Status HybridKeys::MoveTo(SparseIndex& device) {
  std::vector<SparseSource> sources;
  for (const Range& range : ranges_) sources.push_back({&range.sparse, range.dense});
  ASSIGN_OR_RETURN(on_device_, device.Keep(sources, width_));
  ranges_ = {};
  dense_ = {};
  return absl::OkStatus();
}

int64_t HybridKeys::bytes() const {
  auto bytes = static_cast<int64_t>(dense_.size() * sizeof(Bf16) + has_successor_.size() / 8 +
                                    ranges_.capacity() * sizeof(Range));
  if (on_device_ != nullptr) bytes += on_device_->bytes();
  for (const Range& range : ranges_) bytes += range.sparse.bytes();
  return bytes;
}

int64_t HybridKeys::BytesOf(const model::ModelConfig& config, int64_t tokens, int64_t blocks) {
  const int64_t ranges = CountRanges(blocks);
  // Every token may be a word of its own.
  const int64_t different = std::min<int64_t>(tokens, ranges * config.adapter.words);
  return blocks * config.d_r * static_cast<int64_t>(sizeof(Bf16)) + blocks / 8 +
         kernels::SparseRange::MaxBytes(tokens, blocks, different) +
         ranges * static_cast<int64_t>(sizeof(Range));
}

absl::StatusOr<std::vector<ScoredCandidate>> SearchHybrid(
    ThreadPool* pool, std::span<const HybridKeys* const> documents, const HybridQuery& query,
    int n) {
  if (!documents.empty() && documents.front()->on_device() != nullptr) {
    return SearchOnDevice(documents, {query.terms, query.dense}, n);
  }
  std::vector<Searched> parts;
  int64_t first = 0;
  for (const HybridKeys* document : documents) {
    for (const HybridKeys::Range& range : document->ranges()) {
      parts.push_back({&range, first + range.first_block, {}});
    }
    first += document->blocks();
  }
  ForEach(pool, std::ssize(parts),
          [&](int64_t i) { Search(query, n, parts[static_cast<size_t>(i)]); });
  std::vector<std::vector<ScoredCandidate>> found;
  for (Searched& part : parts) found.push_back(std::move(part.best));
  return kernels::MergeTopK(found, n);
}

}  // namespace recollect::engine
