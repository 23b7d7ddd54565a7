#include "http/api/citations.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/block_texts.h"

namespace recollect::http {
namespace {

using nlohmann::json;

constexpr size_t kMaxCitations = 32;
constexpr int64_t kMaxTextBytes = 4096;

using Hits = std::map<std::pair<std::string, int64_t>, engine::Hit>;

void Keep(const engine::Hit& hit, Hits& hits) {
  engine::Hit& kept = hits.try_emplace({hit.document, hit.chunk}, hit).first->second;
  kept.weight = std::max(kept.weight, hit.weight);
  if (kept.quote.empty()) kept.quote = hit.quote;
}

json QuoteOf(const engine::Hit& hit) { return hit.quote.empty() ? json(nullptr) : json(hit.quote); }

}  // namespace

void Citations::Add(const engine::Retrieval& retrieval) {
  if (!retrieval.as_text) {
    if (!answering_ && retrieval.position != position_) chunks_.clear();
    position_ = retrieval.position;
  }
  if (retrieval.nothing.has_value()) nothing_ = retrieval.nothing;
  for (const engine::Hit& hit : retrieval.hits) {
    if (hit.document.empty()) continue;
    const float least = retrieval.nothing.has_value() ? engine::kLeastCited : 0;
    const bool cited = hit.weight > 0 && hit.weight >= least;
    if (!cited && hit.quote.empty()) continue;
    Keep(hit, retrieval.as_text ? text_ : chunks_);
  }
}

absl::StatusOr<json> Citations::Encode(engine::Engine& engine) const {
  Hits all = text_;
  for (const auto& [block, hit] : chunks_) Keep(hit, all);
  std::vector<engine::Hit> hits;
  for (const auto& [block, hit] : all) hits.push_back(hit);
  std::ranges::stable_sort(hits, std::greater(), [](const engine::Hit& hit) {
    return std::pair(!hit.quote.empty(), hit.weight);
  });
  hits.resize(std::min(hits.size(), kMaxCitations));
  std::vector<engine::Hit> quoted = hits;
  for (engine::Hit& hit : quoted)
    hit.text_end = std::min(hit.text_end, hit.text_begin + kMaxTextBytes);
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, engine::ReadBlockTexts(engine, quoted));
  json citations = json::array();
  for (size_t i = 0; i < hits.size(); ++i) {
    citations.push_back({{"document", hits[i].document},
                         {"begin", hits[i].text_begin},
                         {"end", hits[i].text_end},
                         {"weight", hits[i].weight},
                         {"quote", QuoteOf(hits[i])},
                         {"text", texts[i].empty() ? json(nullptr) : json(texts[i])}});
  }
  return citations;
}

}  // namespace recollect::http
