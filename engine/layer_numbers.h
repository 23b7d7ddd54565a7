// Numbers of a pattern as they are written in flags and addresses: "16" for every layer and head,
// "16,-1,1/4" by layer and, within a layer, by head.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/types.h"

namespace recollect::engine {

// The parsed numbers: one of the two members is set; neither for an empty text.
struct PatternNumbers {
  std::optional<int64_t> everywhere;
  LayerNumbers layers;
};

// Parses `text`. INVALID_ARGUMENT names `what` (a flag, a parameter) and the text. The right count
// of numbers depends on the model and is not checked.
absl::StatusOr<PatternNumbers> ParsePatternNumbers(absl::string_view what, absl::string_view text);

}  // namespace recollect::engine
