#include "http/engine_metrics.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace recollect::http {
namespace {

using engine::EngineStats;

// One number of the engine that is a metric by itself.
struct Number {
  const char* name;
  const char* help;
  int64_t EngineStats::*value;
};

constexpr Number kCounters[] = {
    {"recollect_prompt_tokens_total", "Tokens of prompts that were read to their end.",
     &EngineStats::prompt_tokens},
    {"recollect_cached_prompt_tokens_total",
     "Of those, tokens that an earlier request had read, and that were not read again.",
     &EngineStats::cached_prompt_tokens},
    {"recollect_generated_tokens_total", "Tokens generated.", &EngineStats::generated_tokens},
    {"recollect_ingested_tokens_total", "Tokens of documents read; after a resume, of the rest.",
     &EngineStats::ingested_tokens},
    {"recollect_prefix_mounts_total", "Sessions that began with a prefix.",
     &EngineStats::prefix_mounts},
    {"recollect_prefix_tokens_total", "Tokens of those prefixes, which were not read again.",
     &EngineStats::prefix_tokens},
    {"recollect_steps_total", "Steps of the batch.", &EngineStats::steps},
    {"recollect_indexes_made_total", "Indexes over landmark keys made.",
     &EngineStats::indexes_made},
    {"recollect_store_read_bytes_total", "Bytes of chunk states read from the store.",
     &EngineStats::store_read_bytes},
    {"recollect_data_loss_errors_total", "Damaged records read.", &EngineStats::data_loss_errors},
    {"recollect_staged_chunks_total", "Chunks uploaded while a device ran steps; CPU: 0.",
     &EngineStats::staged_chunks},
    {"recollect_graph_launches_total", "Stages of steps that ran as one graph; CPU: 0.",
     &EngineStats::graph_launches},
};

constexpr Number kGauges[] = {
    {"recollect_sessions", "Open sessions.", &EngineStats::sessions},
    {"recollect_sessions_limit", "The most open sessions; one more is refused.",
     &EngineStats::max_sessions},
    {"recollect_requests_running", "Requests in the batch.", &EngineStats::running_requests},
    {"recollect_requests_queued", "Requests accepted and not begun.",
     &EngineStats::queued_requests},
    {"recollect_requests_queued_limit", "The most requests that wait; one more is refused.",
     &EngineStats::max_queued},
    {"recollect_ingests", "Open streams that write documents.", &EngineStats::ingests},
    {"recollect_ingests_limit", "The most such streams; one more is refused.",
     &EngineStats::max_ingests},
    {"recollect_indexed_documents",
     "Documents searched approximately, of those whose landmark keys are loaded.",
     &EngineStats::indexed_documents},
    {"recollect_store_bytes", "The store, with what is in memory until it is written.",
     &EngineStats::store_bytes},
    {"recollect_store_free_bytes", "Free on the disk of the data directory; 0: unknown.",
     &EngineStats::store_free_bytes},
    {"recollect_device_memory_bytes", "Memory of the device in use; CPU: 0.",
     &EngineStats::device_total_bytes},
    {"recollect_device_memory_free_bytes", "Free memory of that device; CPU: 0.",
     &EngineStats::device_free_bytes},
};

// One family whose metrics differ in one label.
template <typename T>
MetricFamily ByLabel(const char* name, const char* help, MetricType type, const char* label,
                     std::initializer_list<std::pair<const char*, T>> values) {
  MetricFamily family{name, help, type, {}};
  for (const auto& [text, value] : values) {
    if constexpr (std::is_same_v<T, HistogramValues>) {
      family.metrics.push_back({{{label, text}}, 0, value});
    } else {
      family.metrics.push_back({{{label, text}}, static_cast<double>(value), {}});
    }
  }
  return family;
}

MetricFamily Tables(const EngineStats& stats) {
  MetricFamily family{"recollect_store_table_bytes",
                      "Tables on disk by what they hold; none where the store is in memory.",
                      MetricType::kGauge,
                      {}};
  for (const auto& [holds, bytes] : stats.store_table_bytes)
    family.metrics.push_back({{{"family", holds}}, static_cast<double>(bytes), {}});
  return family;
}

}  // namespace

MetricFamilies EngineFamilies(const EngineStats& stats) {
  MetricFamilies families;
  for (const Number& number : kCounters)
    families.push_back(
        MakeCounter(number.name, number.help, static_cast<double>(stats.*number.value)));
  for (const Number& number : kGauges)
    families.push_back(
        MakeGauge(number.name, number.help, static_cast<double>(stats.*number.value)));
  families.push_back(MakeGauge("recollect_store_read_only",
                               "1 after an error of the disk, until a write has succeeded.",
                               stats.store_read_only ? 1 : 0));
  families.push_back(Tables(stats));
  families.push_back(MakeGauge("recollect_store_cache_read_only",
                               "1 after an error of the cache's disk, until the next start.",
                               stats.store_cache_read_only ? 1 : 0));
  families.push_back(
      ByLabel<int64_t>("recollect_store_cache_chunks_total",
                       "Chunks asked of the cache on this disk; a damaged one is a miss, too.",
                       MetricType::kCounter, "result",
                       {{"hit", stats.store_cache_hits},
                        {"miss", stats.store_cache_misses},
                        {"damaged", stats.store_cache_damaged}}));
  families.push_back(ByLabel<int64_t>("recollect_budget_used_bytes",
                                      "What each budget (--landmark-budget and so on) holds.",
                                      MetricType::kGauge, "budget",
                                      {{"landmark", stats.landmark_bytes},
                                       {"memory", stats.memory_bytes},
                                       {"chunk_states", stats.chunk_states_bytes},
                                       {"state", stats.state_bytes},
                                       {"prompt_cache", stats.prompt_cache_bytes},
                                       {"store_cache", stats.store_cache_bytes}}));
  families.push_back(ByLabel<int64_t>("recollect_budget_limit_bytes", "What each budget may hold.",
                                      MetricType::kGauge, "budget",
                                      {{"landmark", stats.landmark_budget_bytes},
                                       {"memory", stats.memory_budget_bytes},
                                       {"chunk_states", stats.chunk_states_budget_bytes},
                                       {"state", stats.state_budget_bytes},
                                       {"prompt_cache", stats.prompt_cache_budget_bytes},
                                       {"store_cache", stats.store_cache_budget_bytes}}));
  families.push_back(ByLabel<int64_t>("recollect_retrieved_chunks_total",
                                      "Retrieved chunks by the tier that they came from.",
                                      MetricType::kCounter, "tier",
                                      {{"memory", stats.chunk_hits_memory},
                                       {"states", stats.chunk_hits_states},
                                       {"store", stats.chunk_hits_store}}));
  families.push_back(MakeHistogram("recollect_time_to_first_token_seconds",
                                   "From the arrival of a request to its first token.",
                                   stats.time_to_first_token_s));
  families.push_back(MakeHistogram("recollect_inter_token_latency_seconds",
                                   "Between two tokens of one answer.", stats.inter_token_s));
  families.push_back(ByLabel<HistogramValues>(
      "recollect_landmark_step_seconds",
      "Steps while decoding that retrieve, by the slowest tier that they read a chunk from.",
      MetricType::kHistogram, "tier",
      {{"memory", stats.landmark_step_memory_s},
       {"states", stats.landmark_step_states_s},
       {"store", stats.landmark_step_store_s}}));
  families.push_back(MakeHistogram("recollect_store_read_seconds",
                                   "Reads of all chunks that a landmark step misses.",
                                   stats.store_read_s));
  return families;
}

}  // namespace recollect::http
