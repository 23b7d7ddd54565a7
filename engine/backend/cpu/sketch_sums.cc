#include "engine/backend/cpu/sketch_sums.h"

#include <algorithm>

namespace recollect::engine {
namespace {

using kernels::LandmarkSketch;

// Blocks that one thread sums at a time, 1.5 MB of codes: many tiles, so that a thread whose core
// is busy with something else keeps no other waiting.
constexpr int64_t kTileBlocks = 512;
// Buffers kept for later.
constexpr size_t kUnusedBuffers = 16;

std::span<const float> EndOf(std::span<const float> query, const LandmarkSketch& sketch) {
  return query.last(static_cast<size_t>(sketch.coarse_numbers()));
}

struct Pass {
  const LandmarkSketch* sketch = nullptr;
  std::vector<kernels::SketchSums> queries;
};
struct Tile {
  const Pass* pass = nullptr;
  int64_t first = 0, blocks = 0;
};

}  // namespace

const SumsOfSketch* SumsAhead::Find(const LandmarkSketch& sketch,
                                    std::span<const float> query) const {
  for (const SumsOfSketch& made : of) {
    if (made.sketch != &sketch || made.count != sketch.count()) continue;
    return made.weights == sketch.CoarseWeights(EndOf(query, sketch)) ? &made : nullptr;
  }
  return nullptr;
}

std::shared_ptr<std::vector<int32_t>> SketchSummer::Buffer(size_t size) {
  std::unique_ptr<std::vector<int32_t>> buffer;
  {
    MutexLock lock(buffers_->mutex);
    if (!buffers_->unused.empty()) {
      buffer = std::move(buffers_->unused.back());
      buffers_->unused.pop_back();
    }
  }
  if (buffer == nullptr) buffer = std::make_unique<std::vector<int32_t>>();
  if (buffer->size() < size) buffer->resize(size);
  return {buffer.release(), [buffers = buffers_](std::vector<int32_t>* used) {
            std::unique_ptr<std::vector<int32_t>> owned(used);
            MutexLock lock(buffers->mutex);
            if (buffers->unused.size() < kUnusedBuffers) {
              buffers->unused.push_back(std::move(owned));
            }
          }};
}

SumsOfSketch SketchSummer::Plan(std::shared_ptr<const void> kept, const LandmarkSketch& sketch,
                                std::span<const float> query_end) {
  return {std::move(kept), &sketch, sketch.count(), sketch.CoarseWeights(query_end),
          Buffer(static_cast<size_t>(sketch.blocks() * kernels::kSketchBlock))};
}

void SketchSummer::Make(const std::deque<SumsOfSketch>& planned) {
  std::vector<Pass> passes;
  for (const SumsOfSketch& sums : planned) {
    auto pass = std::find_if(passes.begin(), passes.end(),
                             [&](const Pass& other) { return other.sketch == sums.sketch; });
    if (pass == passes.end()) pass = passes.insert(pass, {sums.sketch, {}});
    pass->queries.push_back({sums.weights.data(), sums.sums->data()});
  }
  std::vector<Tile> tiles;
  for (const Pass& pass : passes) {
    for (int64_t first = 0; first < pass.sketch->blocks(); first += kTileBlocks) {
      tiles.push_back({&pass, first, std::min(kTileBlocks, pass.sketch->blocks() - first)});
    }
  }
  threads_->pool.ParallelFor(static_cast<int64_t>(tiles.size()), [&](int64_t i, int worker) {
    const Tile& tile = tiles[static_cast<size_t>(i)];
    std::vector<kernels::SketchSums> queries = tile.pass->queries;
    for (kernels::SketchSums& query : queries) query.sums += tile.first * kernels::kSketchBlock;
    tile.pass->sketch->Sum(threads_->context(worker), queries, tile.first, tile.blocks);
  });
}

}  // namespace recollect::engine
