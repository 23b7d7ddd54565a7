// The body of one request in pieces, for a handler that does not need it whole. The connection
// reads some of it ahead: the end of a connection comes behind its bytes, so a client that is gone
// is seen as soon as they have been read, however long the handler takes for each. A body of any
// length takes bounded memory.
//
//   request.stream->Read([…](absl::StatusOr<std::string> piece) { … });
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"

namespace recollect::http {

// Thread-safe.
class Body {
 public:
  static constexpr size_t kPieceBytes = 32 << 10;
  static constexpr size_t kAheadBytes = 4 << 20;      // of one body
  static constexpr size_t kAllAheadBytes = 64 << 20;  // of all; a piece each they have in any case

  // `wake` tells the connection that there may be room. `all_held`: the bytes that the bodies of a
  // server hold; outlives this.
  Body(std::function<void()> wake, std::atomic<size_t>& all_held)
      : wake_(std::move(wake)), all_held_(all_held) {}
  ~Body();
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  // Gives the next piece to `got`, of at most kPieceBytes; empty: the body has ended. An error says
  // why no more comes: CANCELLED where the client has gone or nobody waits for the answer any more,
  // INVALID_ARGUMENT where it sends what is not HTTP. One at a time. `got` is called once, by the
  // connection's thread or inside the call; it must not block, nor read on inside the call.
  using Got = std::function<void(absl::StatusOr<std::string>)>;
  void Read(Got got);

  // The rest is for the connection.
  // Whether it is to read on: not before the handler has asked for the first piece.
  bool has_room() const;
  void Give(std::string piece);           // of at most kPieceBytes; empty: the end
  void End(const absl::Status& status);   // OK, or what comes behind the pieces is no body
  void Fail(const absl::Status& status);  // drops what is held; the first counts
  bool failed() const;

 private:
  void DropLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  Got got_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> pieces_ ABSL_GUARDED_BY(mutex_);
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;                  // bytes of pieces_
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // behind them; OK: the body's
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t>& all_held_;
};

}  // namespace recollect::http
