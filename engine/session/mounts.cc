#include "engine/session/mounts.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/session/loaded_keys.h"

namespace recollect::engine {

absl::Status CheckModel(const store::DocumentInfo& document, const std::string& fingerprint,
                        const char* was_read, const char* and_then) {
  if (document.fingerprint == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("document \"", document.id, "\" ", was_read, " by a model with fingerprint ",
                   document.fingerprint, "; this model has ", fingerprint,
                   ": docs refresh reads it again", and_then));
}

// A document someone pins, or whose keys are kept. Fields other than keys are guarded by mutex_.
struct Mounts::Entry {
  store::DocumentInfo info;
  int pins = 0;
  bool removed = false;
  LoadedKeys::Bytes accounted;  // from before the keys are read
  int64_t last_used = 0;
  LoadedKeys keys;
};

class Mounts::PinImpl final : public DocumentPin {
 public:
  PinImpl(std::shared_ptr<Mounts> mounts, std::shared_ptr<Entry> entry, bool with_keys)
      : mounts_(std::move(mounts)), entry_(std::move(entry)), with_keys_(with_keys) {}
  ~PinImpl() override { mounts_->Unpin(entry_); }
  const store::DocumentInfo& info() const override { return entry_->info; }
  KeyRun keys() const override {
    if (!with_keys_) return {};
    const LandmarkKeys* const landmarks = entry_->keys.landmarks();
    return {landmarks, landmarks == nullptr ? 0 : entry_->info.chunks};
  }
  const SparseKeys* sparse() const override { return with_keys_ ? entry_->keys.sparse() : nullptr; }
  const HybridKeys* hybrid() const override { return with_keys_ ? entry_->keys.hybrid() : nullptr; }

 private:
  const std::shared_ptr<Mounts> mounts_;
  const std::shared_ptr<Entry> entry_;
  const bool with_keys_;
};

// The mutex is held over the catalog's read, so that a removal comes either before it or after the
// pin.
absl::StatusOr<std::shared_ptr<Mounts::Entry>> Mounts::Acquire(const std::string& id, Need need) {
  MutexLock lock(mutex_);
  absl::StatusOr<store::DocumentInfo> info = catalog_.Get(id);
  if (!info.ok()) {
    counters_.CountError(info.status());
    return info.status();
  }
  if (need.keys || need.words) RETURN_IF_ERROR(CheckModel(*info, fingerprint_));
  std::shared_ptr<Entry>& slot = entries_[static_cast<uint64_t>(info->owner)];
  if (slot == nullptr) {
    slot = std::make_shared<Entry>();
    slot->info = *std::move(info);
  }
  const std::shared_ptr<Entry> entry = slot;
  if (entry->pins == 0) {
    // Where other processes share the store, one may have removed it since it was looked up.
    if (const absl::Status pinned = catalog_.Pin(entry->info.owner); !pinned.ok()) {
      Drop(*entry);
      counters_.CountError(pinned);
      return Annotate(pinned, absl::StrCat("document \"", id, "\""));
    }
  }
  ++entry->pins;  // before making room, which drops keys of unpinned documents only
  absl::Status status;
  if (need.keys) status = Account(entry->info, BytesOf(entry->info), entry->accounted.keys);
  if (need.words && status.ok()) {
    status = Account(entry->info, keys_.text->WordBytesOf(entry->info), entry->accounted.words);
  }
  if (!status.ok()) {
    if (--entry->pins == 0) {
      UnpinLater(entry->info.owner);
      Drop(*entry);
    }
    return status;
  }
  entry->last_used = ++clock_;
  return entry;
}

absl::Status Mounts::Account(const store::DocumentInfo& info, int64_t needed, int64_t& accounted) {
  if (accounted > 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakeRoom(info, needed));
  accounted = needed;
  used_ += needed;
  return absl::OkStatus();
}

absl::Status Mounts::MakeRoom(const store::DocumentInfo& info, int64_t needed) {
  while (used_ + needed > keys_.budget_bytes) {
    if (!DropOldest()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("document \"", info.id, "\": its ",
                       keys_.text == nullptr || keys_.hybrid ? "landmark" : "sparse", " keys need ",
                       needed, " bytes, the budget of ", keys_.budget_bytes, " bytes has ",
                       keys_.budget_bytes - used_, " left"));
    }
  }
  return absl::OkStatus();
}

bool Mounts::DropOldest() {
  std::shared_ptr<Entry> oldest;
  for (const auto& [owner, entry] : entries_) {
    if (entry->pins == 0 && (oldest == nullptr || entry->last_used < oldest->last_used)) {
      oldest = entry;
    }
  }
  if (oldest != nullptr) Drop(*oldest);
  return oldest != nullptr;
}

void Mounts::Drop(Entry& entry) {
  used_ -= entry.accounted.keys + entry.accounted.words;
  entries_.erase(static_cast<uint64_t>(entry.info.owner));
}

