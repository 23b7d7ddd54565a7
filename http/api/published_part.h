// A part of a document that is published already, which is sent again: it is compared with the text
// that is there. engine::IngestStream compares from the beginning only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace recollect::http {

// The stream is for one thread at a time. All its calls may wait for the disk, and answer within
// the call. `engine` must outlive it. `metadata`: as of Engine::BeginIngest.
std::unique_ptr<engine::IngestStream> ComparePart(engine::Engine& engine,
                                                  const store::DocumentInfo& document,
                                                  int64_t begin,
                                                  const std::optional<std::string>& metadata);

}  // namespace recollect::http
