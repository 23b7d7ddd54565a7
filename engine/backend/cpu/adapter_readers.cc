#include "engine/backend/cpu/adapter_readers.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

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
  // Of one thread, so that all have about as many tokens.
  struct Share {
    std::vector<size_t> numbers;
    std::vector<model::RerankerText> texts;
    size_t tokens = 0;
  };
  std::vector<Share> shares(std::min(texts.size(), static_cast<size_t>(threads.pool.threads())));
  std::vector<size_t> longest_first(texts.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::ranges::stable_sort(longest_first, std::greater<>(),
                           [&](size_t i) { return texts[i].tokens.size(); });
  for (const size_t i : longest_first) {
    Share& least = *std::ranges::min_element(shares, {}, &Share::tokens);
    least.numbers.push_back(i);
    least.texts.push_back(texts[i]);
    least.tokens += texts[i].tokens.size();
  }
  std::vector<std::vector<float>> scores(texts.size());
  threads.pool.ParallelFor(std::ssize(shares), [&](int64_t k, int worker) {
    const Share& share = shares[static_cast<size_t>(k)];
    std::vector<std::vector<float>> some = model.Rerank(threads.context(worker), share.texts);
    for (size_t j = 0; j < some.size(); ++j) scores[share.numbers[j]] = std::move(some[j]);
  });
  return scores;
}

}  // namespace recollect::engine
