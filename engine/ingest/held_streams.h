// The streams that the registry of ingests gives to callers, in front of an ingest's own.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "engine/streams.h"

namespace recollect::engine {

// How a stream gets a place among the ingests once there is something to write.
struct LatePlace {
  // Runs `call` at once or later, on any thread; null: the stream has its place.
  std::function<void(std::function<void()> call)> with_place;
  // Called after a cancellation, of which what waits for a place has to hear.
  std::function<void()> wake;
};

// Returns what a caller holds of a stream, which work that was posted for it may hold, too. Calls
// that write go through `late`. Its destructor calls `close` with CANCELLED.
std::unique_ptr<IngestStream> HoldStream(std::shared_ptr<IngestStream> stream,
                                         std::function<void(const absl::Status&)> close,
                                         LatePlace late = {});

}  // namespace recollect::engine
