// Asks a model about mounted documents and records what it retrieved and answered, and what BM25
// finds for the same words.
#ifndef RECOLLECT_CLI_NIAH_ASK_H_
#define RECOLLECT_CLI_NIAH_ASK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/niah/haystack.h"
#include "cli/niah/report.h"
#include "cli/niah/volume.h"
#include "client/client.h"

namespace recollect::cli::niah {

// The location of something asked for. `place` is that of its sentence, record or line; a chunk is
// a hit if it has a part of the bytes [begin, end) of the place's shard.
struct Gold {
  Place place;
  int64_t begin = 0, end = 0;
};

struct Question {
  std::string prompt;
  std::vector<std::string> expected;
  int64_t max_tokens = 0;         // of the answer; 0: only retrieval is judged
  std::vector<std::string> stop;  // strings that end an answer
  std::vector<Gold> gold;         // empty: the haystack has no answer
};

class Asker {
 public:
  // Borrows the client. `hits`: the number of BM25's hits, as many as the model retrieves.
  // `dilation` 0: the model's default. `dry_multiplier`: of the sampling of every answer.
  Asker(client::Client& client, int64_t hits, int64_t dilation, bool random_chunks,
        double dry_multiplier)
      : client_(client),
        hits_(hits),
        dilation_(dilation),
        random_chunks_(random_chunks),
        dry_multiplier_(dry_multiplier) {}

  // Asks greedily, in a fresh session. Fills in question, value, answer, hits and times; the task
  // judges.
  absl::Status Ask(const Question& question, const Volumes& volumes, Sample* sample) const;
  // Generates at most `max_tokens` after the prompt, in a fresh session, with the prompt flushed.
  absl::StatusOr<client::GenerateResult> Continue(const std::string& prompt, const Volumes& volumes,
                                                  const v1::Sampling& sampling,
                                                  int64_t max_tokens) const;
  // Bits per byte of the text in a fresh session.
  absl::StatusOr<double> BitsPerByte(const std::string& text, const Volumes& volumes) const;

 private:
  v1::SessionOptions Session(const Volumes& volumes) const;
  absl::StatusOr<bool> IsLongerThanABlock(const std::string& value) const;

  client::Client& client_;
  const int64_t hits_;
  const int64_t dilation_;
  const bool random_chunks_;
  const double dry_multiplier_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_ASK_H_
