#include "engine/session/session_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/places.h"

namespace recollect::engine {
namespace {

absl::Status NoSuchSession(SessionId id) {
  return absl::NotFoundError(absl::StrCat("no open session ", static_cast<uint64_t>(id)));
}

}  // namespace

// Expired ones are gone for callers at once, even before a sweep takes them out.
bool SessionTable::Alive(const Entry& entry) const {
  return !entry.closing && (entry.busy || SteadyNow() - entry.last_used <= ttl_);
}

absl::Status SessionTable::CheckRoom(const std::string& peer) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return CheckRoomLocked(peer);
}

absl::Status SessionTable::CheckRoomLocked(const std::string& peer) const {
  const int64_t own = std::count_if(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.second.peer == peer; });
  return CheckPlace("sessions", std::ssize(entries_), max_sessions_, peer, own);
}

absl::StatusOr<SessionId> SessionTable::Add(std::shared_ptr<Session> session,
                                            const std::string& peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(CheckRoomLocked(peer));
  const uint64_t id = next_++;
  entries_[id] = {std::move(session), peer, SteadyNow(), false, false, nullptr};
  return SessionId{id};
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Acquire(SessionId id,
                                                               std::function<void()> cancel) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
  if (found->second.busy) {
    return absl::AbortedError(
        absl::StrCat("another request runs on session ", static_cast<uint64_t>(id)));
  }
  found->second.busy = true;
  found->second.cancel = std::move(cancel);
  return found->second.session;
}

std::shared_ptr<Session> SessionTable::Release(SessionId id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end()) return nullptr;
  found->second.busy = false;
  found->second.cancel = nullptr;
  found->second.last_used = SteadyNow();
  if (!found->second.closing) return nullptr;
  std::shared_ptr<Session> session = std::move(found->second.session);
  entries_.erase(found);
  return session;
}

absl::StatusOr<SessionInfo> SessionTable::Info(SessionId id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
  SessionInfo info = found->second.session->info();
  info.id = id;
  return info;
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Close(SessionId id) {
  std::function<void()> cancel;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(static_cast<uint64_t>(id));
    if (found == entries_.end() || !Alive(found->second)) return NoSuchSession(id);
    if (!found->second.busy) {
      std::shared_ptr<Session> session = std::move(found->second.session);
      entries_.erase(found);
      return session;
    }
    found->second.closing = true;
    cancel = found->second.cancel;
  }
  if (cancel) cancel();
  return nullptr;
}

std::vector<std::shared_ptr<Session>> SessionTable::TakeExpired() {
  std::vector<std::shared_ptr<Session>> expired;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.closing || Alive(it->second)) {
      ++it;
      continue;
    }
    expired.push_back(std::move(it->second.session));
    it = entries_.erase(it);
  }
  return expired;
}

std::vector<std::shared_ptr<Session>> SessionTable::TakeAll() {
  std::vector<std::shared_ptr<Session>> all;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [id, entry] : entries_) all.push_back(std::move(entry.session));
  entries_.clear();
  return all;
}

int64_t SessionTable::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace recollect::engine
