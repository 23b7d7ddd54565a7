// Reads weights from a checkpoint, a piece at a time. Private to convert/.
#ifndef RECOLLECT_CONVERT_WEIGHT_STREAM_H_
#define RECOLLECT_CONVERT_WEIGHT_STREAM_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "convert/hub_plan.h"
#include "convert/torch_checkpoint.h"

namespace recollect::convert {

// Passes all values of `tensor`, in order, to `sink`, in pieces of at most some megabytes.
// INVALID_ARGUMENT: a value is not finite; the message has its index. Otherwise errors of
// TensorReader and of the sink.
absl::Status StreamWeights(TorchCheckpoint& checkpoint, const TensorRef& tensor,
                           const std::function<absl::Status(std::span<const float>)>& sink);

// OK when both have the same type and the same bytes; INVALID_ARGUMENT otherwise. If both are the
// same view, nothing is read.
absl::Status CheckEqualBytes(TorchCheckpoint& checkpoint, const TensorRef& a, const TensorRef& b);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_WEIGHT_STREAM_H_
