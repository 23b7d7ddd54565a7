// Prints what GgufFile reads from a file, for gguf_oracle.py to compare: a line for each key
// ("KEY key value-hash") and each tensor ("TENSOR name dtype shape hash-of-fp32"), by name.
//
//   gguf_hashes FILE.gguf
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status.h"
#include "model/weights/gguf.h"

namespace recollect::model {
namespace {

template <typename T>
std::string HashOf(const std::vector<T>& items) {
  return Sha256Hex({reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)});
}

std::string HashOf(const std::vector<std::string_view>& items) {
  std::string text;
  for (const std::string_view item : items) {
    absl::StrAppend(&text, item.size(), ":", std::string(item), "\n");
  }
  return Sha256Hex(text);
}

// A scalar counts as a list of one.
std::string ValueHash(const GgufMetadata& metadata, std::string_view key) {
  if (const auto value = metadata.GetStrings(key); value.ok()) return HashOf(*value);
  if (const auto value = metadata.GetInts(key); value.ok()) return HashOf(*value);
  if (const auto value = metadata.GetFloats(key); value.ok()) return HashOf(*value);
  if (const auto value = metadata.GetString(key); value.ok()) return HashOf(std::vector{*value});
  if (const auto value = metadata.GetInt(key); value.ok()) return HashOf(std::vector{*value});
  if (const auto value = metadata.GetBool(key); value.ok()) {
    return HashOf(std::vector{int64_t{*value}});
  }
  const auto value = metadata.GetFloat(key);
  return value.ok() ? HashOf(std::vector{static_cast<float>(*value)}) : value.status().ToString();
}

absl::Status Print(const std::string& path) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  for (const std::string_view key : file.metadata().keys()) {
    std::printf("KEY %s %s\n", std::string(key).c_str(), ValueHash(file.metadata(), key).c_str());
  }
  for (const auto& [name, info] : file.tensors()) {
    ASSIGN_OR_RETURN(const std::vector<float> floats, file.ReadFloats(name));
    std::printf("TENSOR %s %s %s %s\n", name.c_str(), info.dtype.c_str(),
                absl::StrJoin(info.shape, "x").c_str(), HashOf(floats).c_str());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace recollect::model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_hashes FILE.gguf\n");
    return 2;
  }
  const absl::Status status = recollect::model::Print(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
