// Takes fields out of a request's JSON object and checks their types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// Whether a value has the type, and a number also its range.
template <typename T>
bool Holds(const nlohmann::json& value) {
  if constexpr (kIsVector<T>) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), &Holds<typename T::value_type>);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, double>) {
    return value.is_number();
  } else {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  }
}

// Describes a value of the wrong type: "string"; "number 1.5", since a number is short and may only
// be too large; "entry 3: string", the first wrong entry of an array.
template <typename T>
std::string Wrong(const nlohmann::json& value) {
  if constexpr (kIsVector<T>) {
    using Entry = typename T::value_type;
    const auto wrong = std::find_if_not(value.begin(), value.end(), &Holds<Entry>);
    if (value.is_array())
      return absl::StrCat("entry ", wrong - value.begin(), ": ", Wrong<Entry>(*wrong));
  }
  return absl::StrCat(value.type_name(), value.is_number() ? absl::StrCat(" ", value.dump()) : "");
}

// Moves a field from `object` into `out`, which keeps its value if the field is absent or null.
// INVALID_ARGUMENT names the field and `expected`.
template <typename T>
absl::Status Take(nlohmann::json& object, const char* name, const char* expected,
                  std::optional<T>& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  const nlohmann::json value = std::move(*found);
  object.erase(found);
  if (value.is_null()) return absl::OkStatus();
  if (!Holds<T>(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", Wrong<T>(value), ", expected ", expected));
  }
  out = value.get<T>();
  return absl::OkStatus();
}
template <typename T>
absl::Status Take(nlohmann::json& object, const char* name, const char* expected, T& out) {
  std::optional<T> value;
  RETURN_IF_ERROR(Take(object, name, expected, value));
  if (value.has_value()) out = *std::move(value);
  return absl::OkStatus();
}

}  // namespace recollect::http
