// Measures and prints what a token costs with a document mounted from a data directory, beside its
// cost with little or nothing mounted; and the latencies of landmark steps.
#ifndef RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_
#define RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/loaded_model.h"
#include "engine/engine.h"

namespace recollect::bench {

double Median(std::vector<double> values);

// Ends the process with a message when something fails. The model's layers run on the CPU, which
// also has its landmark keys.
class MountedTokens {
 public:
  MountedTokens(engine::LoadedModel model, std::string data_dir, std::string document,
                int64_t times);
  // Prints the time per token with the document mounted, with one of 16 K tokens and with none, in
  // `rounds` rounds of `tokens_each` tokens; chunks come from all tiers. A ratio is the median of
  // the ratios of the rounds. Leaves no document behind.
  void TimePerToken(int rounds, int64_t tokens_each);
  // Prints the latencies of landmark steps by where their chunks are, in `rounds` rounds of
  // `steps_each` steps.
  void LandmarkSteps(int rounds, int64_t steps_each);

 private:
  class Index;
  std::unique_ptr<engine::Engine> OpenEngine(const engine::EngineOptions& options) const;
  // Mounts the document and returns when its sketch is there.
  void Mount(engine::Engine& engine) const;

  engine::LoadedModel model_;
  const std::string data_dir_, document_;
  std::shared_ptr<Index> index_;  // the model's
};

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_ENGINE_MOUNTED_TOKENS_H_
