#include "engine/session/mounts.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "engine/session/loaded_keys.h"

namespace recollect::engine {
namespace {

// A document someone pins, or whose keys are kept. Fields other than keys are guarded by the
// registry's mutex.
struct Entry {
  store::DocumentInfo info;
  int pins = 0;
  bool removed = false;
  LoadedKeys::Bytes accounted;  // from before the keys are read
  int64_t last_used = 0;
  LoadedKeys keys;
};

absl::Status CheckFingerprint(const store::DocumentInfo& info, const std::string& fingerprint) {
  if (info.fingerprint == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "document \"", info.id, "\" was read by a model with fingerprint ", info.fingerprint,
      ", this model has ", fingerprint, ": docs refresh reads it again"));
}

}  // namespace

struct Mounts::State : std::enable_shared_from_this<State> {
  State(store::Catalog& catalog_in, store::DocumentReader& reader_in, Keys keys_in,
        std::string fingerprint_in, Counters& counters_in, std::function<void(OwnerId)> freed_in,
        std::function<void(std::function<void()>)> post_in)
      : catalog(catalog_in),
        reader(reader_in),
        keys(std::move(keys_in)),
        fingerprint(std::move(fingerprint_in)),
        counters(counters_in),
        freed(std::move(freed_in)),
        post(std::move(post_in)) {}

  class PinImpl;

