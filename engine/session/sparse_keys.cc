#include "engine/session/sparse_keys.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/status.h"
#include "engine/session/key_search.h"
#include "kernels/cpu/op_context.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;
using kernels::SparseRange;
using kernels::SparseTerm;
using Queries = std::span<const std::vector<SparseTerm>>;
using Answers = std::vector<std::vector<ScoredCandidate>>;

// What a word weighs by how many blocks away the nearest one with it is: (2/3)^d, in ninths.
constexpr uint8_t kWeights[] = {9, 6, 4};
constexpr float kWhole = 9;
constexpr int64_t kReach = std::ssize(kWeights) - 1;
// A range is made of its blocks and of those near its ends.
constexpr int64_t kRangeBlocks = SparseRange::kMaxBlocks - 2 * kReach;
constexpr int64_t kMaxBlockTokens = 64;

// Blocks of a part of a search, at least: two millions of tokens take a thread less than a
// millisecond, and handing a part over takes a hundredth of that.
constexpr int64_t kPartBlocks = 2 * kRangeBlocks;

int64_t RangesOf(int64_t blocks) { return (blocks + kRangeBlocks - 1) / kRangeBlocks; }

// The tokens of a document's blocks.
struct Blocks {
  const model::Words& words;
  std::span<const int32_t> tokens;
  std::span<const int64_t> block_tokens;
  std::vector<int64_t> begins;  // of blocks, and the end of the last

  // Of blocks [first, end).
  SparseRange MakeRange(int64_t first, int64_t end) const {
    const int64_t from = std::max<int64_t>(first - kReach, 0);
    const int64_t to = std::min(end + kReach, std::ssize(block_tokens));
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(from)]);
    const auto count = static_cast<size_t>(begins[static_cast<size_t>(to)]) - begin;
    std::vector<int32_t> rows;
    rows.reserve(count);
    for (const int32_t token : tokens.subspan(begin, count)) rows.push_back(words.word(token));
    const std::span<const int64_t> block_rows =
        block_tokens.subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
    return SparseRange::Make({rows, {}, block_rows, {}, words.count()})
        .Spread(first - from, to - end, kWeights);
  }
};

// Neighbouring ranges that one thread searches, and the candidate that their first block is.
struct Part {
  std::vector<const SparseRange*> ranges;
  int64_t first = 0;
  int64_t blocks = 0;
  Answers best;  // by query
};

std::vector<Part> Parts(std::span<const SparseKeys* const> documents) {
  std::vector<Part> parts(1);
  for (const SparseKeys* document : documents) {
    for (const SparseRange& range : document->ranges()) {
      Part& last = parts.back();
      if (last.blocks >= kPartBlocks) parts.push_back({{}, last.first + last.blocks, 0, {}});
      parts.back().ranges.push_back(&range);
      parts.back().blocks += range.blocks();
    }
  }
  return parts;
}

}  // namespace

SparseKeys SparseKeys::Make(const model::Words& words, std::span<const int32_t> tokens,
                            std::span<const int64_t> block_tokens, ThreadPool* pool) {
  Blocks blocks{words, tokens, block_tokens, {0}};
  for (const int64_t count : block_tokens) blocks.begins.push_back(blocks.begins.back() + count);
  SparseKeys keys;
  keys.blocks_ = std::ssize(block_tokens);
  keys.ranges_.resize(static_cast<size_t>(RangesOf(keys.blocks_)));
  ForEach(pool, std::ssize(keys.ranges_), [&](int64_t i) {
    const int64_t first = i * kRangeBlocks;
    const int64_t end = std::min(first + kRangeBlocks, keys.blocks_);
    keys.ranges_[static_cast<size_t>(i)] = blocks.MakeRange(first, end);
  });
  return keys;
}

absl::Status SparseKeys::MoveTo(SparseIndex& device) {
  std::vector<SparseSource> sources;
  for (const SparseRange& range : ranges_) sources.push_back({&range});
  ASSIGN_OR_RETURN(on_device_, device.Keep(sources, 0));
  ranges_ = {};
  return absl::OkStatus();
}

int64_t SparseKeys::bytes() const {
  if (on_device_ != nullptr) return on_device_->bytes();
  int64_t bytes = static_cast<int64_t>(ranges_.capacity() * sizeof(SparseRange));
  for (const SparseRange& range : ranges_) bytes += range.bytes();
  return bytes;
}

int64_t SparseKeys::BytesOf(const model::Words& words, int64_t tokens, int64_t blocks) {
  const int64_t rows = tokens * (2 * kReach + 1), ranges = RangesOf(blocks);
  // Every token may be a word of its own, also in the range beside its own.
  const int64_t shared = std::max<int64_t>(ranges - 1, 0) * 2 * kReach * kMaxBlockTokens;
  const int64_t different = std::min<int64_t>(tokens + shared, ranges * words.count());
  return SparseRange::MaxBytes(rows, 0, different) +
         ranges * (SparseRange::MaxBytes(0, 0, 0) + static_cast<int64_t>(sizeof(SparseRange)));
}

std::vector<SparseTerm> SparseQuery(const model::Words& words, std::span<const int32_t> tokens) {
  std::vector<SparseTerm> terms;
  std::unordered_set<int32_t> seen;
  for (const int32_t token : tokens) {
    const int32_t word = words.word(token);
    if (seen.insert(word).second) terms.push_back({word, words.idf(word) / kWhole});
  }
  return terms;
}

Answers SearchSparseAll(ThreadPool* pool, std::span<const SparseKeys* const> documents,
                        Queries queries, int n) {
  std::vector<Part> parts = Parts(documents);
  ForEach(pool, std::ssize(parts), [&](int64_t i) {
    Part& part = parts[static_cast<size_t>(i)];
    kernels::OpContext ctx;
    part.best = kernels::SparseTopK(ctx, queries, part.ranges, n);
    for (std::vector<ScoredCandidate>& best : part.best) {
      for (ScoredCandidate& found : best) found.candidate += part.first;
    }
  });
  Answers answers;
  for (size_t q = 0; q < queries.size(); ++q) {
    Answers found;
    for (Part& part : parts) found.push_back(std::move(part.best[q]));
    answers.push_back(kernels::MergeTopK(found, n));
  }
  return answers;
}

absl::StatusOr<std::vector<ScoredCandidate>> SearchSparse(
    ThreadPool* pool, std::span<const SparseKeys* const> documents,
    std::span<const SparseTerm> query, int n) {
  if (!documents.empty() && documents.front()->on_device() != nullptr) {
    return SearchOnDevice(documents, {query, {}}, n);
  }
  const std::vector<SparseTerm> terms(query.begin(), query.end());
  return std::move(SearchSparseAll(pool, documents, {&terms, 1}, n).front());
}

}  // namespace recollect::engine
