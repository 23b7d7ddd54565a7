// Numbers of a checkpoint's tensors as fp32, from every format that weights are stored in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// Converts `count` numbers at any address, one row or whole rows, as TensorFile::ReadFloats does,
// into out[count]. INVALID_ARGUMENT: another dtype.
absl::Status DecodeFloats(std::string_view dtype, const std::byte* data, int64_t count, float* out);

// INVALID_ARGUMENT names the element that is not finite, `values[0]` being element `first` of
// tensor `name`: one such value would turn every answer into NaN, far from the cause.
absl::Status CheckFinite(std::span<const float> values, int64_t first, const std::string& name);

// Reads a tensor whose values must be finite.
inline absl::StatusOr<std::vector<float>> ReadFinite(const TensorFile& file,
                                                     const std::string& name) {
  ASSIGN_OR_RETURN(std::vector<float> values, file.ReadFloats(name));
  RETURN_IF_ERROR(CheckFinite(values, 0, name));
  return values;
}

// Checks a tensor in blocks likewise, by their scales, without a look at each number. REQUIRES: its
// dtype is the name of a block format.
absl::Status CheckFiniteBlocks(const TensorInfo& info, const std::string& name);

}  // namespace recollect::model
