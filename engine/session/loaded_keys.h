// Holds the keys of one document in use (engine/session/mounts.h), read once for all its readers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "engine/backend/landmark_index.h"
#include "engine/session/mounts.h"
#include "engine/session/text_keys.h"

namespace recollect::engine {

// Thread-safe; what has been loaded stays as it is, but for the lists.
class LoadedKeys {
 public:
  // Reads what `need` asks for and is not there yet. Fails as Mounts::Mount; blocks on disk.
  absl::Status Load(const Mounts::Keys& from, const store::DocumentInfo& info, Mounts::Need need);
  // Gives landmark keys their lists; does nothing if none are loaded.
  absl::Status UseLists(ListedKeys listed);

  bool loaded() const;
  bool listed() const { return listed_; }

  struct Bytes {
    int64_t keys = 0;
    int64_t words = 0;  // of Need::words
  };
  // Returns those of keys that depend on words, which are known only once these are read.
  Bytes bytes_by_words(const Mounts::Keys& from) const;

  // For callers whose Load has returned: null what they have not asked for.
  const LandmarkKeys* landmarks() const { return landmarks_.get(); }
  const SparseKeys* sparse() const { return sparse_.has_value() ? &*sparse_ : nullptr; }
  const HybridKeys* hybrid() const { return hybrid_.has_value() ? &*hybrid_ : nullptr; }

 private:
  absl::Status LoadKeys(const Mounts::Keys& from, const store::DocumentInfo& info);
  absl::Status LoadLandmarks(const Mounts::Keys& from, const store::DocumentInfo& info);
  absl::Status LoadSparse(const Mounts::Keys& from, const store::DocumentInfo& info);
  bool any() const { return landmarks_ != nullptr || sparse_.has_value() || hybrid_.has_value(); }

  mutable Mutex mutex_;  // held while keys are read, so that one reader reads them for all
  std::unique_ptr<LandmarkKeys> landmarks_;
  std::optional<SparseKeys> sparse_;  // of a document that is kept as text, in place of those
  std::optional<HybridKeys> hybrid_;  // of a document that an adapter has read
  std::atomic<bool> listed_{false};   // landmark keys have lists
};

}  // namespace recollect::engine
