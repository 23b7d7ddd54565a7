#include "bench/model/touched.h"

#include "base/check.h"

namespace recollect::bench {

namespace {

// Sum over all caches of the heads of each times `entries(cache, its layer's index)`.
template <typename Entries>
int64_t SumOverHeads(const model::LocalState& state, const Entries& entries) {
  int64_t sum = 0;
  for (size_t layer = 0; layer < state.layers.size(); ++layer) {
    RECOLLECT_CHECK(state.layers[layer].block_cache() == nullptr);     // whose queries choose
    RECOLLECT_CHECK(state.layers[layer].residual_cache() == nullptr);  // of a fixed size
    for (const model::LocalCache& cache : state.layers[layer].caches()) {
      sum += cache.heads() * entries(cache, static_cast<int>(layer));
    }
  }
  return sum;
}

}  // namespace

int64_t CountEntries(const model::LocalState& state) {
  return SumOverHeads(state, [](const model::LocalCache& cache, int) {
    int64_t entries = 0;
    for (const auto& range : cache.Ranges(cache.length() - 1).ranges) {
      entries += range.end - range.begin;
    }
    return entries;
  });
}

int64_t EntriesByFormula(const model::LocalState& state, int64_t position) {
  return SumOverHeads(state, [&](const model::LocalCache& cache, int layer) {
    const model::HeadPatterns& heads = state.pattern.layer(layer);
    const size_t head = heads.size() == 1 ? 0 : static_cast<size_t>(cache.first_head());
    return model::AttendedCount(heads[head], position);
  });
}

int64_t CountHeads(const model::LocalState& state) {
  return SumOverHeads(state, [](const model::LocalCache&, int) { return int64_t{1}; });
}

}  // namespace recollect::bench
