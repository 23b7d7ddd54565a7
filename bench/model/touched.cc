#include "bench/model/touched.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/numeric/bf16.h"

namespace recollect::bench {
namespace {

using model::BlockCache;
using model::LocalPattern;

const LocalPattern& PatternOf(const model::LocalState& state, int layer, int head) {
  const model::HeadPatterns& heads = state.pattern.layer(layer);
  return heads[heads.size() == 1 ? 0 : static_cast<size_t>(head)];
}

// The first of the blocks just before the own, as many as a query chooses.
int64_t FirstChosen(const model::BlockChoice& choice, int64_t position) {
  return std::max<int64_t>(position / choice.block - (choice.count - 1), 0);
}

// Entries of all heads of a cache: counted, and at `position` by the formula.
template <typename Cache>
int64_t Count(const model::ModelConfig&, const Cache& cache) {
  int64_t entries = 0;
  for (const auto& range : cache.Ranges(cache.length() - 1).ranges) {
    entries += range.end - range.begin;
  }
  return cache.heads() * entries;
}

int64_t Count(const model::ModelConfig& config, const BlockCache& cache) {
  const int64_t position = cache.length() - 1;
  const int64_t first = FirstChosen(cache.choice(), position);
  std::vector<int64_t> chosen(static_cast<size_t>(position / cache.choice().block - first));
  std::iota(chosen.begin(), chosen.end(), first);
  std::vector<int64_t> positions;
  int64_t entries = 0;
  for (int head = 0; head < config.heads; ++head) {
    cache.Positions(head, position, chosen, positions);
    entries += std::ssize(positions);
  }
  return entries;
}

int64_t Formula(const model::ModelConfig&, const model::LocalState& state, int layer,
                const model::LocalCache& cache, int64_t position) {
  return cache.heads() *
         model::AttendedCount(PatternOf(state, layer, cache.first_head()), position);
}

int64_t Formula(const model::ModelConfig&, const model::LocalState&, int,
                const model::ResidualCache& cache, int64_t position) {
  const LocalPattern window{cache.window(), model::kNoDilation, 0, cache.window()};
  return cache.heads() * model::AttendedCount(window, position);
}

int64_t Formula(const model::ModelConfig& config, const model::LocalState& state, int layer,
                const BlockCache& cache, int64_t position) {
  const int64_t first = FirstChosen(cache.choice(), position) * cache.choice().block;
  int64_t entries = 0;
  for (int head = 0; head < config.heads; ++head) {
    LocalPattern wider = PatternOf(state, layer, head);
    wider.window = std::max(wider.window, position - first);
    entries += model::AttendedCount(wider, position);
  }
  return entries;
}

int64_t Heads(const model::ModelConfig& config, const BlockCache&) { return config.heads; }
template <typename Cache>
int64_t Heads(const model::ModelConfig&, const Cache& cache) {
  return cache.heads();
}

// Sum of `entries(cache, its layer's index)` over all caches of a state.
template <typename Entries>
int64_t SumOverCaches(const model::LocalState& state, const Entries& entries) {
  int64_t sum = 0;
  for (size_t i = 0; i < state.layers.size(); ++i) {
    const model::LayerState& layer = state.layers[i];
    const int index = static_cast<int>(i);
    for (const model::LocalCache& cache : layer.caches()) sum += entries(cache, index);
    if (layer.block_cache() != nullptr) sum += entries(*layer.block_cache(), index);
    const model::ResidualCache* residual = layer.residual_cache();
    if (residual != nullptr && residual->window() >= 0) sum += entries(*residual, index);
  }
  return sum;
}

// Each head scores all whole blocks before its own.
double CountBounds(const model::ModelConfig& config, const model::LocalState& state,
                   int64_t position) {
  const model::BlockChoice& choice = state.pattern.blocks();
  if (choice.count == 0) return 0;
  return static_cast<double>(CountHeads(config, state) * (position / choice.block));
}

}  // namespace

void Touched::Add(const Touched& other) {
  entries += other.entries;
  bounds += other.bounds;
  memory += other.memory;
  keys += other.keys;
}

void Touched::Scale(double factor) {
  for (double* count : {&entries, &bounds, &memory, &keys}) *count *= factor;
}

double Touched::bytes(const model::ModelConfig& config) const {
  return 2.0 * config.head_dim * ((entries + bounds) * sizeof(float) + memory * sizeof(Bf16)) +
         key_bytes(config);
}

double Touched::key_bytes(const model::ModelConfig& config) const {
  return keys * static_cast<double>(config.key_width()) * sizeof(Bf16);
}

double Touched::flops(const model::ModelConfig& config) const {
  // Of an entry, the key with the query and the value with its weight; of bounds, both with it.
  return 4.0 * config.head_dim * (entries + bounds + memory);
}

Touched CountState(const model::ModelConfig& config, const model::LocalState& state) {
  const auto entries =
      SumOverCaches(state, [&](const auto& cache, int) { return Count(config, cache); });
  return {.entries = static_cast<double>(entries),
          .bounds = CountBounds(config, state, state.length() - 1)};
}

double CountMemory(const model::ModelConfig& config, const model::Retrieved& retrieved) {
  int64_t rows = 0;
  for (const kernels::MemoryView& chunk : retrieved.chunks) rows += chunk.rows;
  return static_cast<double>(rows * config.memory_kv_heads);
}

Touched StateByFormula(const model::ModelConfig& config, const model::LocalState& state,
                       int64_t position) {
  const auto entries = SumOverCaches(state, [&](const auto& cache, int layer) {
    return Formula(config, state, layer, cache, position);
  });
  return {.entries = static_cast<double>(entries), .bounds = CountBounds(config, state, position)};
}

double MemoryByFormula(const model::ModelConfig& config, int64_t chunks, int chunk_rows) {
  int64_t layers = 0;
  for (const model::GroupConfig& group : config.groups) layers += std::ssize(group.gca_layers);
  return static_cast<double>(layers * std::min<int64_t>(chunks, config.n_ret) * chunk_rows *
                             config.memory_kv_heads);
}

int64_t CountHeads(const model::ModelConfig& config, const model::LocalState& state) {
  return SumOverCaches(state, [&](const auto& cache, int) { return Heads(config, cache); });
}

int64_t SumBytes(const model::LocalState& state) {
  int64_t bytes = 0;
  for (const model::LayerState& layer : state.layers) {
    if (layer.residual_cache() != nullptr) bytes += layer.residual_cache()->sum_bytes();
  }
  return bytes;
}

}  // namespace recollect::bench
