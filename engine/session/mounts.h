// The documents in use: their keys (of landmarks, or sparse ones where documents are kept as text),
// loaded once and shared by all sessions that mount them, and the pins of their readers.
//
// Keys stay loaded after the last unmount while the budget has room, so that mounting again costs
// nothing; keys of mounted documents are never dropped. A removed document cannot be mounted any
// more; its space is freed with the last pin.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "engine/backend/landmark_index.h"
#include "engine/counters.h"
#include "engine/session/text_keys.h"
#include "store/document_store.h"

namespace recollect::engine {

// A document that cannot be freed while this exists.
class DocumentPin {
 public:
  virtual ~DocumentPin() = default;
  virtual const store::DocumentInfo& info() const = 0;
  // Returns all its landmark keys; none for a pin made by PinDocument, or a document with sparse or
  // hybrid keys.
  virtual KeyRun keys() const = 0;
  // Returns the sparse keys of a document that is kept as text, or mounted with Need::words; null
  // for other documents, and for a pin made by PinDocument.
  virtual const SparseKeys* sparse() const = 0;
  // Returns the hybrid keys of a document that an adapter has read; null as above.
  virtual const HybridKeys* hybrid() const = 0;
};
using Pin = std::shared_ptr<const DocumentPin>;

// OK if the document is the model's; else FAILED_PRECONDITION, which names both fingerprints.
absl::Status CheckModel(const store::DocumentInfo& document, const std::string& fingerprint,
                        const char* was_read = "was read", const char* and_then = "");

// Thread-safe. Owned by a shared pointer: pins keep it, and must not outlive the store or the
// device.
class Mounts : public std::enable_shared_from_this<Mounts> {
 public:
  // The sources of keys, and the device that holds them.
  struct Keys {
    store::DocumentReader& reader;
    LandmarkIndex& device;
    int64_t d_k = 0;
    int64_t budget_bytes = 0;
    // Lists of a document's landmark keys, read when its keys are; null: none.
    std::function<std::shared_ptr<const LandmarkLists>(const store::DocumentInfo& info)>
        find_lists = nullptr;
    // Keys that depend on words; null: keys are those of landmarks alone.
    const TextKeys* text = nullptr;
    bool hybrid = false;  // TextKeys::ReadHybrid makes them
  };

  // `freed` is called with each owner whose records are about to be freed. `post` runs work that
  // may block on disk.
  Mounts(store::Catalog& catalog, Keys keys, std::string fingerprint, Counters& counters,
         std::function<void(OwnerId)> freed, std::function<void(std::function<void()>)> post)
      : catalog_(catalog),
        keys_(std::move(keys)),
        fingerprint_(std::move(fingerprint)),
        counters_(counters),
        freed_(std::move(freed)),
        post_(std::move(post)) {}

  // The keys of a document that a mount needs.
  struct Need {
    bool keys = true;  // those by which it is found where the layers read it (of a text, its words)
    bool words = false;  // with an adapter: its words, as of a document that is kept as text
  };

  // Pins `ids`, in order, with their keys; reads keys that are not loaded. NOT_FOUND,
  // INVALID_ARGUMENT (an id given twice), FAILED_PRECONDITION (another fingerprint),
  // RESOURCE_EXHAUSTED (names the size needed and the budget, or the device's memory), DATA_LOSS.
  absl::StatusOr<std::vector<Pin>> Mount(const std::vector<std::string>& ids, Need need);

  // Keeps a document's records readable, without its keys. NOT_FOUND.
  absl::StatusOr<Pin> PinDocument(const std::string& id);

  // Reserves room in the budget for a second copy of the document's keys, until the result is
  // destroyed. No mount is refused meanwhile because of it. RESOURCE_EXHAUSTED, as Mount.
  absl::StatusOr<std::shared_ptr<void>> Reserve(const store::DocumentInfo& info);

  // Gives a document's loaded keys their lists; does nothing if they are not loaded. Fails as
  // LandmarkKeys::UseLists.
  absl::Status UseLists(OwnerId owner, ListedKeys listed);

  // Takes the document out of the catalog. NOT_FOUND.
  absl::Status Remove(const std::string& id);
  // Frees the space of a document that the store has already taken out of the catalog, with the
  // last pin, like Remove.
  void Retire(OwnerId owner);

  int64_t used_bytes() const;
  int64_t listed_documents() const;  // documents whose loaded keys have lists
  int64_t budget_bytes() const { return keys_.budget_bytes; }

 private:
  struct Entry;
  class PinImpl;

  absl::StatusOr<std::shared_ptr<Entry>> Acquire(const std::string& id, Need need);
  // Accounts for `needed` bytes in `accounted`, if that is 0.
  absl::Status Account(const store::DocumentInfo& info, int64_t needed, int64_t& accounted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom(const store::DocumentInfo& info, int64_t needed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the least recently used of the unpinned documents; false: there is none.
  bool DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the most that a document's keys take in memory.
  int64_t BytesOf(const store::DocumentInfo& info) const;
  void CountByWords(Entry& entry);  // REQUIRES: loaded
  // The device may have less room than the budget says.
  absl::Status LoadMakingRoom(Entry& entry, Need need);
  void Unpin(const std::shared_ptr<Entry>& entry);
  void Drop(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a document that was removed. False: it is pinned, and the last pin frees it.
  bool Forget(OwnerId owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeLater(OwnerId owner);
  // Tells the store that this process no longer reads the document.
  void UnpinLater(OwnerId owner);

  store::Catalog& catalog_;
  const Keys keys_;
  const std::string fingerprint_;
  Counters& counters_;
  const std::function<void(OwnerId)> freed_;
  const std::function<void(std::function<void()>)> post_;

  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Entry>> entries_
      ABSL_GUARDED_BY(mutex_);  // by owner
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // beside `used_`; no mount is refused for it
  int64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace recollect::engine
