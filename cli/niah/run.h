// Runs needle-in-a-haystack samples through a client: cuts haystacks, ingests them, and has the
// tasks ask in fresh sessions.
#ifndef RECOLLECT_CLI_NIAH_RUN_H_
#define RECOLLECT_CLI_NIAH_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/niah/ask.h"
#include "cli/niah/haystack.h"
#include "cli/niah/phrases.h"
#include "cli/niah/report.h"
#include "cli/niah/task.h"
#include "cli/niah/volume.h"
#include "client/client.h"

namespace recollect::cli::niah {

enum class Control { kNone, kUnmounted, kRemoved, kRandom };

struct RunOptions {
  std::vector<std::string> tasks = {"passkey"};
  TaskOptions task;
  std::vector<int64_t> tokens;
  Control control = Control::kNone;
  int depths = 5;
  int samples = 50;  // of each task, size and variant, spread evenly over the depths
  int64_t dilation =
      0;  // of the sessions' local attention; 0: the model's. Ingest always uses the model's
  double dry_multiplier = 0;
  int64_t shard_tokens = 64 << 10;
  int samples_per_haystack = 10;  // where a haystack in several shards was prepared for one task
  uint64_t seed = 1;
};

// Not thread-safe. The destructor deletes the documents that it ingested.
class Runner {
 public:
  // Borrows the client. Haystacks are cut from `text`. `hits`: the number that the model retrieves.
  Runner(client::Client& client, const RunOptions& options, int64_t hits, std::string text,
         Phrases phrases);

  int64_t total() const;  // number of samples
  // Runs all samples. INVALID_ARGUMENT: the text is too short for a size, or has too few words for
  // keys.
  absl::StatusOr<std::vector<Sample>> Run(const std::function<void(const Sample&)>& on_sample);

 private:
  // A haystack in which no sample has hidden anything yet. Its shards are ingested when first
  // mounted.
  struct Base {
    Haystack haystack;
    Volumes volumes;
  };
  struct Cell {
    Task& task;
    int64_t tokens;
    Variant variant;
  };

  absl::Status Probe();
  absl::StatusOr<std::shared_ptr<Base>> MakeBase(const Cell& cell, Random& random);
  absl::StatusOr<std::shared_ptr<Base>> BaseFor(const Cell& cell, int i,
                                                std::shared_ptr<Base> last);
  uint64_t CellSeed(const Cell& cell) const;
  absl::Status RunCell(const Cell& cell, const std::function<void(const Sample&)>& on_sample,
                       std::vector<Sample>* samples);
  absl::StatusOr<Sample> RunSample(const Cell& cell, Base& base, double depth, Random& random);
  absl::StatusOr<Volumes> Mount(const Haystack& haystack, Base& base, Sample* sample);
  int64_t Shards(const Cell& cell) const;

  client::Client& client_;
  const RunOptions options_;
  const std::string text_;
  const Material material_;
  const Asker asker_;
  std::vector<std::unique_ptr<Task>> tasks_;
  double bytes_per_token_ = 0;
  // Haystacks of the present size that several cells share, by number of shards and, if prepared,
  // by task.
  std::map<std::pair<int64_t, std::string>, std::shared_ptr<Base>> shared_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_RUN_H_
