#include "convert/safetensors_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace recollect::convert {
namespace {

// The data begins at a multiple of this, so that a mapped file can be read in place.
constexpr size_t kAlignment = 64;

}  // namespace

int64_t WeightBytes(WeightType type) { return type == WeightType::kBf16 ? 2 : 4; }

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, WeightType type, const std::vector<TensorHeader>& tensors) {
  SafetensorsWriter writer(path, type);
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  for (const TensorHeader& tensor : tensors) {
    int64_t bytes = WeightBytes(type);
    for (const int64_t extent : tensor.shape) bytes *= extent;
    header[tensor.name] = {{"dtype", type == WeightType::kBf16 ? "BF16" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {writer.data_bytes_, writer.data_bytes_ + bytes}}};
    writer.data_bytes_ += bytes;
  }
  std::string text = header.dump();
  const size_t before_data = sizeof(uint64_t) + text.size();
  text.append((kAlignment - before_data % kAlignment) % kAlignment, ' ');

  writer.file_.reset(std::fopen(path.c_str(), "wbx"));
  if (writer.file_ == nullptr) return writer.SystemError();
  const uint64_t length = text.size();
  RETURN_IF_ERROR(writer.WriteBytes(&length, sizeof(length)));
  RETURN_IF_ERROR(writer.WriteBytes(text.data(), text.size()));
  return writer;
}

absl::Status SafetensorsWriter::Write(std::span<const float> values) {
  written_ += static_cast<int64_t>(values.size()) * WeightBytes(type_);
  if (type_ == WeightType::kF32) return WriteBytes(values.data(), values.size_bytes());
  rounded_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Bf16 rounded = Bf16::FromFloat(values[i]);
    // The largest floats round to infinity, which no model may hold.
    if (!std::isfinite(rounded.ToFloat())) {
      return absl::InvalidArgumentError(absl::StrCat(values[i], " is too large for bf16"));
    }
    rounded_[i] = rounded.bits;
  }
  return WriteBytes(rounded_.data(), rounded_.size() * sizeof(uint16_t));
}

absl::Status SafetensorsWriter::Finish() {
  if (written_ != data_bytes_) {
    return absl::InternalError(absl::StrCat(path_, ": ", written_, " bytes of data written, ",
                                            data_bytes_, " in the header"));
  }
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return SystemError();
  std::FILE* const file = file_.release();
  return std::fclose(file) == 0 ? absl::OkStatus() : SystemError();
}

absl::Status SafetensorsWriter::WriteBytes(const void* bytes, size_t size) {
  return std::fwrite(bytes, 1, size, file_.get()) == size ? absl::OkStatus() : SystemError();
}

absl::Status SafetensorsWriter::SystemError() const {
  const int error = errno;
  const std::string text = absl::StrCat(path_, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(text)
                                            : absl::InvalidArgumentError(text);
}

}  // namespace recollect::convert
