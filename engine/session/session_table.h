// Open sessions by id: whether a request uses one, and which have been idle too long.
#ifndef RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_
#define RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace recollect::engine {

// Thread-safe.
class SessionTable {
 public:
  SessionTable(int64_t max_sessions, absl::Duration ttl) : max_sessions_(max_sessions), ttl_(ttl) {}

  // For one more of `peer`. RESOURCE_EXHAUSTED naming the limit (engine/places.h).
  absl::Status CheckRoom(const std::string& peer) const;
  // `counted` is let go of with the session.
  absl::StatusOr<SessionId> Add(SessionLease session, const Origin& origin,
                                std::shared_ptr<void> counted = nullptr);

  // For the one request that may use it now, which `cancel` ends. The table must outlive the lease.
  // NOT_FOUND; ABORTED: another request uses it.
  absl::StatusOr<SessionLease> Acquire(SessionId id, std::function<void()> cancel);

  absl::StatusOr<SessionInfo> Info(SessionId id) const;
  // Lets go of it. A request that uses it is cancelled, and its end lets go of it. NOT_FOUND.
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
  // Drawn for each process: an id of an earlier process, or of another replica, names no session
  // here. Below 2^52, so that JSON carries it.
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

#endif  // RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_
