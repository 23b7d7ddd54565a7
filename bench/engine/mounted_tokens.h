// What a token costs with a document mounted that has been in a data directory, beside what it
// costs with little or nothing mounted; and the latencies of its landmark steps. Prints them.
#ifndef RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_
#define RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/loaded_model.h"
#include "engine/engine.h"

namespace recollect::bench {

double Median(std::vector<double> values);

// Ends the process with a message where something fails. The model's layers run on the CPU, and its
// landmark keys are there.
class MountedTokens {
 public:
  MountedTokens(engine::LoadedModel model, std::string data_dir, std::string document,
                int64_t times);
  // With the document, with one of 16 K tokens and with nothing mounted, in `rounds` turns of
  // `tokens_each`; chunks come from all tiers. Ratios are medians of those of each turn. Leaves no
  // document behind.
  void TimePerToken(int rounds, int64_t tokens_each);
  // By where their chunks are, in turns of `steps_each`.
  void LandmarkSteps(int rounds, int64_t steps_each);

 private:
  class Index;
  std::unique_ptr<engine::Engine> OpenEngine(const engine::EngineOptions& options) const;
  // Returns when it has its sketch.
  void Mount(engine::Engine& engine) const;

  engine::LoadedModel model_;
  const std::string data_dir_, document_;
  std::shared_ptr<Index> index_;  // the model's
};

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_
