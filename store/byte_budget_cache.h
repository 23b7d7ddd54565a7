// A cache with a hard byte budget that evicts the least recently used entry first. The host tier
// (chunk states) and the device tier's hot memory K, V are two of these.
//
// Bytes count from when the cache takes a value until its last reader has released it: an evicted
// value that is still read counts, so `used_bytes() <= budget_bytes()` always holds. A value that
// Insert leaves to its caller is not counted; this is rare while readers hold values only to
// compute with them.
//
//   ByteBudgetCache<ChunkRecord> cache(int64_t{1} << 30);
//   auto handle = cache.Find(ref);
//   if (!handle) handle = cache.Insert(ref, std::move(record), bytes);   // null: use it uncached
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/sync/mutex.h"
#include "base/types.h"

namespace recollect::store {

struct ChunkRefHash {
  size_t operator()(const ChunkRef& ref) const {
    const uint64_t h =
        static_cast<uint64_t>(ref.owner) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(ref.index);
    return static_cast<size_t>(h ^ (h >> 29));
  }
};

// Thread-safe. Handles may outlive their entry, and the cache.
template <typename Value>
class ByteBudgetCache {
 public:
  using Handle = std::shared_ptr<const Value>;

  explicit ByteBudgetCache(int64_t budget_bytes)
      : budget_bytes_(budget_bytes), used_bytes_(std::make_shared<std::atomic<int64_t>>(0)) {}
  ByteBudgetCache(const ByteBudgetCache&) = delete;
  ByteBudgetCache& operator=(const ByteBudgetCache&) = delete;

  // Null if absent. A found entry becomes the most recently used.
  Handle Find(const ChunkRef& ref) {
    MutexLock lock(mutex_);
    return FindLocked(ref);
  }

  // Inserts a value of `bytes` bytes, evicting others until it fits, and returns its handle. If the
  // budget cannot hold it (it is too large, or all other entries are being read), returns null and
  // leaves `value` to the caller, who may use it uncached. An entry that exists already is kept and
  // returned.
  // REQUIRES: bytes >= 0.
  Handle Insert(const ChunkRef& ref, Value&& value, int64_t bytes) {
    RECOLLECT_CHECK(bytes >= 0);
    MutexLock lock(mutex_);
    if (Handle present = FindLocked(ref)) return present;
    if (bytes > budget_bytes_ || !MakeRoomLocked(bytes)) return nullptr;
    // Only this function raises the count, and it holds the lock: room that was found stays.
    auto owned = std::make_unique<const Value>(std::move(value));
    used_bytes_->fetch_add(bytes, std::memory_order_acq_rel);
    Handle handle(owned.release(), [used = used_bytes_, bytes](const Value* gone) {
      delete gone;
      used->fetch_sub(bytes, std::memory_order_acq_rel);
    });
    lru_.push_front(Entry{ref, handle});
    index_.emplace(ref, lru_.begin());
    return handle;
  }

  // Drops all entries of an owner. Visits every entry, since it runs only when a document or
  // session is deleted.
  void EraseOwner(OwnerId owner) {
    MutexLock lock(mutex_);
    for (auto it = lru_.begin(); it != lru_.end();) {
      it = it->ref.owner == owner ? EraseLocked(it) : std::next(it);
    }
  }

  void Clear() {
    MutexLock lock(mutex_);
    index_.clear();
    lru_.clear();
  }

  int64_t budget_bytes() const { return budget_bytes_; }
  int64_t used_bytes() const { return used_bytes_->load(std::memory_order_acquire); }

 private:
  struct Entry {
    ChunkRef ref;
    Handle value;
  };
  using Iterator = typename std::list<Entry>::iterator;

  Handle FindLocked(const ChunkRef& ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = index_.find(ref);
    if (found == index_.end()) return nullptr;
    lru_.splice(lru_.begin(), lru_, found->second);
    return found->second->value;
  }

  Iterator EraseLocked(Iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    index_.erase(it->ref);
    return lru_.erase(it);
  }

  // Evicts the least recently used entries. Entries that are being read are skipped, since dropping
  // them frees nothing yet. No reader can appear meanwhile, since new handles are made only under
  // the lock.
  bool MakeRoomLocked(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto it = lru_.end();
    while (used_bytes() > budget_bytes_ - bytes) {
      if (it == lru_.begin()) return false;
      --it;
      if (it->value.use_count() == 1) it = EraseLocked(it);
    }
    return true;
  }

  const int64_t budget_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> used_bytes_;  // values outlive the cache
  Mutex mutex_;
  std::list<Entry> lru_ ABSL_GUARDED_BY(mutex_);  // most recent first
  std::unordered_map<ChunkRef, Iterator, ChunkRefHash> index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::store
