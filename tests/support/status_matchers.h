// Matchers of absl::Status and absl::StatusOr.
//   EXPECT_THAT(engine->GetDocument("moby"), StatusIs(absl::StatusCode::kNotFound, "moby"));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace recollect {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status) {
  return status.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}
// Code and a fragment of the message.
MATCHER_P2(StatusIs, code, fragment, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code &&
         std::string(StatusOf(arg).message()).find(fragment) != std::string::npos;
}

}  // namespace recollect
