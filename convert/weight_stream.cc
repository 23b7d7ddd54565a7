#include "convert/weight_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/bf16.h"
#include "base/half.h"
#include "base/status.h"

namespace recollect::convert {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

void ToFloats(const std::vector<std::byte>& bytes, ItemType type, std::vector<float>& values) {
  if (type == ItemType::kF32) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return;
  }
  const bool bf16 = type == ItemType::kBf16;
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = bf16 ? Bf16{bits}.ToFloat() : HalfToFloat(bits);
  }
}

}  // namespace

absl::Status StreamWeights(TorchCheckpoint& checkpoint, const TensorRef& tensor,
                           const std::function<absl::Status(std::span<const float>)>& sink) {
  ASSIGN_OR_RETURN(TensorReader reader, checkpoint.OpenTensor(tensor));
  const int64_t item_bytes = ItemBytes(tensor.storage.type);
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(kPieceBytes, tensor.size() * item_bytes)));
  std::vector<float> values;
  for (int64_t done = 0; done < tensor.size();) {
    ASSIGN_OR_RETURN(const int64_t read,
                     reader.Read(bytes.data(), static_cast<int64_t>(bytes.size())));
    values.resize(static_cast<size_t>(read / item_bytes));
    ToFloats(bytes, tensor.storage.type, values);
    const auto bad = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad != values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", done + (bad - values.begin()), " is ", *bad));
    }
    RETURN_IF_ERROR(sink(values));
    done += static_cast<int64_t>(values.size());
  }
  return absl::OkStatus();
}

absl::Status CheckEqualBytes(TorchCheckpoint& checkpoint, const TensorRef& a, const TensorRef& b) {
  if (a.storage.key == b.storage.key && a.offset == b.offset) return absl::OkStatus();
  if (a.storage.type != b.storage.type) {
    return absl::InvalidArgumentError(
        absl::StrCat(ItemName(a.storage.type), " and ", ItemName(b.storage.type)));
  }
  ASSIGN_OR_RETURN(TensorReader first, checkpoint.OpenTensor(a));
  ASSIGN_OR_RETURN(TensorReader second, checkpoint.OpenTensor(b));
  std::vector<std::byte> left(kPieceBytes), right(kPieceBytes);
  for (int64_t done = 0;;) {
    ASSIGN_OR_RETURN(const int64_t size, first.Read(left.data(), kPieceBytes));
    RETURN_IF_ERROR(second.Read(right.data(), kPieceBytes).status());
    if (size == 0) return absl::OkStatus();
    const auto [at, other] = std::mismatch(left.begin(), left.begin() + size, right.begin());
    if (at != left.begin() + size) {
      const int64_t byte = done + (at - left.begin());
      return absl::InvalidArgumentError(
          absl::StrCat("they differ at value ", byte / ItemBytes(a.storage.type)));
    }
    done += size;
  }
}

}  // namespace recollect::convert
