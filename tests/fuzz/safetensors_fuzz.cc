// The input is a safetensors file.
#include <cstring>
#include <map>

#include "model/weights/safetensors.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  const std::string_view bytes = fuzz::AsText(data, size);
  const fuzz::InputFile input(bytes);
  const auto file = model::SafetensorsFile::Open(input.path());
  if (!file.ok()) {
    fuzz::CheckRefusal(file.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  // The tensors are all that follows the header: in the order of the file, without a gap.
  std::multimap<const std::byte*, const model::TensorInfo*> order;
  for (const auto& [name, tensor] : file->tensors()) {
    order.emplace(tensor.data, &tensor);
    int64_t items = 1;
    for (const int64_t extent : tensor.shape) items *= extent;
    const auto floats = file->ReadFloats(name);
    const bool is_float = tensor.dtype.find('F') != std::string::npos;
    RECOLLECT_CHECK(floats.ok() == is_float);
    if (floats.ok()) RECOLLECT_CHECK(std::ssize(*floats) == items);
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data, sizeof(header_bytes));
  std::string contents;
  for (const auto& [begin, tensor] : order) {
    contents.append(reinterpret_cast<const char*>(begin), static_cast<size_t>(tensor->bytes));
  }
  RECOLLECT_CHECK(contents == bytes.substr(sizeof(header_bytes) + header_bytes));
  return 0;
}
