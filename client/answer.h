// A generation that may take several calls: what has been received, and the request for the rest.
// Internal to the library.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "recollect/v1/generation.grpc.pb.h"

namespace recollect::client {

// Used by one thread.
class Answer {
 public:
  // `request` may contain `generated` tokens from its caller.
  Answer(v1::GenerateRequest request, const GenerateCallbacks& callbacks)
      : request_(std::move(request)),
        callbacks_(callbacks),
        known_bytes_(std::ssize(request_.generated().text())) {}

  // Makes one call for the rest of the answer, in the session `session_id` (0: none), and drops
  // events that were received before. OK: the answer is complete. `begun`: when the first call
  // began, for the deadline.
  absl::Status Ask(v1::Generation::Stub& stub, uint64_t session_id, const ClientOptions& options,
                   absl::Time begun);

  int64_t tokens() const { return std::ssize(result_.tokens); }
  bool cancelled() const { return cancelled_; }      // by the caller
  bool has_events() const { return has_events_; }    // any was received
  const std::string& peer() const { return peer_; }  // of the last call; empty: none was reached
  const v1::GenerateRequest& request() const { return request_; }  // with all received tokens
  GenerateResult&& Take() { return std::move(result_); }

 private:
  void TakeTokens(const v1::GeneratedTokens& tokens, grpc::ClientContext& context);
  void TakeRetrieval(v1::Retrieval retrieval);
  void TakeDone(const v1::GenerateDone& done);

  v1::GenerateRequest request_;
  const GenerateCallbacks& callbacks_;
  const int64_t known_bytes_;  // of the answer, which the caller has
  GenerateResult result_;
  std::pair<int64_t, int32_t> last_retrieval_{-1, -1};  // position, group: they ascend
  bool has_events_ = false;
  std::atomic<bool> cancelled_{false};
  std::string peer_;
};

// Returns the message that a generation goes on at another server after `tokens` tokens. `from`,
// the address of the server that failed, may be empty.
std::string GoesOn(const std::string& from, const absl::Status& why, int64_t tokens);

}  // namespace recollect::client
