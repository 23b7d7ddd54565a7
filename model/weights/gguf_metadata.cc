#include "model/weights/gguf_metadata.h"

#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/gguf_cursor.h"

namespace recollect::model {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;  // of the specification
// A key of one byte, its length, a type, a value of one byte.
constexpr uint64_t kLeastEntryBytes = 8 + 1 + 4 + 1;

const char* TypeName(GgufType type) {
  constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                    "int32",  "float32", "bool",   "string", "array",
                                    "uint64", "int64",   "float64"};
  return kNames[static_cast<size_t>(type)];
}

// Of an item of this type; 0 where items have bytes of their own number.
uint64_t ItemBytes(GgufType type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

absl::StatusOr<GgufType> ReadType(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Read<uint32_t>());
  constexpr auto kLast = static_cast<uint32_t>(GgufType::kFloat64);
  if (type > kLast) {
    return absl::InvalidArgumentError(absl::StrCat("type ", type, ", expected 0 to ", kLast));
  }
  return static_cast<GgufType>(type);
}

absl::Status SkipItems(GgufType type, uint64_t count, GgufCursor& cursor) {
  // A string has 8 bytes or more. What does not fit is refused before anything is done `count`
  // times.
  const uint64_t least_bytes = type == GgufType::kString ? 8 : ItemBytes(type);
  if (count > cursor.left() / least_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("an array of ", count, " ", TypeName(type),
                                                   ", and ", cursor.left(),
                                                   " bytes are left; it may be truncated"));
  }
  if (type != GgufType::kString) return cursor.Take(count * least_bytes).status();
  for (uint64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(Annotate(cursor.ReadString().status(), absl::StrCat("string ", i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufValue> ReadValue(GgufCursor& cursor) {
  GgufValue value;
  ASSIGN_OR_RETURN(value.type, ReadType(cursor));
  if (value.type == GgufType::kArray) {
    value.is_array = true;
    ASSIGN_OR_RETURN(value.type, ReadType(cursor));
    ASSIGN_OR_RETURN(value.count, cursor.Read<uint64_t>());
    if (value.type == GgufType::kArray) {
      return absl::InvalidArgumentError("an array of arrays, expected an array of scalars");
    }
  }
  const uint64_t begin = cursor.at();
  RETURN_IF_ERROR(SkipItems(value.type, value.count, cursor));
  value.bytes = cursor.Since(begin);
  return value;
}

// Whether a getter returns items of this type as T, and how it calls them.
template <typename T>
constexpr bool IsOf(GgufType type) {
  const bool real = type == GgufType::kFloat32 || type == GgufType::kFloat64;
  if constexpr (std::is_same_v<T, std::string_view>) return type == GgufType::kString;
  if constexpr (std::is_same_v<T, bool>) return type == GgufType::kBool;
  if constexpr (std::is_floating_point_v<T>) return real;
  return !real && type != GgufType::kBool && type != GgufType::kString;
}
template <typename T>
constexpr const char* kName = std::is_same_v<T, std::string_view> ? "string"
                              : std::is_same_v<T, bool>           ? "bool"
                              : std::is_floating_point_v<T>       ? "float"
                                                                  : "integer";

template <typename T, typename Stored>
absl::StatusOr<T> ReadAs(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const Stored item, cursor.Read<Stored>());
  if constexpr (std::is_same_v<T, int64_t>) {
    if (!std::in_range<int64_t>(item)) {
      return absl::InvalidArgumentError(
          absl::StrCat(item, ", limit ", std::numeric_limits<int64_t>::max()));
    }
  }
  return static_cast<T>(item);
}

// REQUIRES: IsOf<T>(type).
template <typename T>
absl::StatusOr<T> ReadItem(GgufType type, GgufCursor& cursor) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return cursor.ReadString();
  } else if constexpr (std::is_same_v<T, bool>) {
    ASSIGN_OR_RETURN(const uint8_t item, cursor.Read<uint8_t>());
    if (item > 1) return absl::InvalidArgumentError(absl::StrCat(item, ", expected 0 or 1"));
    return item == 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    return type == GgufType::kFloat64 ? ReadAs<T, double>(cursor) : ReadAs<T, float>(cursor);
  } else {
    constexpr absl::StatusOr<T> (*kReaders[])(GgufCursor&) = {ReadAs<T, uint8_t>,
                                                              ReadAs<T, int8_t>,
                                                              ReadAs<T, uint16_t>,
                                                              ReadAs<T, int16_t>,
                                                              ReadAs<T, uint32_t>,
                                                              ReadAs<T, int32_t>,
                                                              nullptr,
                                                              nullptr,
                                                              nullptr,
                                                              nullptr,
                                                              ReadAs<T, uint64_t>,
                                                              ReadAs<T, int64_t>};
    return kReaders[static_cast<size_t>(type)](cursor);
  }
}

using Values = std::map<std::string_view, GgufValue>;

template <typename T>
absl::StatusOr<GgufValue> Find(const Values& values, std::string_view key, bool is_array) {
  const auto found = values.find(key);
  if (found == values.end()) return absl::NotFoundError(absl::StrCat("no key ", GgufQuoted(key)));
  const GgufValue& value = found->second;
  if (value.is_array == is_array && IsOf<T>(value.type)) return value;
  constexpr const char* kArray[] = {"", "array of "};
  return absl::InvalidArgumentError(
      absl::StrCat(GgufQuoted(key), " is of type ", kArray[value.is_array ? 1 : 0],
                   TypeName(value.type), ", expected ", kArray[is_array ? 1 : 0], kName<T>));
}

// Items are read with their bounds once more: somebody may have written to the file meanwhile.
template <typename T>
absl::StatusOr<std::vector<T>> GetItems(const Values& values, std::string_view key, bool is_array) {
  ASSIGN_OR_RETURN(const GgufValue value, Find<T>(values, key, is_array));
  GgufCursor cursor(value.bytes);
  std::vector<T> items;
  items.reserve(value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    absl::StatusOr<T> item = ReadItem<T>(value.type, cursor);
    if (!item.ok()) {
      return Annotate(item.status(),
                      is_array ? absl::StrCat(GgufQuoted(key), "[", i, "]") : GgufQuoted(key));
    }
    items.push_back(*item);
  }
  return items;
}

template <typename T>
absl::StatusOr<T> GetScalar(const Values& values, std::string_view key) {
  ASSIGN_OR_RETURN(const std::vector<T> items, GetItems<T>(values, key, /*is_array=*/false));
  return items.front();
}

}  // namespace

