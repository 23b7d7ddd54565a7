#include "engine/backend/cpu/adapter_readers.h"

#include <algorithm>
#include <cstddef>

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

std::vector<float> RerankOn(ComputeThreads& threads, const model::CpuModel& model,
                            std::span<const std::vector<int32_t>> texts) {
  std::vector<float> scores(texts.size());
  const int64_t count = std::ssize(texts), workers = threads.pool.threads();
  const int64_t share = (count + workers - 1) / workers;
  threads.pool.ParallelFor((count + share - 1) / share, [&](int64_t i, int worker) {
    const auto begin = static_cast<size_t>(i * share);
    const auto some = texts.subspan(begin, static_cast<size_t>(std::min(share, count - i * share)));
    std::ranges::copy(model.Rerank(threads.context(worker), some), &scores[begin]);
  });
  return scores;
}

}  // namespace recollect::engine
