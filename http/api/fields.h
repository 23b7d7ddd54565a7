// Takes fields out of a request's JSON object and checks their types.
#ifndef RECOLLECT_HTTP_API_FIELDS_H_
#define RECOLLECT_HTTP_API_FIELDS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

inline bool Holds(const nlohmann::json& value, const bool*) { return value.is_boolean(); }
inline bool Holds(const nlohmann::json& value, const double*) { return value.is_number(); }
inline bool Holds(const nlohmann::json& value, const std::string*) { return value.is_string(); }
inline bool Holds(const nlohmann::json& value, const uint64_t*) {
  return value.is_number_unsigned();
}
template <typename Integer>
requires(std::is_same_v<Integer, int64_t> ||
         std::is_same_v<Integer, int32_t>) bool Holds(const nlohmann::json& value, const Integer*) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned())
    return value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Integer>::max());
  return value.get<int64_t>() >= std::numeric_limits<Integer>::min();
}
template <typename T>
bool Holds(const nlohmann::json& value, const std::vector<T>*) {
  if (!value.is_array()) return false;
  for (const auto& entry : value)
    if (!Holds(entry, static_cast<const T*>(nullptr))) return false;
  return true;
}
template <typename T>
bool Holds(const nlohmann::json& value, const std::optional<T>*) {
  return Holds(value, static_cast<const T*>(nullptr));
}

// Describes a value of the wrong type: "string"; "number 1.5", since a number is short and may only
// be too large; "entry 3: string", the first wrong entry of an array.
template <typename T>
std::string Wrong(const nlohmann::json& value, const T*) {
  return absl::StrCat(value.type_name(), value.is_number() ? absl::StrCat(" ", value.dump()) : "");
}
template <typename T>
std::string Wrong(const nlohmann::json& value, const std::vector<T>*) {
  constexpr const T* kEntry = nullptr;
  if (!value.is_array()) return Wrong(value, kEntry);
  size_t i = 0;
  while (i + 1 < value.size() && Holds(value[i], kEntry)) ++i;
  return absl::StrCat("entry ", i, ": ", Wrong(value[i], kEntry));
}
template <typename T>
std::string Wrong(const nlohmann::json& value, const std::optional<T>*) {
  return Wrong(value, static_cast<const T*>(nullptr));
}

// Moves a field from `object` into `out`, which keeps its value if the field is absent or null.
// INVALID_ARGUMENT names the field and `expected`.
template <typename T>
absl::Status Take(nlohmann::json& object, const char* name, const char* expected, T& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  const nlohmann::json value = std::move(*found);
  object.erase(found);
  if (value.is_null()) return absl::OkStatus();
  if (!Holds(value, &out)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", Wrong(value, &out), ", expected ", expected));
  }
  if constexpr (requires { out.reset(); }) {
    out = value.get<typename T::value_type>();
  } else {
    out = value.get<T>();
  }
  return absl::OkStatus();
}

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_FIELDS_H_
