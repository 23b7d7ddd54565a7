// The documents in use: their keys (of landmarks, or sparse ones where documents are kept as text),
// loaded once and shared by all sessions that mount them, and the pins of their readers.
//
// Keys stay loaded after the last unmount while the budget has room, so that mounting again costs
// nothing; keys of mounted documents are never dropped. A removed document cannot be mounted any
// more; its space is freed with the last pin.
#ifndef RECOLLECT_ENGINE_SESSION_MOUNTS_H_
#define RECOLLECT_ENGINE_SESSION_MOUNTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
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

// Thread-safe. Pins may outlive it, but not the store or the device.
class Mounts {
 public:
  // The sources of keys, and the device that holds them.
  struct Keys {
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
  Mounts(store::Catalog& catalog, store::DocumentReader& reader, Keys keys, std::string fingerprint,
         Counters& counters, std::function<void(OwnerId)> freed,
         std::function<void(std::function<void()>)> post);
  ~Mounts();

  // The keys of a document that a mount needs.
  struct Need {
    bool keys = true;  // those by which it is found where the layers read it (of a text, its words)
    bool words = false;  // with an adapter: its words, as of a document that is kept as text
  };

  // Pins `ids`, in order, with their keys; reads keys that are not loaded. NOT_FOUND,
  // INVALID_ARGUMENT (an id given twice), FAILED_PRECONDITION (another fingerprint),
  // RESOURCE_EXHAUSTED (names the size needed and the budget, or the device's memory), DATA_LOSS.
  absl::StatusOr<std::vector<Pin>> Mount(const std::vector<std::string>& ids, Need need);
  absl::StatusOr<std::vector<Pin>> Mount(const std::vector<std::string>& ids) {
    return Mount(ids, Need());
  }

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
  int64_t budget_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_MOUNTS_H_
