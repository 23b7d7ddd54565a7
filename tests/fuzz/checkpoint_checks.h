// Checks for any checkpoint that opens.
#ifndef RECOLLECT_TESTS_FUZZ_CHECKPOINT_CHECKS_H_
#define RECOLLECT_TESTS_FUZZ_CHECKPOINT_CHECKS_H_

#include <vector>

#include "convert/hub_plan.h"
#include "convert/torch_checkpoint.h"
#include "tests/fuzz/fuzzing.h"

namespace recollect::fuzz {

// Reads a tensor as an import does. A storage that differs from what the pickle says is DATA_LOSS.
inline void ReadTensor(convert::TorchCheckpoint& checkpoint, const convert::TensorRef& tensor) {
  auto reader = checkpoint.OpenTensor(tensor);
  absl::Status status = reader.status();
  std::vector<std::byte> part(4096);
  int64_t left = tensor.size() * convert::ItemBytes(tensor.storage.type);
  while (status.ok() && left > 0) {
    const auto read = reader->Read(part.data(), std::ssize(part));
    status = read.status();
    if (read.ok()) {
      RECOLLECT_CHECK(*read > 0 && *read <= left);
      left -= *read;
    }
  }
  if (!status.ok()) {
    CheckRefusal(status, {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
  }
}

// Plans an import as every family: a checkpoint that cannot be imported is refused, and of any
// other all tensors can be asked for.
inline void CheckPlans(convert::TorchCheckpoint& checkpoint) {
  for (const convert::HubFamily family : {convert::HubFamily::kRatPlus, convert::HubFamily::kRat}) {
    convert::PlanOptions options;
    options.family = family;
    const auto plan = convert::PlanImport(checkpoint, options);
    if (!plan.ok()) {
      CheckRefusal(plan.status(), {absl::StatusCode::kInvalidArgument});
      continue;
    }
    RECOLLECT_CHECK(plan->parameters() > 0);
    for (const convert::OutputTensor& tensor : plan->tensors) {
      for (const convert::TensorRef& part : tensor.parts) ReadTensor(checkpoint, part);
    }
  }
}

}  // namespace recollect::fuzz

#endif  // RECOLLECT_TESTS_FUZZ_CHECKPOINT_CHECKS_H_
