// A request on one session, as the scheduler sees it: it plans pieces until it ends.
#ifndef RECOLLECT_ENGINE_STEP_REQUEST_H_
#define RECOLLECT_ENGINE_STEP_REQUEST_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/session/piece.h"
#include "engine/session/session.h"

namespace recollect::engine {

// CANCELLED or DEADLINE_EXCEEDED if the caller no longer waits.
inline absl::Status DueStatus(bool cancelled, absl::Time deadline) {
  if (cancelled) return absl::CancelledError("cancelled by the caller");
  if (deadline < SteadyNow()) return absl::DeadlineExceededError("deadline exceeded");
  return absl::OkStatus();
}

// Made by any thread, then used by the scheduler's thread alone (Cancel: any thread). Ends with
// exactly one of Finish and Fail.
class Request : public std::enable_shared_from_this<Request> {
 public:
  virtual ~Request() = default;

  // Plans the next piece, of about `limit` rows at most. INVALID_ARGUMENT: there is nothing to run.
  virtual absl::Status Plan(int64_t limit) = 0;
  // To be called when the piece is done. Returns whether the request is complete.
  virtual absl::StatusOr<bool> PieceDone() = 0;
  // Leaves the session ready for the next request. Then Finish or Fail tells the caller.
  virtual void LeaveSession() {}
  virtual void Finish() = 0;
  virtual void Fail(const absl::Status& status) = 0;
  // Whether the next piece is from a prompt, so that it has many rows.
  virtual bool prefilling() const = 0;
  // The most rows that its input still needs.
  virtual int64_t most_rows() const = 0;

  void Cancel() {
    cancelled_ = true;
    if (wake) wake();
  }
  bool cancelled() const { return cancelled_; }

  Piece piece;
  std::shared_ptr<Session> session;
  absl::Time deadline = absl::InfiniteFuture();
  std::function<void()> wake;  // of the scheduler
  std::function<void()>
      released;  // called once, before the caller is told of the end: returns the session
  std::function<void()> ended;  // called once, after
  std::shared_ptr<void> keep_alive;

 private:
  std::atomic<bool> cancelled_{false};
};

// The three kinds of requests. REQUIRES: arguments are checked and tokenised. The time to the first
// token counts from `arrived`.
std::shared_ptr<Request> MakeGenerate(const model::Model& model, GenerateRequest request,
                                      std::vector<int32_t> tokens,
                                      std::shared_ptr<GenerateEvents> events, Counters& counters,
                                      std::chrono::steady_clock::time_point arrived);
std::shared_ptr<Request> MakeScore(const model::Model& model, ScoreRequest request,
                                   std::vector<int32_t> tokens, int64_t text_bytes,
                                   std::function<void(absl::StatusOr<ScoreResult>)> done,
                                   Counters& counters);
std::shared_ptr<Request> MakeRetrieve(
    RetrieveRequest request, std::vector<int32_t> tokens,
    std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done, Counters& counters);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STEP_REQUEST_H_
