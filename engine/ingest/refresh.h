// Reads a document again under the engine's model: its text goes from the store into an ingest,
// whose result replaces it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// OK if the document has a text to read again; FAILED_PRECONDITION naming one that was ingested as
// token ids.
absl::Status CheckRefresh(const store::DocumentInfo& document);

// Drives one refresh from piece to piece. Thread-safe.
class Refresh final : public RequestHandle, public std::enable_shared_from_this<Refresh> {
 public:
  // The old document, pinned. `progress` receives how far it is read again, and `done` the end,
  // from engine threads.
  struct Work {
    Pin document;
    std::unique_ptr<IngestStream> stream;
    std::function<void(const IngestStatus&)> progress;
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done;
  };
  // `post` runs work that may block on the disk. The store outlives the refresh.
  Refresh(store::DocumentReader& store, std::function<void(std::function<void()>)> post, Work work)
      : store_(store),
        post_(std::move(post)),
        work_(std::move(work)),
        ingest_(work_.stream->handle()) {}

  // Begins where an earlier refresh was committed.
  void Start();
  void Cancel() override;

 private:
  void Send(int64_t offset);  // the next piece, which begins there
  void Read(int64_t offset);
  void End(absl::StatusOr<store::DocumentInfo> result);

  store::DocumentReader& store_;
  const std::function<void(std::function<void()>)> post_;
  Work work_;  // used by reading, sending or ending, one at a time
  const std::shared_ptr<RequestHandle> ingest_;
};

}  // namespace recollect::engine
