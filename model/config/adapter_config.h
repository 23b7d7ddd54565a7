// Reads memory.json, which says what a memory adapter adds to a pretrained model
// (docs/llama.md, "Memory adapter"). Private to model/ and its tests.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model/config/config.h"

namespace recollect::model {

// Adds the adapter to the config of its base: the layers divide into lower layers, which read
// documents, and one group that reads what is retrieved, and documents are chunks. INVALID_ARGUMENT
// with every problem at once: unknown or missing keys, layers or widths that the base does not
// have, with both values. FAILED_PRECONDITION: a base whose sequences cannot be rewound.
absl::Status AddAdapter(const std::string& json, ModelConfig& config);

// Returns the part of memory.json that documents depend on, for the fingerprint: all of it, but for
// "score_shares", "judge" and "reader", which only questions do. Without these keys it is the text
// itself, byte for byte, and with one what json.dump(indent=2) and a newline write of the rest.
// What is no JSON is returned as it is.
std::string WithoutQueryKeys(const std::string& json);

}  // namespace recollect::model
