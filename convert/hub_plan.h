// Plans the tensors and config.json of a model directory from the names and shapes of a published
// checkpoint. It reads no weights and writes nothing. docs/model-format.md specifies the result:
// "Imported families" and, for RAT, "Other families".
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
  // Used if the checkpoint has no configuration; an error if its configuration differs.
  std::optional<int64_t> head_dim;
  std::optional<int64_t> chunk;  // RAT only
};

// A tensor to write: the rows of its parts, one part after the other, then `zero_items` zeros.
struct OutputTensor {
  TensorHeader header;
  std::vector<TensorRef> parts;
  int64_t zero_items = 0;
};

struct ImportPlan {
  nlohmann::ordered_json config;  // of config.json
  std::vector<OutputTensor> tensors;
  // The embedding and the output head in the checkpoint: they must be the same view or have the
  // same bytes.
  TensorRef embedding, head;
  std::vector<std::string> assumptions;  // values that neither configuration nor shapes give
  std::optional<int64_t> step;           // of the trainer

  int64_t parameters() const;
};

// Returns the plan. INVALID_ARGUMENT lists all problems at once, up to 50: tensors that are
// missing, left over, misshapen, of a type that is no weight, not contiguous or without their data,
// and contradictions of the configuration.
absl::StatusOr<ImportPlan> PlanImport(const TorchCheckpoint& checkpoint,
                                      const PlanOptions& options);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_HUB_PLAN_H_