absl::Status GgufMetadata::Read(GgufCursor& cursor, uint64_t count) {
  if (count > cursor.left() / kLeastEntryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " keys, and ", cursor.left(), " bytes are left; it may be truncated"));
  }
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<std::string_view> key = cursor.ReadString();
    RETURN_IF_ERROR(Annotate(key.status(), absl::StrCat("key ", i, " of ", count)));
    if (key->empty() || key->size() > kMaxKeyBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("key ", i, " has ", key->size(), " bytes, expected 1 to ", kMaxKeyBytes));
    }
    const absl::StatusOr<GgufValue> value = ReadValue(cursor);
    RETURN_IF_ERROR(Annotate(value.status(), GgufQuoted(*key)));
    if (!values_.emplace(*key, *value).second) {
      return absl::InvalidArgumentError(absl::StrCat("key ", GgufQuoted(*key), " is there twice"));
    }
  }
  return absl::OkStatus();
}

bool GgufMetadata::Has(std::string_view key) const { return values_.contains(key); }

std::vector<std::string_view> GgufMetadata::keys() const {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

absl::StatusOr<std::string_view> GgufMetadata::GetString(std::string_view key) const {
  return GetScalar<std::string_view>(values_, key);
}

absl::StatusOr<int64_t> GgufMetadata::GetInt(std::string_view key) const {
  return GetScalar<int64_t>(values_, key);
}

absl::StatusOr<double> GgufMetadata::GetFloat(std::string_view key) const {
  return GetScalar<double>(values_, key);
}

absl::StatusOr<bool> GgufMetadata::GetBool(std::string_view key) const {
  return GetScalar<bool>(values_, key);
}

absl::StatusOr<std::vector<std::string_view>> GgufMetadata::GetStrings(std::string_view key) const {
  return GetItems<std::string_view>(values_, key, /*is_array=*/true);
}

absl::StatusOr<std::vector<int64_t>> GgufMetadata::GetInts(std::string_view key) const {
  return GetItems<int64_t>(values_, key, /*is_array=*/true);
}

absl::StatusOr<std::vector<float>> GgufMetadata::GetFloats(std::string_view key) const {
  return GetItems<float>(values_, key, /*is_array=*/true);
}

}  // namespace recollect::model
