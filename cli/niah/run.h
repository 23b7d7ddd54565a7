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
#include "cli/niah/random.h"
#include "cli/niah/report.h"
#include "cli/niah/task.h"
#include "cli/niah/volume.h"
#include "cli/room.h"
#include "client/client.h"

namespace recollect::cli::niah {

enum class Control { kNone, kUnmounted, kRemoved, kRandom };
// Says where samples hide what they ask for: each in a haystack of its own, which is ingested for
// it, or all samples of a size in one haystack, which is ingested once, as one document.
enum class Hide { kEach, kAll };

struct RunOptions {
  std::vector<std::string> tasks = {"passkey"};
  TaskOptions task;
  std::vector<int64_t> tokens;
  Control control = Control::kNone;
  Hide hide = Hide::kEach;
  int depths = 5;
  int samples = 50;           // of each task, size and variant, spread evenly over the depths
  int samples_per_shape = 0;  // instead, of tasks with many variants; 0: the same
  int asked = 0;              // at most so many of the samples, the first of each; 0: all
  int64_t dilation =
      0;  // of the sessions' local attention; 0: the model's. Ingest always uses the model's
  double dry_multiplier = 0;
  int64_t shard_tokens = 64 << 10;
  int samples_per_haystack = 10;  // where a haystack in several shards was prepared for one task
  uint64_t seed = 1;
  bool keep = false;  // with Hide::kAll, documents stay when all has been asked
};

// Callbacks that are called while samples run; each may be null. A sample's name is the same in
// every run of the same options.
struct Observer {
  // Returns the sample as an earlier run answered it; such a sample is not asked again. Null: no
  // run has answered it.
  std::function<const Sample*(const std::string& name)> answered;
  // Receives each sample. `known`: the sample came from `answered`. An error that this returns ends
  // the run.
  std::function<absl::Status(const std::string& name, const Sample&, bool known)> on_sample;
  // Receives the progress of a document that is ingested for all samples; the document is to have
  // about `tokens` and has `bytes` of text.
  std::function<void(const v1::IngestProgress&, int64_t tokens, int64_t bytes)> on_ingest;

  // Call `answered` and `on_sample`; return null and OK where the function is missing.
  const Sample* Known(const std::string& name) const;
  absl::Status Tell(const std::string& name, const Sample& sample, bool known) const;
};

// Not thread-safe. The destructor deletes the documents that it ingested for single samples.
// Documents for all samples stay until all have been asked, so that an interrupted run can go on.
class Runner {
 public:
  // Borrows the client. Haystacks are cut from `text`. `hits`: the number that the model retrieves.
  Runner(client::Client& client, const RunOptions& options, int64_t hits, std::string text,
         Phrases phrases);

  int64_t total() const;  // number of samples
  // Runs all samples. Before the first of them, INVALID_ARGUMENT: the text is too short for a size,
  // or has too few words for keys; a task cannot share a haystack; RESOURCE_EXHAUSTED: the server
  // has no room for the largest size.
  absl::StatusOr<std::vector<Sample>> Run(const Observer& observer);

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

  // A sample of a haystack that is not ingested yet.
  struct Planned {
    Cell cell;
    int number = 0;  // of its cell
    double depth = 0;
    Question question;
  };

  absl::Status Probe();
  absl::Status CheckSizes() const;
  absl::StatusOr<int64_t> TokensThere() const;
  int64_t BytesFor(int64_t tokens) const;
  Haystack CutHaystack(int64_t tokens, int64_t shards, Random& random) const;
  absl::StatusOr<std::shared_ptr<Base>> BaseFor(const Cell& cell, int i,
                                                std::shared_ptr<Base> last);
  uint64_t HaystackSeed(int64_t tokens) const;
  uint64_t CellSeed(const Cell& cell) const;
  absl::Status RunCell(const Cell& cell, const Observer& observer, std::vector<Sample>* samples);
  absl::StatusOr<Planned> Plan(const Cell& cell, int i, Haystack* haystack) const;
  absl::StatusOr<std::vector<Planned>> PlanAll(int64_t tokens, Haystack* haystack);
  // Records the tokens and the time of the ingest in `first`, the sample that they count for.
  absl::StatusOr<Volumes> IngestAll(int64_t tokens, const Haystack& haystack,
                                    const Observer& observer, Sample* first);
  absl::Status RunAll(int64_t tokens, const Observer& observer, std::vector<Sample>* samples);
  static std::string Name(const Cell& cell, int i);
  int Samples(const Task& task) const;  // that are hidden
  int Asked(const Task& task) const;    // of these
  Random SampleRandom(const Cell& cell, int i) const;
  double Depth(const Cell& cell, int i, Random& random) const;
  absl::StatusOr<Sample> RunSample(const Cell& cell, Base& base, double depth, Random& random);
  absl::StatusOr<Volumes> Mount(const Haystack& haystack, Base& base, Sample* sample);
  int64_t Shards(const Cell& cell) const;

  client::Client& client_;
  const RunOptions options_;
  const std::string text_;
  const Material material_;
  const Asker asker_;
  std::vector<std::unique_ptr<Task>> tasks_;
  TextSize probe_;  // of a part of the text
  // Haystacks of the present size that several cells share, by number of shards and, if prepared,
  // by task.
  std::map<std::pair<int64_t, std::string>, std::shared_ptr<Base>> shared_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_RUN_H_
