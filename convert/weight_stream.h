// Weights out of a checkpoint, a piece at a time. Private to convert/.
#ifndef RECOLLECT_CONVERT_WEIGHT_STREAM_H_
#define RECOLLECT_CONVERT_WEIGHT_STREAM_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "convert/hub_plan.h"
#include "convert/torch_checkpoint.h"

namespace recollect::convert {

// Hands all values of `tensor`, in order, to `sink`, in pieces of at most some megabytes.
// INVALID_ARGUMENT: a value is not finite; the message has its index. Else TensorReader's errors
// and the sink's.
absl::Status StreamWeights(TorchCheckpoint& checkpoint, const TensorRef& tensor,
                           const std::function<absl::Status(std::span<const float>)>& sink);

// OK when both have the same type and the same bytes; INVALID_ARGUMENT otherwise. The same view
// twice is not read.
absl::Status CheckEqualBytes(TorchCheckpoint& checkpoint, const TensorRef& a, const TensorRef& b);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_WEIGHT_STREAM_H_
