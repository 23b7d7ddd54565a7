#include "engine/step/text_retrieval.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

// What a search of several documents is over, in an order of their own.
struct Searched {
  std::vector<const DocumentPin*> pins;
  std::vector<const SparseKeys*> keys;
};

Searched ById(std::span<const Pin> mounts) {
  Searched searched;
  for (const Pin& pin : mounts) searched.pins.push_back(pin.get());
  std::sort(searched.pins.begin(), searched.pins.end(),
            [](const auto* a, const auto* b) { return a->info().id < b->info().id; });
  for (const DocumentPin* pin : searched.pins) {
    RECOLLECT_CHECK(pin->sparse() != nullptr);
    searched.keys.push_back(pin->sparse());
  }
  return searched;
}

// The hit of a candidate, which is numbered through all documents; not yet its range.
Hit HitOf(const Searched& searched, const kernels::ScoredCandidate& found, float sum) {
  int64_t chunk = found.candidate;
  size_t document = 0;
  while (chunk >= searched.keys[document]->blocks()) chunk -= searched.keys[document++]->blocks();
  const store::DocumentInfo& info = searched.pins[document]->info();
  Hit hit;
  hit.document = info.id;
  hit.owner = info.owner;
  hit.chunk = chunk;
  hit.score = found.score;
  hit.weight = found.score / sum;
  hit.tier = Tier::kStore;
  return hit;
}

}  // namespace

absl::StatusOr<std::vector<TextBlock>> RetrieveText(store::DocumentReader& store, ThreadPool* pool,
                                                    std::span<const Pin> mounts,
                                                    std::span<const kernels::SparseTerm> query,
                                                    int64_t k) {
  const Searched searched = ById(mounts);
  ASSIGN_OR_RETURN(const std::vector<kernels::ScoredCandidate> best,
                   SearchSparse(pool, searched.keys, query, static_cast<int>(k)));
  float sum = 0;
  for (const kernels::ScoredCandidate& found : best) sum += found.score;
  std::vector<TextBlock> blocks;
  std::vector<ChunkRef> refs;
  for (const kernels::ScoredCandidate& found : best) {
    const Hit& hit = blocks.emplace_back(TextBlock{HitOf(searched, found, sum)}).hit;
    refs.push_back({hit.owner, hit.chunk});
  }
  const auto records = store.ReadChunks(refs);
  for (size_t i = 0; i < blocks.size(); ++i) {
    Hit& hit = blocks[i].hit;
    RETURN_IF_ERROR(Annotate(records[i].status(), absl::StrCat("document \"", hit.document, "\"")));
    hit.text_begin = records[i]->text_begin;
    hit.text_end = records[i]->text_end;
    blocks[i].tokens = records[i]->rows;
  }
  return blocks;
}

}  // namespace recollect::engine
