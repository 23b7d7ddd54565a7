// Makes lists (engine/backend/landmark_lists.h) for the landmark keys of large documents, in the
// background, and keeps them in the store: for what is there when the engine starts, and for what
// is published or mounted later without any. Until a document has its lists it is searched exactly.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/sync/executor.h"
#include "engine/backend/landmark_lists.h"
#include "engine/counters.h"
#include "engine/session/mounts.h"
#include "store/document_store.h"

namespace recollect::engine {

// Thread-safe.
class LandmarkIndexes {
 public:
  // Documents of at least `least_chunks` get lists. `maker` null: none does.
  LandmarkIndexes(store::DocumentStore& store, Mounts& mounts, std::shared_ptr<ListMaker> maker,
                  std::string fingerprint, int64_t d_k, int64_t least_chunks, Counters& counters);

  // Begins with the documents that are there.
  void Start();
  // Makes lists for a document, unless it has them or needs none.
  void Add(const std::string& id);
  // The lists that the store has; null: none. Lists that are damaged are made again.
  std::shared_ptr<const LandmarkLists> Find(const store::DocumentInfo& info);
  // Returns when what was asked for before has been made.
  void AwaitForTest();
  // Gives up what is being made and waits for that; afterwards Add does nothing.
  void Stop();

 private:
  void Post(std::function<void()> work);
  bool Wants(const store::DocumentInfo& info) const;
  absl::StatusOr<LandmarkLists> Read(const store::DocumentInfo& info);
  void AddAll();
  void Make(const std::string& id);
  absl::Status MakeNow(const std::string& id);

  store::DocumentStore& store_;
  Mounts& mounts_;
  const std::shared_ptr<ListMaker> maker_;
  const std::string fingerprint_;
  const int64_t d_k_, least_chunks_;
  Counters& counters_;
  std::atomic<bool> stopping_{false};
  const std::unique_ptr<Executor> thread_;  // last: uses all of the above; null: no maker
};

}  // namespace recollect::engine
