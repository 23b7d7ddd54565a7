// A task determines what is hidden in a haystack, what is asked, and which answers are right. Each
// task is a file and a row of the table in task.cc.
#ifndef RECOLLECT_CLI_NIAH_TASK_H_
#define RECOLLECT_CLI_NIAH_TASK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/niah/ask.h"
#include "cli/niah/haystack.h"
#include "cli/niah/phrases.h"
#include "cli/niah/random.h"
#include "cli/niah/report.h"

namespace recollect::cli::niah {

// A variant that a task reports separately: a phrasing, or a shape of record.
struct Variant {
  int number = 0;  // among all variants of the task, requested or not: seeds depend on it
  std::string name;
};

struct TaskOptions {
  std::vector<bool> held_out = {false, true};  // wordings of passkey, distractors and hex
  int distractors = 40;
  int hex_digits = 32;
  int cue_words = 12;
  std::vector<std::string> cues = {"whole"};
  int passage_bytes = 1500;
};

// The material of tasks. `words`: candidates for keys and names, never used in training.
struct Material {
  Phrases phrases;
  std::vector<std::string> words;
};

// The parameters of one sample.
struct Draw {
  const Variant& variant;
  double depth = 0;      // of what is asked for, 0 to 1
  bool removed = false;  // the haystack must not contain what is asked for
  bool shared = false;   // other samples hide what they ask for in the same haystack
  Random& random;
  Haystack& haystack;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string name() const = 0;
  virtual std::vector<Variant> variants() const = 0;

  // False: samples ask for what a haystack already contains, so that one haystack serves all of
  // them.
  virtual bool hides() const { return true; }
  // True: haystacks are for this task alone, and Prepare fills them. If samples hide something, a
  // haystack serves one variant; otherwise it serves all variants.
  virtual bool prepares() const { return false; }
  virtual int64_t least_documents() const { return 1; }
  // True: what all samples ask for can lie in one haystack, beside that of other tasks. Those that
  // hide something are made first, then those that ask for what there is.
  virtual bool shares() const { return false; }

  // Adds to a haystack everything except what single samples ask for. The samples until the next
  // call are drawn from this haystack.
  virtual absl::Status Prepare(const Variant&, Random&, Haystack*) { return absl::OkStatus(); }
  // Makes a sample's question and hides what it asks for, unless draw.removed.
  virtual absl::StatusOr<Question> Make(const Draw& draw) = 0;
  // Asks and judges.
  virtual absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                           Sample* sample) const = 0;
};

// All names, in the order of help texts.
std::vector<std::string> TaskNames();
// REQUIRES: one of TaskNames.
std::unique_ptr<Task> MakeTask(const std::string& name, const TaskOptions& options,
                               const Material& material);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_TASK_H_
