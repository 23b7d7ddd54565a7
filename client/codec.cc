#include "client/codec.h"

#include <algorithm>
#include <limits>
#include <string>

#include "google/protobuf/descriptor.h"

namespace recollect::client {
namespace {

std::string TierName(v1::Tier tier) {
  switch (tier) {
    case v1::TIER_DEVICE:
      return "device";
    case v1::TIER_HOST:
      return "host";
    case v1::TIER_STORE:
      return "store";
    default:
      return "unknown";  // of a newer server
  }
}

std::string KindName(v1::DocumentKind kind) {
  switch (kind) {
    case v1::DOCUMENT_KIND_CHUNKS:
      return "chunks";
    case v1::DOCUMENT_KIND_PREFIX:
      return "prefix";
    default:
      return "unknown";
  }
}

std::string ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_EOS:
      return "eos";
    default:
      return "unknown";
  }
}

void EncodeLayers(const std::vector<std::vector<int64_t>>& layers,
                  google::protobuf::RepeatedPtrField<v1::HeadNumbers>& out) {
  for (const std::vector<int64_t>& heads : layers) {
    out.Add()->mutable_heads()->Add(heads.begin(), heads.end());
  }
}

LocalPattern Decode(const v1::LocalPattern& pattern) {
  return {pattern.window(), pattern.dilation(), pattern.initial(), pattern.span()};
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  // The two enums have the same numbers by definition of both.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

v1::SessionOptions Encode(const SessionOptions& options) {
  v1::SessionOptions message;
  for (const std::string& mount : options.mounts) message.add_mounts(mount);
  if (options.dilation.has_value()) message.set_dilation(*options.dilation);
  if (options.window.has_value()) message.set_window(*options.window);
  if (options.initial.has_value()) message.set_initial(*options.initial);
  if (options.context.has_value()) message.set_context(*options.context);
  message.set_top_k_blocks(options.top_k_blocks);
  EncodeLayers(options.layer_dilations, *message.mutable_layer_dilations());
  EncodeLayers(options.layer_windows, *message.mutable_layer_windows());
  EncodeLayers(options.layer_initials, *message.mutable_layer_initials());
  message.set_random_chunks(options.random_chunks);
  return message;
}

v1::Prompt Encode(const Prompt& prompt) {
  v1::Prompt message;
  message.set_text(prompt.text);
  message.mutable_tokens()->Add(prompt.tokens.begin(), prompt.tokens.end());
  return message;
}

v1::GenerateRequest Encode(const GenerateRequest& request) {
  v1::GenerateRequest message;
  message.set_session_id(request.session_id);
  if (request.session_id == 0) *message.mutable_session() = Encode(request.session);
  *message.mutable_prompt() = Encode(request.prompt);
  message.set_flush(request.flush);
  message.mutable_sampling()->set_temperature(static_cast<float>(request.sampling.temperature));
  // On the wire 0 stands for 1: what rounds to it still means next to nothing.
  const double least = request.sampling.top_p > 0 ? std::numeric_limits<float>::min() : 0;
  message.mutable_sampling()->set_top_p(
      static_cast<float>(std::max(request.sampling.top_p, least)));
  message.mutable_sampling()->set_top_k(request.sampling.top_k);
  message.mutable_sampling()->set_seed(request.sampling.seed);
  message.mutable_sampling()->set_dry_multiplier(
      static_cast<float>(request.sampling.dry_multiplier));
  message.mutable_sampling()->set_dry_allowed_length(request.sampling.dry_allowed_length);
  message.set_max_tokens(request.max_tokens);
  for (const std::string& stop : request.stop) message.add_stop(stop);
  message.set_ignore_eos(request.ignore_eos);
  message.set_with_retrievals(request.with_retrievals);
  return message;
}

v1::RetrieveRequest Encode(const RetrieveRequest& request) {
  v1::RetrieveRequest message;
  *message.mutable_session() = Encode(request.session);
  *message.mutable_query() = Encode(request.query);
  message.set_k(request.k);
  message.set_with_text(request.with_text);
  return message;
}

v1::ScoreRequest Encode(const ScoreRequest& request) {
  v1::ScoreRequest message;
  *message.mutable_session() = Encode(request.session);
  *message.mutable_prompt() = Encode(request.prompt);
  message.mutable_flush_after()->Add(request.flush_after.begin(), request.flush_after.end());
  return message;
}

Document Decode(const v1::Document& message) {
  return {message.id(),
          message.fingerprint(),
          message.from_tokens(),
          message.bytes(),
          message.tokens(),
          message.chunks(),
          message.created_unix_ms(),
          message.stored_bytes(),
          message.sha256(),
          message.damage(),
          KindName(message.kind()),
          message.pattern(),
          message.state_bytes()};
}

UnfinishedIngest Decode(const v1::UnfinishedIngest& message) {
  return {
      message.id(),     message.fingerprint(), message.from_tokens(), message.committed_offset(),
      message.bytes(),  message.tokens(),      message.chunks(),      KindName(message.kind()),
      message.pattern()};
}

IngestProgress Decode(const v1::IngestProgress& message) {
  return {message.committed_offset(), message.accepted_offset(), message.bytes(),
          message.tokens(),           message.chunks(),          message.tokens_per_s(),
          message.committed_sha256()};
}

Retrieval Decode(const v1::Retrieval& message) {
  Retrieval retrieval{message.position(), message.group(), message.candidates(), {}};
  for (const v1::Hit& hit : message.hits()) {
    retrieval.hits.push_back({hit.document(), hit.chunk(), hit.score(), hit.weight(),
                              hit.text_begin(), hit.text_end(), TierName(hit.tier()), hit.text()});
  }
  return retrieval;
}

Session Decode(const v1::Session& message) {
  return {message.id(),
          {message.mounts().begin(), message.mounts().end()},
          message.positions(),
          message.own_chunks()};
}

ScoreResult Decode(const v1::ScoreResponse& message) {
  return {{message.tokens().begin(), message.tokens().end()},
          {message.logprobs().begin(), message.logprobs().end()},
          {message.argmax().begin(), message.argmax().end()},
          message.text_bytes()};
}

ModelInfo Decode(const v1::ModelInfo& message) {
  ModelInfo info;
  info.name = message.name();
  info.architecture = message.architecture();
  info.fingerprint = message.fingerprint();
  info.dtype = message.dtype();
  info.parameters = message.parameters();
  info.weight_bytes = message.weight_bytes();
  info.vocab_size = message.vocab_size();
  info.has_tokenizer = message.has_tokenizer();
  info.width = message.width();
  info.layers = message.layers();
  info.lower_layers = message.lower_layers();
  info.groups = message.groups();
  info.retrieved_chunks = message.retrieved_chunks();
  info.retrieval_width = message.retrieval_width();
  if (message.has_local()) info.local = Decode(message.local());
  for (const v1::LayerPattern& layer : message.layer_patterns()) {
    std::vector<LocalPattern>& heads = info.layer_patterns.emplace_back();
    for (const v1::LocalPattern& pattern : layer.heads()) heads.push_back(Decode(pattern));
  }
  if (message.has_windows()) info.windows = {message.windows().min(), message.windows().max()};
  if (message.has_initials()) info.initials = {message.initials().min(), message.initials().max()};
  info.context = message.context();
  info.max_context = message.max_context();
  if (message.has_top_k()) {
    info.top_k = {message.top_k().block(), message.top_k().max(), message.top_k().score()};
  }
  info.dilations = {message.dilations().begin(), message.dilations().end()};
  return info;
}

// By reflection: the numbers only pass through to people and JSON, under the names the proto gives
// them.
Stats Decode(const v1::Stats& message) {
  Stats stats;
  const auto* descriptor = v1::Stats::descriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64) {
      stats.counters[field->name()] = reflection->GetInt64(message, field);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
      stats.gauges[field->name()] = reflection->GetDouble(message, field);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      stats.names[field->name()] = reflection->GetString(message, field);
    }
  }
  for (const v1::RpcStats& rpc : message.rpcs()) {
    RpcStats out{rpc.method(), rpc.started(), rpc.running(), {}, rpc.total_ms(), rpc.max_ms()};
    for (const v1::CodeCount& entry : rpc.codes()) out.codes[entry.code()] = entry.count();
    stats.rpcs.push_back(out);
  }
  return stats;
}

void DecodeDone(const v1::GenerateDone& message, GenerateResult* result) {
  result->finish_reason = ReasonName(message.reason());
  const v1::Usage& usage = message.usage();
  result->usage = {usage.prompt_tokens(), usage.generated_tokens(), usage.time_to_first_token_ms(),
                   usage.generation_ms()};
}

}  // namespace recollect::client
