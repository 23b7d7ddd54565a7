// The metadata of a GGUF file: what its architecture is, its sizes, its tokenizer, its chat
// template.
//
//   ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
//   ASSIGN_OR_RETURN(const int64_t layers, file.metadata().GetInt("llama.block_count"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::model {

class GgufCursor;

enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// Where a value lies. A scalar is one item.
struct GgufValue {
  GgufType type{};  // of the items, so never kArray
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;
};

// Typed values by key. Keys and values are views of the bytes that Read was given and live as long
// as they do. Thread-safe once read.
//
// Every getter fails with NOT_FOUND where there is no such key and INVALID_ARGUMENT where its value
// is of another type or cannot be represented; both name the key.
class GgufMetadata {
 public:
  // Reads `count` keys with their values. INVALID_ARGUMENT: fewer bytes than they need, a key
  // twice, a key of no or more than 65535 bytes, a type that there is not, an array of arrays.
  absl::Status Read(GgufCursor& cursor, uint64_t count);

  bool Has(std::string_view key) const;
  std::vector<std::string_view> keys() const;  // ascending

  absl::StatusOr<std::string_view> GetString(std::string_view key) const;  // bytes of any value
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;              // any integer type
  absl::StatusOr<double> GetFloat(std::string_view key) const;             // float32 or float64
  absl::StatusOr<bool> GetBool(std::string_view key) const;

  // Arrays, of the same types. The strings themselves are not copied.
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(std::string_view key) const;

 private:
  std::map<std::string_view, GgufValue> values_;
};

}  // namespace recollect::model
