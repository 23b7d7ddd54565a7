// From the names and shapes of a published checkpoint to the tensors and config.json of a model
// directory. Decides only: reads no weights, writes nothing. docs/model-format.md is the contract
// of what comes out: "Imported families" and, for RAT, "Other families".
#ifndef RECOLLECT_CONVERT_HUB_PLAN_H_
#define RECOLLECT_CONVERT_HUB_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/safetensors_writer.h"
#include "convert/torch_checkpoint.h"
#include "nlohmann/json.hpp"

namespace recollect::convert {

enum class HubFamily { kRatPlus, kRat };

struct PlanOptions {
  HubFamily family = HubFamily::kRatPlus;
  // Used where the checkpoint has no configuration; an error where it says otherwise.
  std::optional<int64_t> head_dim;
  std::optional<int64_t> chunk;  // RAT only
};

// One tensor to write: the rows of its parts one after the other, then rows of zeros.
struct OutputTensor {
  TensorHeader header;
  std::vector<TensorRef> parts;
  int64_t zero_items = 0;
};

struct ImportPlan {
  nlohmann::ordered_json config;  // of config.json
  std::vector<OutputTensor> tensors;
  // The output head as the checkpoint has it: must have the embedding's bytes, unless it is the
  // very same view.
  TensorRef embedding, head;
  std::vector<std::string> assumptions;  // what neither configuration nor shapes say
  std::optional<int64_t> step;           // of the trainer

  int64_t parameters() const;
};

// INVALID_ARGUMENT lists everything at once: tensors missing, left over, misshapen, of a type that
// is no weight, not contiguous or without their data, and what of the configuration disagrees.
absl::StatusOr<ImportPlan> PlanImport(const TorchCheckpoint& checkpoint,
                                      const PlanOptions& options);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_HUB_PLAN_H_
