// Blocking pieces of work on an engine, with the wall and CPU time they took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/config/config.h"

namespace recollect::bench {

// CPU seconds count all threads of the process: on a machine that others use too, they say what the
// work costs, wall seconds what it took today.
struct Cost {
  double wall_s = 0;
  double cpu_s = 0;
};

class Stopwatch {
 public:
  Stopwatch();
  Cost cost() const;

 private:
  double wall_, cpu_;
};

// Aborts with the status on any error: a benchmark without its answer is none.
store::DocumentInfo IngestText(engine::Engine& engine, const std::string& id,
                               const std::string& text);

struct Generation {
  std::vector<int32_t> tokens;
  double s_per_token = 0;      // wall, first token to last
  double cpu_s_per_token = 0;  // of the whole process, prompt included
};
Generation Generate(engine::Engine& engine, const std::vector<std::string>& mounts,
                    const std::string& prompt, int64_t tokens);

// GEMM operations that an ingest spends on one token, from the model's shapes, of documents in full
// blocks: those of the layers that read it, and those of the encoder of chunks. Attention and the
// scan are left out.
struct IngestFlops {
  double layers = 0, encoder = 0;
};
IngestFlops IngestFlopsPerToken(const model::ModelConfig& config);

int64_t ResidentBytes();

// Fails loudly.
void Require(const absl::Status& status, const char* what);

// Returns the text of a file that is not empty, or fails.
std::string ReadText(const std::string& path);

// REQUIRES: one value at least.
double Median(std::vector<double> values);

}  // namespace recollect::bench
