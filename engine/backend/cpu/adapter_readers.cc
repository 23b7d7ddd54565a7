#include "engine/backend/cpu/adapter_readers.h"

#include <cstddef>

#include "model/cpu/adapter_reranker.h"

namespace recollect::engine {

model::Reading ReadOn(ComputeThreads& threads, const model::CpuModel& model,
                      const model::ReaderQuestion& question) {
  std::vector<std::vector<model::TokenScores>> scores(question.blocks.size());
  threads.pool.ParallelFor(std::ssize(scores), [&](int64_t i, int worker) {
    const auto at = static_cast<size_t>(i);
    scores[at] = model.ReadBlock(threads.context(worker), question, question.blocks[at]);
  });
  return model::MakeReading(model.config().adapter.reader, scores);
}

std::vector<std::vector<float>> RerankOn(ComputeThreads& threads, const model::CpuModel& model,
                                         std::span<const model::RerankerText> texts) {
  model::RerankerRun run = model.Rerank(texts);
  threads.pool.Wavefront(run.slices(), run.layers(), [&](int64_t slice, int64_t layer, int worker) {
    run.RunLayer(threads.context(worker), slice, layer);
  });
  return run.Scores();
}

}  // namespace recollect::engine
