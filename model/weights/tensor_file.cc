#include "model/weights/tensor_file.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/numeric/round_up.h"
#include "base/status.h"
#include "model/weights/tensor_floats.h"

namespace recollect::model {

absl::StatusOr<std::vector<float>> TensorFile::ReadFloats(const std::string& name) const {
  const auto found = tensors().find(name);
  if (found == tensors().end()) return absl::NotFoundError(absl::StrCat("no tensor ", name));
  const std::vector<int64_t>& shape = found->second.shape;
  const auto numbers = [](const std::vector<int64_t>& sizes) {
    return std::reduce(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
  };
  std::vector<float> values(static_cast<size_t>(found->second.integers() ? 0 : numbers(shape)));
  float* out = values.data();
  for (const TensorInfo& part : Parts(name)) {
    const int64_t count = part.integers() ? 0 : numbers(part.shape);
    RETURN_IF_ERROR(Annotate(DecodeFloats(part.dtype, part.data, count, out), name));
    out += count;
  }
  return values;
}

absl::Status CheckCoverage(std::vector<TensorPlace> places, uint64_t data_bytes,
                           uint64_t alignment) {
  // Among equal offsets the empty ones come first; they overlap nothing.
  std::sort(places.begin(), places.end(), [](const TensorPlace& a, const TensorPlace& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  std::string previous;
  for (const auto& [name, offset, bytes] : places) {
    if (offset < end) {
      return absl::InvalidArgumentError(absl::StrCat("tensors ", previous, " and ", name,
                                                     " overlap by ", end - offset, " bytes"));
    }
    if (offset > RoundUp(end, alignment)) {
      return absl::InvalidArgumentError(absl::StrCat(
          offset - RoundUp(end, alignment), " bytes before tensor ", name, " belong to no tensor"));
    }
    end = offset + bytes;
    previous = name;
  }
  if (data_bytes <= RoundUp(end, alignment)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the header describes ", end, " bytes of data, the file has ", data_bytes));
}

}  // namespace recollect::model