  absl::StatusOr<std::shared_ptr<Entry>> Acquire(const std::string& id, Need need);
  // Accounts for `needed` bytes in `accounted`, if that is 0.
  absl::Status Account(const store::DocumentInfo& info, int64_t needed, int64_t& accounted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status MakeRoom(const store::DocumentInfo& info, int64_t needed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Of the unpinned; false: there is none.
  bool DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What a document's keys take in memory, at most.
  int64_t BytesOf(const store::DocumentInfo& info) const;
  absl::Status Load(Entry& entry, Need need);
  void CountByWords(Entry& entry);  // REQUIRES: loaded
  // The device may have less room than the budget says.
  absl::Status LoadMakingRoom(Entry& entry, Need need);
  void Unpin(const std::shared_ptr<Entry>& entry);
  void Drop(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Of a document that was removed. False: it is pinned, and the last pin frees it.
  bool Forget(OwnerId owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void FreeLater(OwnerId owner);
  // Tells the store that this process no longer reads the document.
  void UnpinLater(OwnerId owner);

  store::Catalog& catalog;
  store::DocumentReader& reader;
  const Keys keys;
  const std::string fingerprint;
  Counters& counters;
  const std::function<void(OwnerId)> freed;
  const std::function<void(std::function<void()>)> post;

  mutable Mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<Entry>> entries ABSL_GUARDED_BY(mutex);  // by owner
  int64_t used ABSL_GUARDED_BY(mutex) = 0;
  int64_t reserved ABSL_GUARDED_BY(mutex) = 0;  // beside `used`; no mount is refused for it
  int64_t clock ABSL_GUARDED_BY(mutex) = 0;
};

class Mounts::State::PinImpl final : public DocumentPin {
 public:
  PinImpl(std::shared_ptr<State> state, std::shared_ptr<Entry> entry, bool with_keys)
      : state_(std::move(state)), entry_(std::move(entry)), with_keys_(with_keys) {}
  ~PinImpl() override { state_->Unpin(entry_); }
  const store::DocumentInfo& info() const override { return entry_->info; }
  KeyRun keys() const override {
    if (!with_keys_) return {};
    const LandmarkKeys* const landmarks = entry_->keys.landmarks();
    return {landmarks, landmarks == nullptr ? 0 : entry_->info.chunks};
  }
  const SparseKeys* sparse() const override { return with_keys_ ? entry_->keys.sparse() : nullptr; }
  const HybridKeys* hybrid() const override { return with_keys_ ? entry_->keys.hybrid() : nullptr; }

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Entry> entry_;
  const bool with_keys_;
};

// The mutex is held over the catalog's read, so that a removal comes either before it or after the
// pin.
absl::StatusOr<std::shared_ptr<Entry>> Mounts::State::Acquire(const std::string& id, Need need) {
  MutexLock lock(mutex);
  absl::StatusOr<store::DocumentInfo> info = catalog.Get(id);
  if (!info.ok()) {
    counters.CountError(info.status());
    return info.status();
  }
  if (need.keys || need.words) RETURN_IF_ERROR(CheckFingerprint(*info, fingerprint));
  std::shared_ptr<Entry>& slot = entries[static_cast<uint64_t>(info->owner)];
  if (slot == nullptr) {
    slot = std::make_shared<Entry>();
    slot->info = *std::move(info);
  }
  const std::shared_ptr<Entry> entry = slot;
  if (entry->pins == 0) {
    // Where other processes share the store, one may have removed it since it was looked up.
    if (const absl::Status pinned = catalog.Pin(entry->info.owner); !pinned.ok()) {
      Drop(*entry);
      counters.CountError(pinned);
      return Annotate(pinned, absl::StrCat("document \"", id, "\""));
    }
  }
  ++entry->pins;  // before making room, which drops keys of unpinned documents only
  absl::Status status;
  if (need.keys) status = Account(entry->info, BytesOf(entry->info), entry->accounted.keys);
  if (need.words && status.ok()) {
    status = Account(entry->info, keys.text->WordBytesOf(entry->info), entry->accounted.words);
  }
  if (!status.ok()) {
    if (--entry->pins == 0) {
      UnpinLater(entry->info.owner);
      Drop(*entry);
    }
    return status;
  }
  entry->last_used = ++clock;
  return entry;
}

absl::Status Mounts::State::Account(const store::DocumentInfo& info, int64_t needed,
                                    int64_t& accounted) {
  if (accounted > 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakeRoom(info, needed));
  accounted = needed;
  used += needed;
  return absl::OkStatus();
}

absl::Status Mounts::State::MakeRoom(const store::DocumentInfo& info, int64_t needed) {
  while (used + needed > keys.budget_bytes) {
    if (!DropOldest()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("document \"", info.id, "\": its ",
                       keys.text == nullptr || keys.hybrid ? "landmark" : "sparse", " keys need ",
                       needed, " bytes, the budget of ", keys.budget_bytes, " bytes has ",
                       keys.budget_bytes - used, " left"));
    }
  }
  return absl::OkStatus();
}

bool Mounts::State::DropOldest() {
  std::shared_ptr<Entry> oldest;
  for (const auto& [owner, entry] : entries) {
    if (entry->pins == 0 && (oldest == nullptr || entry->last_used < oldest->last_used)) {
      oldest = entry;
    }
  }
  if (oldest != nullptr) Drop(*oldest);
  return oldest != nullptr;
}

void Mounts::State::Drop(Entry& entry) {
  used -= entry.accounted.keys + entry.accounted.words;
  entries.erase(static_cast<uint64_t>(entry.info.owner));
}

absl::Status Mounts::State::LoadMakingRoom(Entry& entry, Need need) {
  while (true) {
    absl::Status status = Load(entry, need);
    if (status.ok()) CountByWords(entry);
    if (!absl::IsResourceExhausted(status)) return status;
    MutexLock lock(mutex);
    if (!DropOldest()) return status;
  }
}

int64_t Mounts::State::BytesOf(const store::DocumentInfo& info) const {
  return keys.text != nullptr ? keys.text->BytesOf(info)
                              : keys.device.BytesOf(info.chunks, keys.d_k);
}

void Mounts::State::CountByWords(Entry& entry) {
  if (keys.text == nullptr) return;
  const LoadedKeys::Bytes bytes = entry.keys.bytes_by_words(keys);
  MutexLock lock(mutex);
  used += bytes.keys + bytes.words - entry.accounted.keys - entry.accounted.words;
  entry.accounted = bytes;
}

absl::Status Mounts::State::Load(Entry& entry, Need need) {
  absl::Status status = entry.keys.Load(keys, reader, entry.info, need);
  counters.CountError(status);
  return status;
}

void Mounts::State::Unpin(const std::shared_ptr<Entry>& entry) {
  bool free = false;
  {
    MutexLock lock(mutex);
    if (--entry->pins > 0) return;
    if (entry->removed || !entry->keys.loaded()) {
      free = entry->removed;
      Drop(*entry);
    }
  }
  UnpinLater(entry->info.owner);
  if (free) FreeLater(entry->info.owner);
}

void Mounts::State::UnpinLater(OwnerId owner) {
  post([state = shared_from_this(), owner] { state->catalog.Unpin(owner); });
}

bool Mounts::State::Forget(OwnerId owner) {
  const auto found = entries.find(static_cast<uint64_t>(owner));
  if (found == entries.end()) return true;
  found->second->removed = true;
  if (found->second->pins > 0) return false;
  Drop(*found->second);
  return true;
}

void Mounts::State::FreeLater(OwnerId owner) {
  freed(owner);
  post([state = shared_from_this(), owner] {
    if (const absl::Status status = state->catalog.Free(owner); !status.ok()) {
      // Nothing is lost: a store that is opened again frees what was removed.
      LogWarning("freeing owner {}: {}", static_cast<uint64_t>(owner), status.ToString());
    }
  });
}

Mounts::Mounts(store::Catalog& catalog, store::DocumentReader& reader, Keys keys,
               std::string fingerprint, Counters& counters, std::function<void(OwnerId)> freed,
               std::function<void(std::function<void()>)> post)
    : state_(std::make_shared<State>(catalog, reader, std::move(keys), std::move(fingerprint),
                                     counters, std::move(freed), std::move(post))) {}

Mounts::~Mounts() = default;

absl::StatusOr<std::vector<Pin>> Mounts::Mount(const std::vector<std::string>& ids, Need need) {
  absl::flat_hash_set<absl::string_view> named;
  for (const std::string& id : ids) {
    if (!named.insert(id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("mounts: document \"", id, "\" is mounted twice"));
    }
  }
  std::vector<Pin> pins;
  std::vector<std::shared_ptr<Entry>> entries;
  for (const std::string& id : ids) {
    const MemoryScope scope(MemoryScope::kTake);  // no pin is counted that nobody holds
    ASSIGN_OR_RETURN(std::shared_ptr<Entry> entry, state_->Acquire(id, need));
    pins.push_back(std::make_shared<State::PinImpl>(state_, entry, /*with_keys=*/true));
    entries.push_back(std::move(entry));
  }
  for (const std::shared_ptr<Entry>& entry : entries) {
    RETURN_IF_ERROR(state_->LoadMakingRoom(*entry, need));
  }
  return pins;
}

absl::StatusOr<Pin> Mounts::PinDocument(const std::string& id) {
  const MemoryScope scope(MemoryScope::kTake);
  ASSIGN_OR_RETURN(std::shared_ptr<Entry> entry, state_->Acquire(id, {.keys = false}));
  return std::make_shared<State::PinImpl>(state_, std::move(entry), /*with_keys=*/false);
}

absl::StatusOr<std::shared_ptr<void>> Mounts::Reserve(const store::DocumentInfo& info) {
  const int64_t needed = state_->BytesOf(info);
  MutexLock lock(state_->mutex);
  RETURN_IF_ERROR(state_->MakeRoom(info, state_->reserved + needed));
  std::shared_ptr<void> room(nullptr, [state = state_, needed](void*) {
    MutexLock again(state->mutex);
    state->reserved -= needed;
  });
  state_->reserved += needed;
  return room;
}

absl::Status Mounts::UseLists(OwnerId owner, ListedKeys listed) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(state_->mutex);
    const auto found = state_->entries.find(static_cast<uint64_t>(owner));
    if (found == state_->entries.end()) return absl::OkStatus();
    entry = found->second;
  }
  return entry->keys.UseLists(std::move(listed));
}

absl::Status Mounts::Remove(const std::string& id) {
  const MemoryScope scope(MemoryScope::kTake);
  OwnerId owner;
  {
    MutexLock lock(state_->mutex);
    absl::StatusOr<store::DocumentInfo> info = state_->catalog.Remove(id);
    if (!info.ok()) {
      state_->counters.CountError(info.status());
      return info.status();
    }
    owner = info->owner;
    if (!state_->Forget(owner)) return absl::OkStatus();
  }
  state_->FreeLater(owner);
  return absl::OkStatus();
}

void Mounts::Retire(OwnerId owner) {
  const MemoryScope scope(MemoryScope::kTake);
  {
    MutexLock lock(state_->mutex);
    if (!state_->Forget(owner)) return;
  }
  state_->FreeLater(owner);
}

int64_t Mounts::used_bytes() const {
  MutexLock lock(state_->mutex);
  return state_->used + state_->reserved;
}

int64_t Mounts::listed_documents() const {
  MutexLock lock(state_->mutex);
  return std::count_if(state_->entries.begin(), state_->entries.end(),
                       [](const auto& entry) { return entry.second->keys.listed(); });
}

int64_t Mounts::budget_bytes() const { return state_->keys.budget_bytes; }

}  // namespace recollect::engine
