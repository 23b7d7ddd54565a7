// Runs needle-in-a-haystack samples through a client: hides, ingests, asks in a fresh session,
// judges the greedy answer whole.
#ifndef RECOLLECT_CLI_NIAH_RUN_H_
#define RECOLLECT_CLI_NIAH_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/niah/haystack.h"
#include "cli/niah/needle.h"
#include "cli/niah/phrases.h"
#include "cli/niah/report.h"
#include "client/client.h"

namespace recollect::cli::niah {

enum class Task { kPasskey, kDistractors, kHex };
enum class Control { kNone, kUnmounted, kRemoved, kRandom };

struct RunOptions {
  std::vector<Task> tasks = {Task::kPasskey};
  std::vector<int64_t> tokens;
  std::vector<bool> held_out = {false, true};  // phrasings
  Control control = Control::kNone;
  int depths = 5;
  int samples = 50;  // of each task, size and phrasing, spread evenly over the depths
  int distractors = 40;
  int hex_digits = 32;
  int64_t dilation =
      0;  // of the sessions' local attention; 0: the model's. Ingest always uses the model's
  int64_t shard_tokens = 64 << 10;
  int samples_per_haystack =
      10;  // with distractors in several shards: how long one haystack serves
  uint64_t seed = 1;
};

// Not thread-safe. Deletes the documents it made when it ends, whatever happened.
class Runner {
 public:
  // Borrows the client. `text`: haystacks are cut from it.
  Runner(client::Client& client, const RunOptions& options, std::string text, Phrases phrases);
  ~Runner();

  // All samples. INVALID_ARGUMENT: the text is too short for a size, or has too few words for keys.
  absl::StatusOr<std::vector<Sample>> Run(const std::function<void(const Sample&)>& on_sample);

 private:
  // Shards as documents; those of one sample's needle are replaced.
  struct Base {
    Haystack haystack;
    Form form;                       // of the distractors
    std::vector<std::string> taken;  // their keys
    std::vector<std::string> ids;    // empty until ingested
    std::vector<int64_t> tokens;
  };
  struct Cell {
    Task task;
    int64_t tokens;
    bool held_out;
  };

  absl::Status Probe();
  absl::StatusOr<Base> MakeBase(const Cell& cell, Random& random);
  absl::Status IngestBase(Base* base);
  absl::StatusOr<std::shared_ptr<Base>> BaseFor(const Cell& cell, int i,
                                                std::shared_ptr<Base> last);
  absl::Status Drop(const Base& base);
  uint64_t CellSeed(const Cell& cell) const;
  absl::Status RunCell(const Cell& cell, const std::function<void(const Sample&)>& on_sample,
                       std::vector<Sample>* samples);
  absl::StatusOr<Sample> RunSample(const Cell& cell, Base& base, double depth, Random& random);
  absl::Status Ask(const Needle& needle, const std::vector<std::string>& mounts,
                   const std::string& document, const Place& place, Sample* sample);
  absl::StatusOr<bool> IsLongerThanABlock(const std::string& value);
  absl::StatusOr<Sample::Span> FindSpan(const Needle& needle, const std::string& document,
                                        const Place& place);
  absl::StatusOr<client::Document> Ingest(const std::string& text);
  absl::Status Delete(const std::string& id);
  int64_t Shards(int64_t tokens) const;

  client::Client& client_;
  const RunOptions options_;
  const std::string text_;
  const Phrases phrases_;
  std::vector<std::string> words_;
  double bytes_per_token_ = 0;
  int64_t next_document_ = 0;
  std::vector<std::string> documents_;               // that exist now
  std::map<int64_t, std::shared_ptr<Base>> shared_;  // without distractors, by tokens
};

const char* Name(Task task);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_RUN_H_
