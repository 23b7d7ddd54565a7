// The fields of EngineStats that are one number or text, each with its name in Admin.GetStats and
// GET /v1/stats, in the order in which the latter gives them. Histograms and tables of the store
// are left out: only GET /metrics has them.
#ifndef RECOLLECT_ENGINE_STATS_FIELDS_H_
#define RECOLLECT_ENGINE_STATS_FIELDS_H_

#include "engine/types.h"

namespace recollect::engine {

// Calls visit(name, value) for each; values are const std::string&, bool, int64_t and double.
template <typename Visitor>
void VisitFields(const EngineStats& stats, const Visitor& visit) {
  visit("backend", stats.backend);
  visit("landmark_index", stats.landmark_index);
  visit("index", stats.index);
  visit("indexed_documents", stats.indexed_documents);
  visit("indexes_made", stats.indexes_made);
  visit("sessions", stats.sessions);
  visit("max_sessions", stats.max_sessions);
  visit("running_requests", stats.running_requests);
  visit("queued_requests", stats.queued_requests);
  visit("max_queued", stats.max_queued);
  visit("ingests", stats.ingests);
  visit("max_ingests", stats.max_ingests);
  visit("landmark_bytes", stats.landmark_bytes);
  visit("landmark_budget_bytes", stats.landmark_budget_bytes);
  visit("landmark_sketch_chunks", stats.landmark_sketch_chunks);
  visit("landmark_sketch_key_bytes", stats.landmark_sketch_key_bytes);
  visit("memory_bytes", stats.memory_bytes);
  visit("memory_budget_bytes", stats.memory_budget_bytes);
  visit("chunk_states_bytes", stats.chunk_states_bytes);
  visit("chunk_states_budget_bytes", stats.chunk_states_budget_bytes);
  visit("chunk_states_format", stats.chunk_states_format);
  visit("state_bytes", stats.state_bytes);
  visit("state_budget_bytes", stats.state_budget_bytes);
  visit("cached_prompts", stats.cached_prompts);
  visit("prompt_cache_bytes", stats.prompt_cache_bytes);
  visit("prompt_cache_budget_bytes", stats.prompt_cache_budget_bytes);
  visit("store_bytes", stats.store_bytes);
  visit("store_free_bytes", stats.store_free_bytes);
  visit("store_read_only", stats.store_read_only);
  visit("store_cache_bytes", stats.store_cache_bytes);
  visit("store_cache_budget_bytes", stats.store_cache_budget_bytes);
  visit("store_cache_hits", stats.store_cache_hits);
  visit("store_cache_misses", stats.store_cache_misses);
  visit("store_cache_damaged", stats.store_cache_damaged);
  visit("store_cache_read_only", stats.store_cache_read_only);
  visit("device_free_bytes", stats.device_free_bytes);
  visit("device_total_bytes", stats.device_total_bytes);
  visit("chunk_hits_memory", stats.chunk_hits_memory);
  visit("chunk_hits_states", stats.chunk_hits_states);
  visit("chunk_hits_store", stats.chunk_hits_store);
  visit("store_reads", stats.store_reads);
  visit("store_read_bytes", stats.store_read_bytes);
  visit("store_read_p50_ms", stats.store_read_p50_ms);
  visit("store_read_p99_ms", stats.store_read_p99_ms);
  visit("staged_chunks", stats.staged_chunks);
  visit("graph_launches", stats.graph_launches);
  visit("data_loss_errors", stats.data_loss_errors);
  visit("generated_tokens", stats.generated_tokens);
  visit("prompt_tokens", stats.prompt_tokens);
  visit("cached_prompt_tokens", stats.cached_prompt_tokens);
  visit("ingested_tokens", stats.ingested_tokens);
  visit("prefix_mounts", stats.prefix_mounts);
  visit("prefix_tokens", stats.prefix_tokens);
  visit("steps", stats.steps);
  visit("landmark_step_p50_ms", stats.landmark_step_p50_ms);
  visit("landmark_step_p99_ms", stats.landmark_step_p99_ms);
}

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STATS_FIELDS_H_
