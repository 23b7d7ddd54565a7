// Writes a safetensors file from front to back, a piece of a tensor at a time.
// model/weights/safetensors.h reads it.
#ifndef RECOLLECT_CONVERT_SAFETENSORS_WRITER_H_
#define RECOLLECT_CONVERT_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::convert {

enum class WeightType { kBf16, kF32 };
int64_t WeightBytes(WeightType type);

struct TensorHeader {
  std::string name;
  std::vector<int64_t> shape;
};

// Not thread-safe. The file is not readable before Finish.
class SafetensorsWriter {
 public:
  // Creates the file and writes the header of `tensors`, whose data must follow in this order.
  // Errors: RESOURCE_EXHAUSTED when the disk is full, INVALID_ARGUMENT, with the path, for other
  // errors of the system.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path, WeightType type,
                                                  const std::vector<TensorHeader>& tensors);

  // The next values, rounded to nearest even when the file is bf16.
  absl::Status Write(std::span<const float> values);

  // Writes everything to the disk. INTERNAL unless as many values were written as the header says.
  absl::Status Finish();

  int64_t data_bytes() const { return data_bytes_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  SafetensorsWriter(std::string path, WeightType type) : path_(std::move(path)), type_(type) {}
  absl::Status WriteBytes(const void* bytes, size_t size);
  absl::Status SystemError() const;

  std::string path_;
  WeightType type_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<uint16_t> rounded_;
  int64_t data_bytes_ = 0;  // in the header
  int64_t written_ = 0;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_SAFETENSORS_WRITER_H_
