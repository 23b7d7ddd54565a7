#include "engine/step/recall.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/status.h"
#include "engine/session/hybrid_keys.h"
#include "engine/step/spellings.h"
#include "model/text/words.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;

bool HasSuccessor(std::span<const HybridKeys* const> documents, int64_t candidate) {
  for (const HybridKeys* document : documents) {
    if (candidate < document->blocks()) return document->HasSuccessor(candidate);
    candidate -= document->blocks();
  }
  return false;
}

// A block that is read, and its share of the softmax before that is divided by its sum.
struct Share {
  ScoredCandidate block;
  double share = 0;
};

void AddShare(ScoredCandidate block, double share, std::vector<Share>& shares) {
  const auto same = std::ranges::find(shares, block.candidate,
                                      [](const Share& known) { return known.block.candidate; });
  if (same == shares.end()) {
    shares.push_back({block, share});
  } else {
    same->share += share;
  }
}

bool Lists(const Recalled& recalled, const ScoredCandidate& block) {
  return std::ranges::any_of(recalled.blocks, [&](const ScoredCandidate& listed) {
    return listed.candidate == block.candidate;
  });
}

void AddMore(std::span<const ScoredCandidate> found, float score_of_nothing, int64_t most,
             Recalled& recalled) {
  for (const ScoredCandidate& block : found) {
    if (std::ssize(recalled.more) == most) return;
    if (Lists(recalled, block)) continue;
    recalled.more.push_back(block);
    recalled.more_weights.push_back(std::exp(block.score - score_of_nothing) * recalled.nothing);
  }
}

}  // namespace

absl::StatusOr<Recalled> Recall(const model::Model& model, ThreadPool* pool,
                                std::span<const Pin> mounts, std::span<const int32_t> asking,
                                std::span<const float> u, int64_t hits, int64_t more) {
  const model::ModelConfig& config = model.config();
  std::vector<const HybridKeys*> documents;
  for (const Pin& pin : mounts) {
    RECOLLECT_CHECK(pin->hybrid() != nullptr);
    documents.push_back(pin->hybrid());
  }
  HybridQuery query;
  query.dense.assign(u.begin(), u.begin() + config.d_r);
  const auto weights =
      u.subspan(static_cast<size_t>(config.d_r), static_cast<size_t>(config.chunk_tokens))
          .last(asking.size());
  for (size_t row = 0; row < asking.size(); ++row) {
    query.terms.push_back({model.words()->word(asking[row]), weights[row]});
  }
  if (const double share = config.adapter.spelling_share; share > 0) {
    for (const auto& [word, weight] :
         OtherSpellings(*model.tokenizer(), *model.words(), asking, weights))
      query.terms.push_back({word, static_cast<float>(share * weight)});
  }
  const int64_t own = std::max<int64_t>(config.n_ret, hits);
  // Each of the blocks that are read may be among the best.
  const int64_t n = more > 0 ? std::max(own, 2 * config.n_ret + more) : own;
  ASSIGN_OR_RETURN(const std::vector<ScoredCandidate> found,
                   SearchHybrid(pool, documents, query, static_cast<int>(n)));
  const auto first = std::span(found).first(std::min(found.size(), static_cast<size_t>(own)));
  Recalled recalled =
      WeighBlocks(first, u.back(), config.n_ret, model.successor_distance(),
                  [&](int64_t candidate) { return HasSuccessor(documents, candidate); });
  AddMore(found, u.back(), more, recalled);
  return recalled;
}

Recalled WeighBlocks(std::span<const ScoredCandidate> found, float score_of_nothing,
                     int64_t read_at_most, float successor_distance,
                     absl::FunctionRef<bool(int64_t)> has_successor) {
  const size_t givers = std::min(found.size(), static_cast<size_t>(read_at_most));
  const float most =
      givers > 0 ? std::max(score_of_nothing, found.front().score) : score_of_nothing;
  std::vector<Share> shares;
  const auto add = [&](int64_t candidate, float score) {
    AddShare({candidate, score}, std::exp(static_cast<double>(score) - most), shares);
  };
  for (size_t i = 0; i < givers; ++i) add(found[i].candidate, found[i].score);
  for (size_t i = 0; i < givers; ++i) {
    if (!has_successor(found[i].candidate)) continue;
    add(found[i].candidate + 1, found[i].score - successor_distance);
  }
  std::ranges::stable_sort(shares, std::greater<>(), &Share::share);
  const double of_nothing = std::exp(static_cast<double>(score_of_nothing) - most);
  double sum = of_nothing;
  for (const Share& share : shares) sum += share.share;

  Recalled recalled;
  recalled.nothing = static_cast<float>(of_nothing / sum);
  if (!shares.empty()) recalled.nothing = std::min(recalled.nothing, std::nextafter(1.0F, 0.0F));
  for (const Share& share : shares) {
    recalled.blocks.push_back(share.block);
    recalled.weights.push_back(static_cast<float>(share.share / sum));
  }
  for (const ScoredCandidate& one : found) {
    const auto listed =
        std::ranges::find(recalled.blocks, one.candidate, &ScoredCandidate::candidate);
    recalled.found.push_back(static_cast<size_t>(listed - recalled.blocks.begin()));
    if (listed == recalled.blocks.end()) {
      recalled.blocks.push_back(one);
    } else {
      listed->score = one.score;
    }
  }
  return recalled;
}

}  // namespace recollect::engine
