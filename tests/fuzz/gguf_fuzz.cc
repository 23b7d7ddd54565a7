// The input is a GGUF file.
#include <map>

#include "model/weights/gguf.h"
#include "tests/fuzz/fuzzing.h"

namespace recollect {
namespace {

using model::GgufFile;
using model::GgufMetadata;

// A value has one type: one getter returns it, or says why it cannot; the others name both types.
void ReadKey(const GgufMetadata& metadata, std::string_view key) {
  constexpr auto kCode = absl::StatusCode::kInvalidArgument;
  int wrong_types = 0;
  const auto count = [&](const absl::Status& status) {
    if (status.ok()) return;
    fuzz::CheckRefusal(status, {kCode});
    wrong_types += status.message().find(" is of type ") != absl::string_view::npos ? 1 : 0;
  };
  count(metadata.GetString(key).status());
  count(metadata.GetInt(key).status());
  count(metadata.GetFloat(key).status());
  count(metadata.GetBool(key).status());
  count(metadata.GetStrings(key).status());
  count(metadata.GetInts(key).status());
  count(metadata.GetFloats(key).status());
  // An array of bool has no getter. A key may contain the words that are looked for.
  RECOLLECT_CHECK(wrong_types >= 6 || key.find(" is of type ") != std::string_view::npos);
}

// The tensors are apart from each other, and as large as their shapes.
void ReadTensors(const GgufFile& file) {
  std::multimap<const std::byte*, const model::TensorInfo*> order;
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.bytes > 0) order.emplace(tensor.data, &tensor);
    int64_t items = 1;
    for (const int64_t extent : tensor.shape) items *= extent;
    const auto floats = file.ReadFloats(name);
    RECOLLECT_CHECK(floats.ok());
    RECOLLECT_CHECK(std::ssize(*floats) == items);
  }
  const std::byte* end = nullptr;
  for (const auto& [begin, tensor] : order) {
    RECOLLECT_CHECK(end == nullptr || begin >= end);
    end = begin + tensor->bytes;
  }
}

}  // namespace
}  // namespace recollect

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  const fuzz::InputFile input(fuzz::AsText(data, size));
  const auto file = GgufFile::Open(input.path());
  if (!file.ok()) {
    fuzz::CheckRefusal(file.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  for (const std::string_view key : file->metadata().keys()) ReadKey(file->metadata(), key);
  ReadTensors(*file);
  return 0;
}
