#include "service/codec.h"

namespace recollect::service {

v1::ModelInfo Encode(const model::Model& model, const std::string& name) {
  const model::ModelConfig& config = model.config();
  v1::ModelInfo info;
  info.set_name(name);
  info.set_architecture(config.architecture);
  info.set_fingerprint(model.fingerprint());
  info.set_dtype(model.dtype() == DType::kBf16 ? "bf16" : "fp32");
  info.set_parameters(model.parameters());
  info.set_weight_bytes(model.weight_bytes());
  info.set_vocab_size(config.vocab_size);
  info.set_has_tokenizer(model.tokenizer() != nullptr);
  info.set_width(config.d);
  info.set_layers(config.layers());
  info.set_lower_layers(config.n_low);
  info.set_groups(static_cast<int>(config.groups.size()));
  info.set_retrieved_chunks(config.n_ret);
  info.set_retrieval_width(config.d_r);
  info.mutable_local()->set_window(config.local.window);
  info.mutable_local()->set_dilation(config.local.dilation);
  info.mutable_local()->set_initial(config.local.initial);
  info.mutable_local()->set_span(config.local.span);
  bool has_default = false;
  for (const int64_t dilation : config.adapted_dilations) {
    info.add_dilations(dilation);
    has_default |= dilation == config.local.dilation;
  }
  if (!has_default) info.add_dilations(config.local.dilation);
  return info;
}

v1::Stats Encode(const engine::EngineStats& stats) {
  v1::Stats out;
  out.set_sessions(stats.sessions);
  out.set_queued_requests(stats.queued_requests);
  out.set_running_requests(stats.running_requests);
  out.set_landmark_bytes(stats.landmark_bytes);
  out.set_landmark_budget_bytes(stats.landmark_budget_bytes);
  out.set_memory_bytes(stats.memory_bytes);
  out.set_memory_budget_bytes(stats.memory_budget_bytes);
  out.set_host_bytes(stats.host_bytes);
  out.set_host_budget_bytes(stats.host_budget_bytes);
  out.set_store_bytes(stats.store_bytes);
  out.set_chunk_hits_device(stats.chunk_hits_device);
  out.set_chunk_hits_host(stats.chunk_hits_host);
  out.set_chunk_hits_store(stats.chunk_hits_store);
  out.set_data_loss_errors(stats.data_loss_errors);
  out.set_generated_tokens(stats.generated_tokens);
  out.set_prompt_tokens(stats.prompt_tokens);
  out.set_ingested_tokens(stats.ingested_tokens);
  out.set_steps(stats.steps);
  out.set_landmark_step_p50_ms(stats.landmark_step_p50_ms);
  out.set_landmark_step_p99_ms(stats.landmark_step_p99_ms);
  return out;
}

v1::RpcStats Encode(const std::string& method, const MethodMetrics& metrics) {
  v1::RpcStats out;
  out.set_method(method);
  out.set_started(metrics.started);
  out.set_running(metrics.running);
  for (const auto& [code, count] : metrics.codes) {
    v1::CodeCount& entry = *out.add_codes();
    entry.set_code(absl::StatusCodeToString(code));
    entry.set_count(count);
  }
  out.set_total_ms(absl::ToDoubleMilliseconds(metrics.total));
  out.set_max_ms(absl::ToDoubleMilliseconds(metrics.max));
  return out;
}

}  // namespace recollect::service
