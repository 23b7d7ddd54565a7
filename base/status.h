// Status macros under the names upstream Abseil uses later, so that their removal is mechanical.
// Debian 12's Abseil has absl::Status and absl::StatusOr, but no macros.
//
//   ASSIGN_OR_RETURN(auto file, OpenFile(path));
//   RETURN_IF_ERROR(file.Sync());
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define RETURN_IF_ERROR(expr)                                                             \
  do {                                                                                    \
    if (::absl::Status status_macro_ = (expr); !status_macro_.ok()) return status_macro_; \
  } while (false)

#define RECOLLECT_CONCAT_INNER_(a, b) a##b
#define RECOLLECT_CONCAT_(a, b) RECOLLECT_CONCAT_INNER_(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  RECOLLECT_ASSIGN_OR_RETURN_(RECOLLECT_CONCAT_(status_or_, __LINE__), lhs, expr)
#define RECOLLECT_ASSIGN_OR_RETURN_(temp, lhs, expr) \
  auto temp = (expr);                                \
  if (!temp.ok()) return std::move(temp).status();   \
  lhs = *std::move(temp)

namespace recollect {

// The same code with `context: ` before the message; OK stays OK. Each layer adds its context once.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

// INVALID_ARGUMENT "field: value, limit low to high" unless low <= value <= high.
template <typename T>
absl::Status CheckRange(absl::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();  // NaN fails both
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, ", limit ", low, " to ", high));
}

}  // namespace recollect
