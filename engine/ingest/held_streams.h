// Streams in front of an ingest's own, which the registry gives to callers.
#ifndef RECOLLECT_ENGINE_INGEST_HELD_STREAMS_H_
#define RECOLLECT_ENGINE_INGEST_HELD_STREAMS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "engine/streams.h"

namespace recollect::engine {

// Returns what a caller holds of a stream, which work that was posted for it may hold, too. Its
// destructor calls `close` with CANCELLED.
std::unique_ptr<IngestStream> HoldStream(std::shared_ptr<IngestStream> stream,
                                         std::function<void(const absl::Status&)> close);

// Runs `call` at once or later, on any thread.
using WithPlace = std::function<void(std::function<void()> call)>;

// Returns a stream that takes its place among the ingests when there is something to write: each
// call that writes goes through `with_place`. `wake` is called after a cancellation, of which what
// waits for a place has to hear.
std::shared_ptr<IngestStream> StreamWithLatePlace(std::shared_ptr<IngestStream> stream,
                                                  WithPlace with_place, std::function<void()> wake);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_HELD_STREAMS_H_
