#include "engine/session/prompt_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace recollect::engine {
namespace {

// Of less, reading it again costs no more than a decoded token or two.
constexpr int64_t kLeastShared = 16;

int64_t SharedBeginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PromptCache::Entry PromptCache::Extract(Entries::iterator entry) {
  Entry taken = std::move(*entry);
  entries_.erase(entry);
  bytes_ -= taken.bytes;
  return taken;
}

void PromptCache::Put(std::unique_ptr<Session> session, std::shared_ptr<access::Account> account,
                      model::LocalPatterns patterns) {
  if (!session->broken.ok()) return;
  std::vector<Entry> dropped;  // freed without the lock: freeing much memory takes long
  MutexLock lock(mutex_);
  const int64_t bytes = session->state_bytes();
  entries_.push_back(
      {std::move(session), std::move(account), std::move(patterns), bytes, SteadyNow()});
  bytes_ += bytes;
  while (bytes_ > most_bytes_) dropped.push_back(Extract(entries_.begin()));
}

std::unique_ptr<Session> PromptCache::Take(std::span<const int32_t> tokens,
                                           const std::shared_ptr<access::Account>& account,
                                           const model::LocalPatterns& patterns) {
  if (tokens.empty()) return nullptr;
  std::unique_ptr<Session> session;
  int64_t shared = 0;
  {
    MutexLock lock(mutex_);
    auto best = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->account != account || !(entry->patterns == patterns)) continue;
      const std::span<const int32_t> read = entry->session->plain_tokens();
      const int64_t length = SharedBeginning(tokens.first(tokens.size() - 1), read);
      if (length < kLeastShared || 2 * length < std::ssize(read) || length < shared) continue;
      shared = length;
      best = entry;
    }
    if (best == entries_.end()) return nullptr;
    session = Extract(best).session;
  }
  return session->Rewind(shared) ? std::move(session) : nullptr;
}

bool PromptCache::DropOldest() {
  Entry dropped;
  MutexLock lock(mutex_);
  if (entries_.empty()) return false;
  dropped = Extract(entries_.begin());
  return true;
}

void PromptCache::DropExpired() {
  std::vector<Entry> dropped;
  MutexLock lock(mutex_);
  while (!entries_.empty() && SteadyNow() - entries_.front().used > ttl_) {
    dropped.push_back(Extract(entries_.begin()));
  }
}

void PromptCache::DropAll() {
  while (DropOldest()) {
  }
}

int64_t PromptCache::size() const {
  MutexLock lock(mutex_);
  return std::ssize(entries_);
}

int64_t PromptCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace recollect::engine
