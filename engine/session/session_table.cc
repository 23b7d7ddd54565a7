#include "engine/session/session_table.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "access/places.h"
#include "base/clock.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

absl::Status NoSuchSession(SessionId id) {
  return absl::NotFoundError(absl::StrCat("no open session ", static_cast<uint64_t>(id)));
}

}  // namespace

uint64_t SessionTable::FirstId() {
  std::random_device random;
  return 1 + (uint64_t{random()} << 20) % (uint64_t{1} << 51) + random() % (1 << 20);
}

// Expired ones are gone for callers at once, even before a sweep takes them out.
bool SessionTable::Alive(const Entry& entry) const {
  return !entry.closing && (entry.cancel || SteadyNow() - entry.last_used <= ttl_);
}

absl::Status SessionTable::CheckRoom(const std::string& peer) const {
  MutexLock lock(mutex_);
  return CheckRoomLocked(peer);
}

absl::Status SessionTable::CheckRoomLocked(const std::string& peer) const {
  const int64_t own = std::count_if(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.second.peer == peer; });
  return access::CheckPlace("sessions", std::ssize(entries_), max_sessions_, peer, own);
}

absl::StatusOr<SessionId> SessionTable::Add(SessionLease session, const Origin& origin,
                                            std::shared_ptr<void> counted) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckRoomLocked(origin.peer));
  const uint64_t id = next_++;
  entries_.emplace(
      id, Entry{std::move(session), origin.peer, origin.owner, std::move(counted), SteadyNow()});
  return SessionId{id};
}

absl::StatusOr<SessionLease> SessionTable::Acquire(SessionId id, std::function<void()> cancel) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
  Entry& entry = found->second;
  if (entry.cancel) {
    return absl::AbortedError(
        absl::StrCat("another request runs on session ", static_cast<uint64_t>(id)));
  }
  entry.cancel = std::move(cancel);
  return SessionLease(entry.session.get(), [this, id](Session*) { Release(id); });
}

void SessionTable::Release(SessionId id) {
  Entries::node_type closed;  // freed without the lock, as everywhere here
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(static_cast<uint64_t>(id));
  entry.cancel = nullptr;
  entry.last_used = SteadyNow();
  if (entry.closing) closed = entries_.extract(static_cast<uint64_t>(id));
}

absl::StatusOr<SessionInfo> SessionTable::Info(SessionId id) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
  SessionInfo info = found->second.session->info();
  info.id = id;
  info.owner = found->second.owner;
  return info;
}

absl::Status SessionTable::Close(SessionId id) {
  Entries::node_type closed;
  std::function<void()> cancel;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(static_cast<uint64_t>(id));
    if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
    cancel = found->second.cancel;
    if (cancel) {
      found->second.closing = true;
    } else {
      closed = entries_.extract(found);
    }
  }
  if (cancel) cancel();
  return absl::OkStatus();
}

void SessionTable::CloseExpired() {
  std::vector<Entries::node_type> expired;
  MutexLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->second.closing || Alive(entry->second)) continue;
    expired.push_back(entries_.extract(entry));
  }
}

void SessionTable::CloseAll() {
  Entries all;
  MutexLock lock(mutex_);
  all.swap(entries_);
}

int64_t SessionTable::size() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace recollect::engine