absl::Status Mounts::LoadMakingRoom(Entry& entry, Need need) {
  while (true) {
    absl::Status status = entry.keys.Load(keys_, entry.info, need);
    counters_.CountError(status);
    if (status.ok()) CountByWords(entry);
    if (!absl::IsResourceExhausted(status)) return status;
    MutexLock lock(mutex_);
    if (!DropOldest()) return status;
  }
}

int64_t Mounts::BytesOf(const store::DocumentInfo& info) const {
  return keys_.text != nullptr ? keys_.text->BytesOf(info)
                               : keys_.device.BytesOf(info.chunks, keys_.d_k);
}

void Mounts::CountByWords(Entry& entry) {
  if (keys_.text == nullptr) return;
  const LoadedKeys::Bytes bytes = entry.keys.bytes_by_words(keys_);
  MutexLock lock(mutex_);
  used_ += bytes.keys + bytes.words - entry.accounted.keys - entry.accounted.words;
  entry.accounted = bytes;
}

void Mounts::Unpin(const std::shared_ptr<Entry>& entry) {
  bool free = false;
  {
    MutexLock lock(mutex_);
    if (--entry->pins > 0) return;
    if (entry->removed || !entry->keys.loaded()) {
      free = entry->removed;
      Drop(*entry);
    }
  }
  UnpinLater(entry->info.owner);
  if (free) FreeLater(entry->info.owner);
}

void Mounts::UnpinLater(OwnerId owner) {
  post_([self = shared_from_this(), owner] { self->catalog_.Unpin(owner); });
}

bool Mounts::Forget(OwnerId owner) {
  const auto found = entries_.find(static_cast<uint64_t>(owner));
  if (found == entries_.end()) return true;
  found->second->removed = true;
  if (found->second->pins > 0) return false;
  Drop(*found->second);
  return true;
}

void Mounts::FreeLater(OwnerId owner) {
  freed_(owner);
  post_([self = shared_from_this(), owner] {
    if (const absl::Status status = self->catalog_.Free(owner); !status.ok()) {
      // Nothing is lost: a store that is opened again frees what was removed.
      LogWarning("freeing owner {}: {}", static_cast<uint64_t>(owner), status.ToString());
    }
  });
}

absl::StatusOr<std::vector<Pin>> Mounts::Mount(const std::vector<std::string>& ids, Need need) {
  std::unordered_set<std::string> named;
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
    ASSIGN_OR_RETURN(std::shared_ptr<Entry> entry, Acquire(id, need));
    pins.push_back(std::make_shared<PinImpl>(shared_from_this(), entry, /*with_keys=*/true));
    entries.push_back(std::move(entry));
  }
  for (const std::shared_ptr<Entry>& entry : entries) {
    RETURN_IF_ERROR(LoadMakingRoom(*entry, need));
  }
  return pins;
}

absl::StatusOr<Pin> Mounts::PinDocument(const std::string& id) {
  const MemoryScope scope(MemoryScope::kTake);
  ASSIGN_OR_RETURN(std::shared_ptr<Entry> entry, Acquire(id, {.keys = false}));
  return std::make_shared<PinImpl>(shared_from_this(), std::move(entry), /*with_keys=*/false);
}

absl::StatusOr<std::shared_ptr<void>> Mounts::Reserve(const store::DocumentInfo& info) {
  const int64_t needed = BytesOf(info);
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(MakeRoom(info, reserved_ + needed));
  std::shared_ptr<void> room(nullptr, [self = shared_from_this(), needed](void*) {
    MutexLock again(self->mutex_);
    self->reserved_ -= needed;
  });
  reserved_ += needed;
  return room;
}

absl::Status Mounts::UseLists(OwnerId owner, ListedKeys listed) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(static_cast<uint64_t>(owner));
    if (found == entries_.end()) return absl::OkStatus();
    entry = found->second;
  }
  return entry->keys.UseLists(std::move(listed));
}

absl::Status Mounts::Remove(const std::string& id) {
  const MemoryScope scope(MemoryScope::kTake);
  OwnerId owner;
  {
    MutexLock lock(mutex_);
    absl::StatusOr<store::DocumentInfo> info = catalog_.Remove(id);
    if (!info.ok()) {
      counters_.CountError(info.status());
      return info.status();
    }
    owner = info->owner;
    if (!Forget(owner)) return absl::OkStatus();
  }
  FreeLater(owner);
  return absl::OkStatus();
}

void Mounts::Retire(OwnerId owner) {
  const MemoryScope scope(MemoryScope::kTake);
  {
    MutexLock lock(mutex_);
    if (!Forget(owner)) return;
  }
  FreeLater(owner);
}

int64_t Mounts::used_bytes() const {
  MutexLock lock(mutex_);
  return used_ + reserved_;
}

int64_t Mounts::listed_documents() const {
  MutexLock lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const auto& entry) { return entry.second->keys.listed(); });
}

}  // namespace recollect::engine
