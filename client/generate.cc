// A generation, which goes on at another replica when its own is gone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/answer.h"
#include "client/patience.h"
#include "client/state.h"

namespace recollect::client {

namespace {

// Cancels a call once a flag is set, until it is destroyed.
class CancelWatch {
 public:
  CancelWatch(const std::atomic<bool>* flag, grpc::ClientContext& context,
              std::atomic<bool>& cancelled) {
    if (flag == nullptr) return;
    thread_ = std::jthread([flag, &context, &cancelled](const std::stop_token& stop) {
      while (!stop.stop_requested() && !flag->load()) std::this_thread::sleep_for(kCancelPeriod);
      if (!flag->load()) return;
      cancelled = true;
      context.TryCancel();
    });
  }

 private:
  static constexpr std::chrono::milliseconds kCancelPeriod{20};
  std::jthread thread_;
};

}  // namespace

absl::Status Answer::Ask(v1::Generation::Stub& stub, uint64_t session_id,
                         const ClientOptions& options, absl::Time begun) {
  v1::GenerateRequest request = request_;
  // They come before their token: the last one's may have been lost.
  while (std::ssize(result_.logprobs) > tokens()) result_.logprobs.RemoveLast();
  if (session_id != 0) request.set_session_id(session_id);
  grpc::ClientContext context;
  SetKeyAndDeadline(options, &context, begun);
  const CancelWatch watch(callbacks_.cancel, context, cancelled_);
  const auto stream = stub.Generate(&context, request);
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
    has_events_ = true;
    if (response.has_tokens()) {
      TakeTokens(response.tokens(), context);
    } else if (response.has_retrieval()) {
      TakeRetrieval(std::move(*response.mutable_retrieval()));
    } else if (response.has_logprobs()) {
      *result_.logprobs.Add() = std::move(*response.mutable_logprobs());
    } else if (response.has_done()) {
      TakeDone(response.done());
    }
  }
  absl::Status status = FromGrpc(stream->Finish());
  peer_ = Shown(context.peer());
  return status;
}

void Answer::TakeTokens(const v1::GeneratedTokens& tokens, grpc::ClientContext& context) {
  const std::vector<int32_t> ids(tokens.ids().begin(), tokens.ids().end());
  result_.tokens.insert(result_.tokens.end(), ids.begin(), ids.end());
  result_.text += tokens.text();
  request_.mutable_generated()->mutable_ids()->Add(ids.begin(), ids.end());
  request_.mutable_generated()->mutable_text()->append(tokens.text());
  if (callbacks_.on_tokens != nullptr && !callbacks_.on_tokens(ids, tokens.text())) {
    cancelled_ = true;
    context.TryCancel();
  }
}

void Answer::TakeRetrieval(v1::Retrieval retrieval) {
  // Another server retrieves once more for the landmarks of what it reads.
  const std::pair<int64_t, int32_t> here(retrieval.position(), retrieval.group());
  if (here <= last_retrieval_) return;
  last_retrieval_ = here;
  if (callbacks_.on_retrieval != nullptr) callbacks_.on_retrieval(retrieval);
  *result_.retrievals.Add() = std::move(retrieval);
}

// What the answer only repeated was streamed, but is no part of it.
void Answer::TakeDone(const v1::GenerateDone& done) {
  result_.done = done;
  if (done.repeats_from() <= 0) return;
  const auto kept = static_cast<size_t>(std::max(int64_t{0}, done.repeats_from() - known_bytes_));
  result_.text.resize(std::min(result_.text.size(), kept));
}

std::string GoesOn(const std::string& from, const absl::Status& why, int64_t tokens) {
  return absl::StrCat("the server ", from.empty() ? "" : absl::StrCat("at ", from, " "),
                      "is gone (", why.message(), "); after ", tokens,
                      tokens == 1 ? " token" : " tokens", " the answer goes on at another");
}

absl::StatusOr<GenerateResult> Client::Generate(const v1::GenerateRequest& request,
                                                const GenerateCallbacks& callbacks) {
  if (request.session_id() != 0 && state_->sessions != nullptr)
    return state_->sessions->Generate(request, callbacks);
  Answer answer(request, callbacks);
  const absl::Time begun = absl::Now();
  absl::Status status = answer.Ask(*state_->generation, 0, state_->options, begun);
  if (state_->replicas != nullptr) {
    Patience patience(state_->replicas->patience());
    for (int64_t tokens = 0; absl::IsUnavailable(status) && !answer.cancelled();) {
      if (answer.tokens() > tokens) patience.Renew();
      tokens = answer.tokens();
      const bool first = patience.fresh();
      if (!patience.Wait()) return NoneLeft(state_->replicas->servers(), status);
      if (first) state_->replicas->Report(GoesOn(answer.peer(), status, tokens));
      status = answer.Ask(*state_->generation, 0, state_->options, begun);
    }
  }
  RETURN_IF_ERROR(status);
  return answer.Take();
}

}  // namespace recollect::client
