// Keeps the sessions of requests that have ended, so that a later request whose prompt begins with
// the same tokens need not read those again: the next turn of a conversation, or another question
// about the same text. Answers are the same with and without it, because rows have the same bits in
// any split of a prompt (design 4).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "access/account.h"
#include "base/sync/mutex.h"
#include "engine/session/session.h"
#include "model/config/pattern.h"

namespace recollect::engine {

// Holds sessions of a family that can rewind (ModelConfig::rewinds). Thread-safe.
class PromptCache {
 public:
  // `most_bytes`: the most for the states of all kept sessions; 0: nothing is kept. `ttl`: the time
  // after which an unused session is dropped.
  PromptCache(int64_t most_bytes, absl::Duration ttl) : most_bytes_(most_bytes), ttl_(ttl) {}

  // Keeps `session` for requests of the same account under the same patterns; null: none. Drops
  // the least recently used others beyond the limit, or this one if it alone is beyond it.
  void Put(std::unique_ptr<Session> session, std::shared_ptr<access::Account> account,
           model::LocalPatterns patterns);

  // Returns the kept session that shares the longest beginning with `tokens`, rewound to it and no
  // longer kept; null: none shares enough. Rows that have read documents do not count
  // (Session::plain_tokens). A session is taken only where at least half of what it has read is
  // shared: otherwise a short common beginning (a system line) would cost another conversation its
  // place. At least the last of `tokens` is left to be run.
  std::unique_ptr<Session> Take(std::span<const int32_t> tokens,
                                const std::shared_ptr<access::Account>& account,
                                const model::LocalPatterns& patterns);

  // Drops the least recently used session; false: there is none.
  bool DropOldest();
  void DropExpired();
  void DropAll();

  int64_t size() const;
  int64_t bytes() const;

 private:
  struct Entry {
    std::unique_ptr<Session> session;
    std::shared_ptr<access::Account> account;
    model::LocalPatterns patterns;
    int64_t bytes = 0;
    absl::Time used;
  };
  using Entries = std::list<Entry>;  // the least recently used first

  // Moves an entry out, to be destroyed without the lock.
  Entry Extract(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t most_bytes_;
  const absl::Duration ttl_;
  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace recollect::engine
