// Open sessions by id: whether a request uses one, and which have been idle too long.
#ifndef RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_
#define RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace recollect::engine {

// Thread-safe.
class SessionTable {
 public:
  SessionTable(int64_t max_sessions, absl::Duration ttl) : max_sessions_(max_sessions), ttl_(ttl) {}

  // For one more of `peer`. RESOURCE_EXHAUSTED naming the limit (engine/places.h).
  absl::Status CheckRoom(const std::string& peer) const;
  absl::StatusOr<SessionId> Add(std::shared_ptr<Session> session, const std::string& peer);

  // For the one request that may use it now, which `cancel` ends. NOT_FOUND; ABORTED: another
  // request uses it.
  absl::StatusOr<std::shared_ptr<Session>> Acquire(SessionId id, std::function<void()> cancel);
  // Gives it back. Returns the session when it was closed meanwhile: it is the caller's to free.
  std::shared_ptr<Session> Release(SessionId id);

  absl::StatusOr<SessionInfo> Info(SessionId id) const;
  // Takes it out; null when a request uses it: that one is cancelled, and its Release returns the
  // session. NOT_FOUND.
  absl::StatusOr<std::shared_ptr<Session>> Close(SessionId id);
  std::vector<std::shared_ptr<Session>> TakeExpired();
  std::vector<std::shared_ptr<Session>> TakeAll();

  int64_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Session> session;
    std::string peer;
    absl::Time last_used;
    bool busy = false;
    bool closing = false;
    std::function<void()> cancel;
  };
  bool Alive(const Entry& entry) const;
  absl::Status CheckRoomLocked(const std::string& peer) const;

  const int64_t max_sessions_;
  const absl::Duration ttl_;
  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_SESSION_TABLE_H_
