// The open sessions by id. The table knows which a request uses, and which have been idle too long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "engine/session/session.h"
#include "engine/types.h"

namespace recollect::engine {

// Thread-safe.
class SessionTable {
 public:
  SessionTable(int64_t max_sessions, absl::Duration ttl) : max_sessions_(max_sessions), ttl_(ttl) {}

  // Returns OK if `peer` may have one more session. RESOURCE_EXHAUSTED names the limit
  // (access/places.h).
  absl::Status CheckRoom(const std::string& peer) const;
  // Adds an open session. `counted` is destroyed with it.
  absl::StatusOr<SessionId> Add(SessionLease session, const Origin& origin,
                                std::shared_ptr<void> counted = nullptr);

  // Leases the session to one request, which `cancel` ends. The table must outlive the lease.
  // NOT_FOUND; ABORTED: another request uses it.
  absl::StatusOr<SessionLease> Acquire(SessionId id, std::function<void()> cancel);

  absl::StatusOr<SessionInfo> Info(SessionId id) const;
  // Closes the session. If a request uses it, cancels the request, whose end closes the session.
  // NOT_FOUND.
  absl::Status Close(SessionId id);
  void CloseExpired();
  // REQUIRES: no request uses any.
  void CloseAll();

  int64_t size() const;

 private:
  struct Entry {
    SessionLease session;
    std::string peer, owner;
    std::shared_ptr<void> counted;  // for the account
    absl::Time last_used;
    std::function<void()> cancel = nullptr;  // of the request that uses it; null: none does
    bool closing = false;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;
  // Returns a random first id for each process, so that an id of an earlier process, or of another
  // replica, names no session here. Below 2^52, so that JSON can represent it.
  static uint64_t FirstId();
  bool Alive(const Entry& entry) const;
  void Release(SessionId id);
  absl::Status CheckRoomLocked(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_sessions_;
  const absl::Duration ttl_;
  mutable Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = FirstId();
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
