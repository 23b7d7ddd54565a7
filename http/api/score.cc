#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "http/api/fields.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "http/net/errors.h"
#include "http/net/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

absl::StatusOr<engine::ScoreRequest> DecodeScore(const Request& request,
                                                 const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(request.body));
  engine::ScoreRequest result;
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakePrompt(object, "prompt", result.prompt));
  RETURN_IF_ERROR(TakeSession(object, request.caller, result.session_options));
  RETURN_IF_ERROR(Take(object, "flush_after", "an array of integers", result.flush_after));
  RETURN_IF_ERROR(Take(object, "top_logprobs", "an integer", result.top_logprobs));
  RETURN_IF_ERROR(RefuseRest(object));
  result.account = request.caller.account();
  return result;
}

// The fields of `recollect score --json`.
json EncodeScore(const engine::ScoreResult& result) {
  const double total = std::accumulate(result.logprobs.begin(), result.logprobs.end(), 0.0);
  // Where nothing precedes the first token, it has no probability.
  const auto scored =
      std::count_if(result.argmax.begin(), result.argmax.end(), [](int32_t id) { return id >= 0; });
  const double bytes = std::max<double>(1, static_cast<double>(result.text_bytes));
  json score = {{"object", "score"},
                {"tokens", result.tokens},
                {"logprobs", result.logprobs},
                {"argmax", result.argmax},
                {"argmax_logprobs", result.argmax_logprobs},
                {"text_bytes", result.text_bytes},
                {"total_logprob", total},
                {"nats_per_token", -total / std::max<double>(1, static_cast<double>(scored))},
                {"bits_per_byte", -total / std::log(2.0) / bytes}};
  if (result.top.empty()) return score;
  json &ids = score["top_ids"], &logprobs = score["top_logprobs"];
  for (const engine::TokenLogprob& top : result.top) {
    ids.push_back(top.token);
    logprobs.push_back(top.logprob);
  }
  return score;
}

}  // namespace

absl::Status Score(Runtime& runtime, const Request& request,
                   const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(engine::ScoreRequest decoded, DecodeScore(request, runtime.options));
  const auto work = std::make_shared<Runtime::Work>(runtime);
  const auto handle = runtime.engine.Score(
      std::move(decoded), [&runtime, work, answer](absl::StatusOr<engine::ScoreResult> result) {
        if (!result.ok()) return SendError(*answer, result.status());
        // Writing megabytes of numbers would hold the engine's thread up.
        runtime.Continue([work, answer, result = *std::move(result)] {
          SendJson(*answer, EncodeScore(result));
        });
      });
  answer->OnGone([handle] { handle->Cancel(); });
  return absl::OkStatus();
}

}  // namespace recollect::http
