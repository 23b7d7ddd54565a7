// The body of one request in pieces, for a handler that does not need it whole: the connection
// reads the next piece when the handler asks for it, so that a body of any length takes bounded
// memory.
//
//   request.stream->Read([…](absl::StatusOr<std::string> piece) { … });
#ifndef RECOLLECT_HTTP_BODY_H_
#define RECOLLECT_HTTP_BODY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace recollect::http {

// Thread-safe.
class Body {
 public:
  static constexpr size_t kPieceBytes = 32 << 10;

  // `wake` tells the connection that a piece is wanted.
  explicit Body(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Gives the next piece to `got`, of at most kPieceBytes; empty: the body has ended. An error says
  // why no more comes: CANCELLED where the client has gone or nobody waits for the answer any more,
  // INVALID_ARGUMENT where it sends what is not HTTP. One at a time. `got` is called once, by the
  // connection's thread, or inside the call after an error; it must not block.
  using Got = std::function<void(absl::StatusOr<std::string>)>;
  void Read(Got got);

  // The rest is for the connection.
  bool wanted() const;
  void Give(std::string piece);           // REQUIRES: wanted()
  void Fail(const absl::Status& status);  // what is wanted now or later; the first counts
  bool failed() const;

 private:
  mutable Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  Got got_ ABSL_GUARDED_BY(mutex_);
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_BODY_H_
