#include "bench/model/touched.h"

#include "base/check.h"

namespace recollect::bench {

namespace {

// The pattern of some neighbouring heads' cache.
model::LocalPattern PatternOf(const model::LocalState& state, int layer,
                              const model::LocalCache& cache) {
  const model::HeadPatterns& heads = state.pattern.layer(layer);
  return heads[heads.size() == 1 ? 0 : static_cast<size_t>(cache.first_head())];
}

model::LocalPattern PatternOf(const model::LocalState&, int, const model::ResidualCache& cache) {
  return {cache.window(), model::kNoDilation, 0, cache.window()};
}

// Sum over all caches with a window of the heads of each times `entries(cache, its layer's index)`.
template <typename Entries>
int64_t SumOverHeads(const model::LocalState& state, const Entries& entries) {
  int64_t sum = 0;
  for (size_t i = 0; i < state.layers.size(); ++i) {
    const model::LayerState& layer = state.layers[i];
    const int index = static_cast<int>(i);
    RECOLLECT_CHECK(layer.block_cache() == nullptr);  // whose queries choose
    for (const model::LocalCache& cache : layer.caches()) {
      sum += cache.heads() * entries(cache, index);
    }
    const model::ResidualCache* residual = layer.residual_cache();
    if (residual != nullptr && residual->window() >= 0) {
      sum += residual->heads() * entries(*residual, index);
    }
  }
  return sum;
}

}  // namespace

int64_t CountEntries(const model::LocalState& state) {
  return SumOverHeads(state, [](const auto& cache, int) {
    int64_t entries = 0;
    for (const auto& range : cache.Ranges(cache.length() - 1).ranges) {
      entries += range.end - range.begin;
    }
    return entries;
  });
}

int64_t EntriesByFormula(const model::LocalState& state, int64_t position) {
  return SumOverHeads(state, [&](const auto& cache, int layer) {
    return model::AttendedCount(PatternOf(state, layer, cache), position);
  });
}

int64_t CountHeads(const model::LocalState& state) {
  return SumOverHeads(state, [](const auto&, int) { return int64_t{1}; });
}

int64_t SumBytes(const model::LocalState& state) {
  int64_t bytes = 0;
  for (const model::LayerState& layer : state.layers) {
    if (layer.residual_cache() != nullptr) bytes += layer.residual_cache()->sum_bytes();
  }
  return bytes;
}

}  // namespace recollect::bench
