#include "http/stats.h"

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/process.h"
#include "model/model.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

using json = nlohmann::ordered_json;

// Names of ModelInfo in proto/recollect/v1/admin.proto.
json ToJson(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  json out = {{"architecture", config.architecture},
              {"fingerprint", model.fingerprint()},
              {"dtype", model.dtype() == DType::kBf16 ? "bf16" : "fp32"},
              {"parameters", model.parameters()},
              {"weight_bytes", model.weight_bytes()},
              {"vocab_size", config.vocab_size},
              {"has_tokenizer", model.tokenizer() != nullptr},
              {"width", config.d},
              {"layers", config.layers()},
              {"lower_layers", config.n_low},
              {"groups", config.groups.size()},
              {"retrieved_chunks", config.n_ret},
              {"retrieval_width", config.key_width()}};
  if (config.context > 0) out["context"] = config.context;
  if (config.max_context > 0) out["max_context"] = config.max_context;
  return out;
}

// Names of Stats there, which are those of EngineStats.
json ToJson(const engine::EngineStats& stats) {
  return {{"backend", stats.backend},
          {"landmark_index", stats.landmark_index},
          {"index", stats.index},
          {"indexed_documents", stats.indexed_documents},
          {"indexes_made", stats.indexes_made},
          {"sessions", stats.sessions},
          {"max_sessions", stats.max_sessions},
          {"running_requests", stats.running_requests},
          {"queued_requests", stats.queued_requests},
          {"max_queued", stats.max_queued},
          {"ingests", stats.ingests},
          {"max_ingests", stats.max_ingests},
          {"landmark_bytes", stats.landmark_bytes},
          {"landmark_budget_bytes", stats.landmark_budget_bytes},
          {"memory_bytes", stats.memory_bytes},
          {"memory_budget_bytes", stats.memory_budget_bytes},
          {"chunk_states_bytes", stats.chunk_states_bytes},
          {"chunk_states_budget_bytes", stats.chunk_states_budget_bytes},
          {"state_bytes", stats.state_bytes},
          {"state_budget_bytes", stats.state_budget_bytes},
          {"store_bytes", stats.store_bytes},
          {"store_free_bytes", stats.store_free_bytes},
          {"store_read_only", stats.store_read_only},
          {"device_free_bytes", stats.device_free_bytes},
          {"device_total_bytes", stats.device_total_bytes},
          {"chunk_hits_memory", stats.chunk_hits_memory},
          {"chunk_hits_states", stats.chunk_hits_states},
          {"chunk_hits_store", stats.chunk_hits_store},
          {"store_reads", stats.store_reads},
          {"store_read_bytes", stats.store_read_bytes},
          {"store_read_p50_ms", stats.store_read_p50_ms},
          {"store_read_p99_ms", stats.store_read_p99_ms},
          {"staged_chunks", stats.staged_chunks},
          {"graph_launches", stats.graph_launches},
          {"data_loss_errors", stats.data_loss_errors},
          {"generated_tokens", stats.generated_tokens},
          {"prompt_tokens", stats.prompt_tokens},
          {"ingested_tokens", stats.ingested_tokens},
          {"prefix_mounts", stats.prefix_mounts},
          {"prefix_tokens", stats.prefix_tokens},
          {"steps", stats.steps},
          {"landmark_step_p50_ms", stats.landmark_step_p50_ms},
          {"landmark_step_p99_ms", stats.landmark_step_p99_ms}};
}

}  // namespace

void Stats(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  json out = {{"object", "stats"}};
  const engine::EngineStats stats = runtime.engine.stats();
  out.update(ToJson(stats));
  out["resident_bytes"] = ReadProcess().resident_bytes;
  out["uptime_s"] = absl::ToDoubleSeconds(SteadyNow() - runtime.start);
  out["model"] = {{"name", runtime.options.model_name}};
  if (runtime.options.model != nullptr) out["model"].update(ToJson(*runtime.options.model));
  out["model"]["index"] = stats.index;
  answer->Send(200, "application/json", out.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace recollect::http
