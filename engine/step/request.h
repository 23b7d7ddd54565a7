// A request on one session, as the scheduler sees it: it plans pieces until it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/counters.h"
#include "engine/session/session.h"
#include "engine/step/make_prompt.h"
#include "engine/step/piece.h"
#include "engine/streams.h"

namespace recollect::engine {

// CANCELLED or DEADLINE_EXCEEDED if the caller no longer waits.
inline absl::Status DueStatus(bool cancelled, absl::Time deadline) {
  if (cancelled) return absl::CancelledError("cancelled by the caller");
  if (deadline < SteadyNow()) return absl::DeadlineExceededError("deadline exceeded");
  return absl::OkStatus();
}

// Used by one thread at a time: by its caller's, the one that prepares it, then the scheduler's
// (Cancel: any thread). Whoever has it last calls End. What it holds of the engine, its slot of the
// queue and its session, are members: both are given back however it ends.
class Request {
 public:
  // Holds a slot of those that may run or wait at a time; its end frees it.
  using QueueSlot = std::unique_ptr<void, std::function<void(void*)>>;

  Request(SessionOptions options, absl::Time due, std::shared_ptr<access::Account> counts)
      : session_options(std::move(options)), deadline(due), account(std::move(counts)) {}
  virtual ~Request() = default;

  // Checks the arguments and makes the tokens to run.
  virtual absl::Status Prepare(const PromptSource& source) = 0;
  // After Prepare: the tokens that it runs first, of which a session that has read their beginning
  // runs the rest alone. Empty: it needs a session that has read nothing.
  virtual std::span<const int32_t> beginning() const { return {}; }
  // Answers a request that no layer is needed for, once it has its session. Returns whether that
  // was all.
  virtual absl::StatusOr<bool> AnswerAtOnce() { return false; }
  // Plans the next piece, of about `limit` rows at most. INVALID_ARGUMENT: there is nothing to run.
  virtual absl::Status Plan(int64_t limit) = 0;
  // To be called when the piece is done. Returns whether the request is complete.
  virtual absl::StatusOr<bool> PieceDone() = 0;
  // Whether the next piece is from a prompt, so that it has many rows.
  virtual bool prefilling() const = 0;
  // The most rows that its input still needs.
  virtual int64_t most_rows() const = 0;

  // Gives the session back, then tells the caller of the end: of an error if `status` is one. The
  // slot is held for as long as the request exists.
  void End(const absl::Status& status);

  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  QueueSlot queue_slot;            // the last thing to be given back
  SessionLease session;            // null until the request has one, and after its end
  SessionOptions session_options;  // Prepare expands its mounts
  const absl::Time deadline;
  const std::shared_ptr<access::Account> account;  // may be null
  std::shared_ptr<void> counted_session;           // of the account, where the session is its own
  Piece piece;

 protected:
  virtual void Finish() = 0;
  virtual void Fail(const absl::Status& status) = 0;

 private:
  std::atomic<bool> cancelled_{false};
};

// A request whose caller hears nothing before its one answer.
template <typename Asked, typename Answer>
class Answering : public Request {
 public:
  using Done = std::function<void(absl::StatusOr<Answer>)>;
  Answering(const model::Model& model, Asked asked, Done done, Counters& counters)
      : Request(std::move(asked.session_options), asked.deadline, std::move(asked.account)),
        model_(model),
        counters_(counters),
        request_(std::move(asked)),
        done_(std::move(done)) {}
  bool prefilling() const override { return true; }

 protected:
  void Finish() override {
    counters_.prompt_tokens += prompt_tokens();
    done_(std::move(result_));
  }
  void Fail(const absl::Status& status) override { done_(status); }
  // Without a token that the session has carried.
  virtual int64_t prompt_tokens() const { return std::ssize(input_.tokens); }

  const model::Model& model_;
  Counters& counters_;
  Asked request_;
  Input input_;
  Answer result_;

 private:
  const Done done_;
};

// The four kinds of requests. The time to the first token counts from here.
std::shared_ptr<Request> MakeGenerate(const model::Model& model, GenerateRequest request,
                                      std::shared_ptr<GenerateEvents> events, Counters& counters);
std::shared_ptr<Request> MakeScore(const model::Model& model, ScoreRequest request,
                                   std::function<void(absl::StatusOr<ScoreResult>)> done,
                                   Counters& counters);
std::shared_ptr<Request> MakeRetrieve(
    const model::Model& model, RetrieveRequest request,
    std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done, Counters& counters);
std::shared_ptr<Request> MakeEmbed(const model::Model& model, EmbedRequest request,
                                   std::function<void(absl::StatusOr<Embedding>)> done,
                                   Counters& counters);

}  // namespace recollect::engine
