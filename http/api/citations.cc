#include "http/api/citations.h"

#include <algorithm>
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
}

}  // namespace

void Citations::Add(const engine::Retrieval& retrieval) {
  if (!retrieval.as_text) {
    if (!answering_ && retrieval.position != position_) chunks_.clear();
    position_ = retrieval.position;
  }
  if (retrieval.nothing.has_value()) nothing_ = retrieval.nothing;
  for (const engine::Hit& hit : retrieval.hits) {
    if (hit.document.empty() || hit.weight <= 0) continue;
    if (retrieval.nothing.has_value() && hit.weight < engine::kLeastCited) continue;
    Keep(hit, retrieval.as_text ? text_ : chunks_);
  }
}

absl::StatusOr<json> Citations::Encode(engine::Engine& engine) const {
  Hits all = text_;
  for (const auto& [block, hit] : chunks_) Keep(hit, all);
  std::vector<engine::Hit> hits;
  for (const auto& [block, hit] : all) hits.push_back(hit);
  std::stable_sort(hits.begin(), hits.end(),
                   [](const auto& a, const auto& b) { return a.weight > b.weight; });
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
                         {"text", texts[i].empty() ? json(nullptr) : json(texts[i])}});
  }
  return citations;
}

}  // namespace recollect::http
