#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/io/paths.h"
#include "base/status.h"
#include "service/codec/codec.h"

namespace recollect::service {
namespace {

// 0 stands for the default of two fields.
engine::Sampling Decode(const v1::Sampling& sampling) {
  engine::Sampling result;
  result.temperature = sampling.temperature();
  if (sampling.top_p() != 0) result.top_p = sampling.top_p();
  result.top_k = sampling.top_k();
  result.seed = sampling.seed();
  result.dry_multiplier = sampling.dry_multiplier();
  if (sampling.dry_allowed_length() != 0) result.dry_allowed_length = sampling.dry_allowed_length();
  return result;
}

// Of a request for an open session or with options for a new one.
template <typename Request>
absl::StatusOr<std::optional<engine::SessionId>> DecodeSessionId(const Request& request) {
  if (request.session_id() == 0) return std::nullopt;
  if (request.has_session()) {
    return absl::InvalidArgumentError(
        "session: set together with session_id; an open session's options are fixed");
  }
  return engine::SessionId{request.session_id()};
}

absl::Status CheckRoles(const v1::Prompt& prompt) {
  for (int i = 0; i < prompt.messages_size(); ++i) {
    const v1::ChatRole role = prompt.messages(i).role();
    if (role >= v1::CHAT_ROLE_SYSTEM && role <= v1::CHAT_ROLE_ASSISTANT) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.messages: message ", i, " has the role ", static_cast<int>(role),
                     ", expected system (1), user (2) or assistant (3)"));
  }
  return absl::OkStatus();
}

v1::FinishReason Encode(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case engine::FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case engine::FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
    case engine::FinishReason::kRepetition:
      return v1::FINISH_REASON_REPETITION;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<engine::GenerateRequest> Decode(const v1::GenerateRequest& request) {
  engine::GenerateRequest result;
  ASSIGN_OR_RETURN(result.session, DecodeSessionId(request));
  result.session_options = Decode(request.session());
  RETURN_IF_ERROR(CheckRoles(request.prompt()));
  result.prompt = Decode(request.prompt());
  result.sampling = Decode(request.sampling());
  if (request.has_max_tokens()) result.max_tokens = request.max_tokens();
  result.stop = {request.stop().begin(), request.stop().end()};
  result.generated = {request.generated().ids().begin(), request.generated().ids().end()};
  result.generated_text = request.generated().text();
  if (request.has_flush()) result.flush = request.flush();
  result.ignore_eos = request.ignore_eos();
  if (request.has_stop_repetition()) result.stop_repetition = request.stop_repetition();
  if (request.has_quotes()) result.quotes = request.quotes();
  result.with_candidates = request.with_candidates();
  result.with_retrievals = request.with_retrievals();
  if (request.has_logprobs()) result.logprobs = request.logprobs();
  if (request.has_save_as()) {
    result.save_as = {.id = request.save_as().document_id(),
                      .replace = request.save_as().replace()};
  }
  return result;
}

absl::StatusOr<engine::ScoreRequest> Decode(const v1::ScoreRequest& request) {
  engine::ScoreRequest result;
  ASSIGN_OR_RETURN(result.session, DecodeSessionId(request));
  result.session_options = Decode(request.session());
  result.prompt = Decode(request.prompt());
  result.flush_after = {request.flush_after().begin(), request.flush_after().end()};
  result.top_logprobs = request.top_logprobs();
  return result;
}

v1::GenerateResponse EncodeDone(engine::FinishReason reason, const engine::Usage& usage) {
  v1::GenerateResponse response;
  response.mutable_done()->set_reason(Encode(reason));
  response.mutable_done()->set_repeats_from(usage.repeats_from);
  v1::Usage& out = *response.mutable_done()->mutable_usage();
  out.set_prompt_tokens(usage.prompt_tokens);
  out.set_generated_tokens(usage.generated_tokens);
  out.set_time_to_first_token_ms(absl::ToDoubleMilliseconds(usage.time_to_first_token));
  out.set_generation_ms(absl::ToDoubleMilliseconds(usage.generation_time));
  out.set_cached_tokens(usage.cached_tokens);
  out.set_dropped_messages(usage.dropped_messages);
  return response;
}

v1::Saved Encode(const absl::StatusOr<store::DocumentInfo>& saved) {
  v1::Saved result;
  if (saved.ok()) {
    *result.mutable_document() = Encode(*saved);
    return result;
  }
  result.set_error_code(absl::StatusCodeToString(saved.status().code()));
  result.set_error(ValidUtf8(WithoutPaths(saved.status().message())));
  return result;
}

v1::TokenLogprobs Encode(const engine::ChosenLogprob& token) {
  v1::TokenLogprobs result;
  result.set_id(token.chosen.token);
  result.set_logprob(token.chosen.logprob);
  for (const engine::TokenLogprob& top : token.top) {
    result.add_top_ids(top.token);
    result.add_top_logprobs(top.logprob);
  }
  return result;
}

v1::Candidates Encode(const engine::JudgedCandidates& judged) {
  v1::Candidates result;
  for (const engine::JudgedCandidates::Candidate& candidate : judged.candidates) {
    v1::Candidate& one = *result.add_candidates();
    one.mutable_ids()->Add(candidate.tokens.begin(), candidate.tokens.end());
    one.set_text(candidate.text);
    one.set_block(candidate.block);
    one.set_logprob(candidate.logprob);
    one.set_reranked(candidate.reranked);
    one.set_score(candidate.score);
  }
  for (const engine::Hit& block : judged.blocks) *result.add_blocks() = Encode(block);
  result.set_nothing(judged.nothing);
  result.set_unneeded(judged.unneeded);
  return result;
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
  response.mutable_argmax_logprobs()->Add(result.argmax_logprobs.begin(),
                                          result.argmax_logprobs.end());
  response.set_text_bytes(result.text_bytes);
  for (const engine::TokenLogprob& top : result.top) {
    response.add_top_ids(top.token);
    response.add_top_logprobs(top.logprob);
  }
  return response;
}

}  // namespace recollect::service
