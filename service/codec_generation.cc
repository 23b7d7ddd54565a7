#include <cstdint>
#include <utility>

#include "base/status.h"
#include "service/codec.h"
#include "service/limits.h"

namespace recollect::service {
namespace {

absl::StatusOr<engine::Sampling> DecodeSampling(const v1::Sampling& sampling) {
  RETURN_IF_ERROR(
      CheckRange<double>("sampling.temperature", sampling.temperature(), 0, kMaxTemperature));
  RETURN_IF_ERROR(CheckRange<double>("sampling.top_p", sampling.top_p(), 0, 1));
  RETURN_IF_ERROR(CheckRange<int64_t>("sampling.top_k", sampling.top_k(), 0, kMaxTopK));
  RETURN_IF_ERROR(CheckRange<double>("sampling.dry_multiplier", sampling.dry_multiplier(), 0,
                                     kMaxDryMultiplier));
  RETURN_IF_ERROR(CheckRange<int64_t>("sampling.dry_allowed_length", sampling.dry_allowed_length(),
                                      0, kMaxDryAllowedLength));
  engine::Sampling result;
  result.temperature = sampling.temperature();
  result.top_p = sampling.top_p() == 0 ? 1 : sampling.top_p();
  result.top_k = sampling.top_k();
  result.seed = sampling.seed();
  result.dry_multiplier = sampling.dry_multiplier();
  result.dry_allowed_length =
      sampling.dry_allowed_length() == 0 ? kDefaultDryAllowedLength : sampling.dry_allowed_length();
  return result;
}

v1::FinishReason Encode(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case engine::FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case engine::FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<engine::GenerateRequest> DecodeGenerate(const v1::GenerateRequest& request) {
  engine::GenerateRequest result;
  if (request.session_id() != 0) {
    if (request.has_session()) {
      return absl::InvalidArgumentError(
          "session: set together with session_id; an open session's options are fixed");
    }
    result.session = engine::SessionId{request.session_id()};
  }
  ASSIGN_OR_RETURN(result.session_options, DecodeSessionOptions(request.session()));
  ASSIGN_OR_RETURN(result.prompt, DecodePrompt(request.prompt(), "prompt", kMaxPromptTokens));
  ASSIGN_OR_RETURN(result.sampling, DecodeSampling(request.sampling()));
  RETURN_IF_ERROR(CheckRange<int64_t>("max_tokens", request.max_tokens(), 0, kMaxMaxTokens));
  result.max_tokens = request.has_max_tokens() ? request.max_tokens() : kDefaultMaxTokens;
  RETURN_IF_ERROR(CheckRange<int64_t>("stop: count", request.stop_size(), 0, kMaxStops));
  for (const std::string& stop : request.stop()) {
    RETURN_IF_ERROR(CheckRange<int64_t>("stop: bytes", stop.size(), 1, kMaxStopBytes));
    result.stop.push_back(stop);
  }
  result.flush = request.has_flush() ? request.flush() : true;
  result.ignore_eos = request.ignore_eos();
  result.with_retrievals = request.with_retrievals();
  return result;
}

absl::StatusOr<engine::ScoreRequest> DecodeScore(const v1::ScoreRequest& request) {
  engine::ScoreRequest result;
  ASSIGN_OR_RETURN(result.session_options, DecodeSessionOptions(request.session()));
  ASSIGN_OR_RETURN(result.prompt, DecodePrompt(request.prompt(), "prompt", kMaxScoreTokens));
  if (result.prompt.text.empty() && result.prompt.tokens.empty()) {
    return absl::InvalidArgumentError("prompt: empty, needs text or tokens");
  }
  RETURN_IF_ERROR(
      CheckRange<int64_t>("flush_after: count", request.flush_after_size(), 0, kMaxScoreFlushes));
  int64_t previous = 0;
  for (const int64_t after : request.flush_after()) {
    if (after <= previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("flush_after: ", after, " after ", previous, ", must be ascending from 1"));
    }
    previous = after;
    result.flush_after.push_back(after);
  }
  return result;
}

v1::GenerateResponse EncodeDone(engine::FinishReason reason, const engine::Usage& usage) {
  v1::GenerateResponse response;
  response.mutable_done()->set_reason(Encode(reason));
  v1::Usage& out = *response.mutable_done()->mutable_usage();
  out.set_prompt_tokens(usage.prompt_tokens);
  out.set_generated_tokens(usage.generated_tokens);
  out.set_time_to_first_token_ms(absl::ToDoubleMilliseconds(usage.time_to_first_token));
  out.set_generation_ms(absl::ToDoubleMilliseconds(usage.generation_time));
  return response;
}

v1::Session Encode(const engine::SessionInfo& info) {
  v1::Session session;
  session.set_id(static_cast<uint64_t>(info.id));
  for (const std::string& mount : info.mounts) session.add_mounts(mount);
  session.set_positions(info.positions);
  session.set_own_chunks(info.own_chunks);
  return session;
}

v1::ScoreResponse Encode(const engine::ScoreResult& result) {
  v1::ScoreResponse response;
  response.mutable_tokens()->Add(result.tokens.begin(), result.tokens.end());
  response.mutable_logprobs()->Add(result.logprobs.begin(), result.logprobs.end());
  response.mutable_argmax()->Add(result.argmax.begin(), result.argmax.end());
  response.set_text_bytes(result.text_bytes);
  return response;
}

}  // namespace recollect::service
