// Helpers of the tests of configs: tiny configs with something changed.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {

inline absl::StatusOr<ModelConfig> ParseChanged(const std::function<void(nlohmann::json&)>& change,
                                                const ModelConfig& from = TinyConfig()) {
  nlohmann::json config = nlohmann::json::parse(ConfigJson(from));
  change(config);
  return ParseConfig(config.dump());
}

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace recollect::model
