// Converts a published checkpoint into a model directory (docs/model-format.md, "Imported
// families"): the work of `recollect import`.
//
//   ImportOptions options;
//   options.from_dir = "downloads/ratplus-1b";   // one checkpoint and tokenizer.model
//   options.out_dir = "models/ratplus-1b";
//   ASSIGN_OR_RETURN(const ImportReport report, Import(options));
#ifndef RECOLLECT_CONVERT_IMPORT_H_
#define RECOLLECT_CONVERT_IMPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/hub_plan.h"
#include "model/weights/fingerprint.h"

namespace recollect::convert {

struct ImportOptions {
  std::string from_dir;
  std::string out_dir;
  PlanOptions plan;
  WeightType type = WeightType::kBf16;
  // Called with the number of values written and of all values, several times a second while
  // weights are written, and once more before `out_dir` appears. Returning false ends the import.
  std::function<bool(int64_t done, int64_t total)> progress;
};

struct ImportReport {
  std::string checkpoint;         // its path
  nlohmann::ordered_json config;  // as written
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the weights
  std::optional<int64_t> step;
  std::vector<std::string> assumptions;
  model::FileDigests sha256;
  // Model::fingerprint() of `out_dir` when loaded in either number format; documents are bound to
  // it. The service's CPU and flags decide which format it runs, not the format of the weights.
  std::string bf16_fingerprint, fp32_fingerprint;
};

// Reads and checks everything before it writes anything. Writes into a folder beside `out_dir` and
// renames it at the end, so that `out_dir` is complete or absent (a killed process leaves the
// temporary folder behind). Holds a few megabytes of weights at a time.
//
// Errors: NOT_FOUND no such folder, no checkpoint or no tokenizer.model in it; ALREADY_EXISTS
// `out_dir` is a file or holds something; FAILED_PRECONDITION it cannot be made; INVALID_ARGUMENT
// several checkpoints (they are listed), a file that is no checkpoint, one that would run code, one
// of another layout (all problems are listed), a tokenizer of another vocabulary, an output head
// that is not the embedding, weights that are not finite; DATA_LOSS a file that is cut off or
// damaged; RESOURCE_EXHAUSTED the disk is full; CANCELLED by `progress`.
absl::StatusOr<ImportReport> Import(const ImportOptions& options);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_IMPORT_H_
