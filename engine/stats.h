// The engine's statistics: the numbers, and one table of what each is. Admin.GetStats, GET
// /v1/stats, its description and GET /metrics are loops over the table, and
// tools/check_statistics.py keeps the proto and docs/metrics.md in step with it. A new number is a
// member and a row.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/numeric/histogram.h"

namespace recollect::engine {

// A number that only grows. Thread-safe; a copy has the number of its moment.
class Count {
 public:
  Count() = default;
  Count(const Count& other) : number_(other) {}
  Count& operator=(const Count& other) { return *this = int64_t{other}; }
  Count& operator=(int64_t number) {
    number_ = number;
    return *this;
  }
  operator int64_t() const { return number_; }
  void operator++() { ++number_; }
  void operator+=(int64_t more) { number_ += more; }

 private:
  std::atomic<int64_t> number_{0};
};

// Counted by the engine itself (engine/counters.h).
struct Counts {
  Count chunk_hits_memory, chunk_hits_states, chunk_hits_store;
  Count store_reads, store_read_bytes, staged_chunks;
  Count data_loss_errors;
  Count generated_tokens, prompt_tokens, cached_prompt_tokens, ingested_tokens;
  Count prefix_mounts, prefix_tokens;
  Count steps, indexes_made;
};

// A snapshot; kStatistics says what each is. A member's type says its kind: a Count is a counter
// since the start, a plain number or a bool is current.
struct EngineStats : Counts {
  std::string backend, landmark_index, index, chunk_states_format;
  int64_t sessions = 0, max_sessions = 0;
  int64_t running_requests = 0, queued_requests = 0, max_queued = 0;
  int64_t ingests = 0, max_ingests = 0;
  int64_t indexed_documents = 0;
  int64_t landmark_bytes = 0, landmark_budget_bytes = 0;
  int64_t landmark_sketch_chunks = 0, landmark_sketch_key_bytes = 0;
  int64_t memory_bytes = 0, memory_budget_bytes = 0;
  int64_t chunk_states_bytes = 0, chunk_states_budget_bytes = 0;
  int64_t state_bytes = 0, state_budget_bytes = 0;
  int64_t cached_prompts = 0, prompt_cache_bytes = 0, prompt_cache_budget_bytes = 0;
  int64_t store_bytes = 0, store_free_bytes = 0;
  int64_t store_cache_bytes = 0, store_cache_budget_bytes = 0;
  bool store_read_only = false, store_cache_read_only = false;
  Count store_cache_hits, store_cache_misses, store_cache_damaged;
  int64_t device_free_bytes = 0, device_total_bytes = 0;
  Count graph_launches;
  double store_read_p50_ms = 0, store_read_p99_ms = 0;
  double landmark_step_p50_ms = 0, landmark_step_p99_ms = 0;
  HistogramValues time_to_first_token_s, inter_token_s, store_read_s;
  HistogramValues landmark_step_memory_s, landmark_step_states_s, landmark_step_store_s;
  // Bytes in tables, by kind of record, without unwritten data; empty: the store is in memory. Only
  // GET /metrics has them.
  std::vector<std::pair<std::string, int64_t>> store_table_bytes;
};

// A row of the table. The unit is the end of its name: _bytes, _ms, _s; others count things.
struct Statistic {
  using Member =
      std::variant<std::string EngineStats::*, bool EngineStats::*, int64_t EngineStats::*,
                   double EngineStats::*, Count EngineStats::*, HistogramValues EngineStats::*>;

  const char* name;  // in Admin.GetStats and GET /v1/stats, which leave histograms out
  Member member;
  const char* help;              // in GET /openapi.json and, without a label, in GET /metrics
  const char* metric = nullptr;  // in GET /metrics; null: it has none
  const char* label = nullptr;   // the value of the label of kLabels; null: it has none
};

// A member's name and the member, so that they cannot differ.
#define NAMED(member) #member, &EngineStats::member

// In the order of GET /v1/stats.
inline constexpr Statistic kStatistics[] = {
    {NAMED(backend), "What runs the layers: \"cpu\" or a device, \"cuda:0 NVIDIA H200\"."},
    {NAMED(landmark_index), "What holds landmark keys, in the same form."},
    {NAMED(index),
     "How landmark keys of documents are searched: \"exact\", \"ivf\" or \"auto\" (serve --index). "
     "With the last two, documents that are large enough are searched approximately once their "
     "index is made."},
    {NAMED(indexed_documents),
     "Documents that are searched approximately, of those whose landmark keys are loaded.",
     "recollect_indexed_documents"},
    {NAMED(indexes_made), "Indexes over landmark keys made since the start.",
     "recollect_indexes_made_total"},
    {NAMED(sessions), "Open sessions (OpenSession of the gRPC API).", "recollect_sessions"},
    {NAMED(max_sessions), "The most open sessions; one more is refused.",
     "recollect_sessions_limit"},
    {NAMED(running_requests), "Requests in the batch.", "recollect_requests_running"},
    {NAMED(queued_requests), "Requests accepted and not begun.", "recollect_requests_queued"},
    {NAMED(max_queued), "The most requests that wait; one more is refused.",
     "recollect_requests_queued_limit"},
    {NAMED(ingests), "Open streams that write documents.", "recollect_ingests"},
    {NAMED(max_ingests), "The most streams that write documents; one more is refused.",
     "recollect_ingests_limit"},
    {NAMED(landmark_bytes), "Landmark keys of mounted documents.", "recollect_budget_used_bytes",
     "landmark"},
    {NAMED(landmark_budget_bytes), "A mount beyond it is refused.", "recollect_budget_limit_bytes",
     "landmark"},
    {NAMED(landmark_sketch_chunks), "Documents of at least so many have sketches; 0: none has."},
    {NAMED(landmark_sketch_key_bytes),
     "Of landmark_budget_bytes, for each landmark key of these documents."},
    {NAMED(memory_bytes), "Memory K, V of hot chunks.", "recollect_budget_used_bytes", "memory"},
    {NAMED(memory_budget_bytes), "Beyond it the least recently used are evicted first.",
     "recollect_budget_limit_bytes", "memory"},
    {NAMED(chunk_states_bytes), "Chunk states in RAM.", "recollect_budget_used_bytes",
     "chunk_states"},
    {NAMED(chunk_states_budget_bytes), "Beyond it the least recently used are evicted first.",
     "recollect_budget_limit_bytes", "chunk_states"},
    {NAMED(chunk_states_format),
     "The format in which an ingest stores them: \"mxint8\" or \"bf16\"."},
    {NAMED(state_bytes), "Local states of sessions and of ingests of prefixes.",
     "recollect_budget_used_bytes", "state"},
    {NAMED(state_budget_bytes), "A step or mount that would exceed it is refused.",
     "recollect_budget_limit_bytes", "state"},
    {NAMED(cached_prompts),
     "The states of ended calls that are kept for prompts that begin alike; state_bytes counts "
     "them, too."},
    {NAMED(prompt_cache_bytes), "The size of these states.", "recollect_budget_used_bytes",
     "prompt_cache"},
    {NAMED(prompt_cache_budget_bytes), "The least recently used are dropped beyond it.",
     "recollect_budget_limit_bytes", "prompt_cache"},
    {NAMED(store_bytes), "The store, with what is in memory until it is written.",
     "recollect_store_bytes"},
    {NAMED(store_free_bytes), "What is free of the disk under the data directory; 0: unknown.",
     "recollect_store_free_bytes"},
    {NAMED(store_read_only),
     "The store takes no writes: after an error of the disk, until a write has succeeded.",
     "recollect_store_read_only"},
    {NAMED(store_cache_bytes),
     "The size of the cache on the server's disk in front of a store that servers share.",
     "recollect_budget_used_bytes", "store_cache"},
    {NAMED(store_cache_budget_bytes), "The most that the cache may take; 0: there is none.",
     "recollect_budget_limit_bytes", "store_cache"},
    {NAMED(store_cache_hits), "Chunks that were in the cache.",
     "recollect_store_cache_chunks_total", "hit"},
    {NAMED(store_cache_misses), "Chunks that were not.", "recollect_store_cache_chunks_total",
     "miss"},
    {NAMED(store_cache_damaged), "Chunks damaged in the cache; these are misses, too.",
     "recollect_store_cache_chunks_total", "damaged"},
    {NAMED(store_cache_read_only),
     "The cache takes nothing new: until a restart after a disk error, and while it is nearly "
     "full.",
     "recollect_store_cache_read_only"},
    {NAMED(device_free_bytes), "What is free of the device's memory; 0 on the CPU.",
     "recollect_device_memory_free_bytes"},
    {NAMED(device_total_bytes), "The device's memory; 0 on the CPU.",
     "recollect_device_memory_bytes"},
    {NAMED(chunk_hits_memory), "Retrieved chunks whose memory K, V were ready.",
     "recollect_retrieved_chunks_total", "memory"},
    {NAMED(chunk_hits_states), "Retrieved chunks from chunk states in RAM.",
     "recollect_retrieved_chunks_total", "states"},
    {NAMED(chunk_hits_store), "Retrieved chunks from disk.", "recollect_retrieved_chunks_total",
     "store"},
    {NAMED(store_reads),
     "Reads of retrieved chunks that were not on the device. One read fetches all chunks that a "
     "landmark step misses."},
    {NAMED(store_read_bytes), "Bytes of chunk states read from the store.",
     "recollect_store_read_bytes_total"},
    {NAMED(store_read_p50_ms), "Of the last 1024 reads; 0 if there was none."},
    {NAMED(store_read_p99_ms), "Of the last 1024 reads; 0 if there was none."},
    {NAMED(staged_chunks), "Chunks uploaded while the device runs steps; 0 on the CPU.",
     "recollect_staged_chunks_total"},
    {NAMED(graph_launches), "Stages of steps that ran as one graph; 0 on the CPU.",
     "recollect_graph_launches_total"},
    {NAMED(data_loss_errors), "Damaged records that were read.",
     "recollect_data_loss_errors_total"},
    {NAMED(generated_tokens), "Tokens of all answers.", "recollect_generated_tokens_total"},
    {NAMED(prompt_tokens), "Tokens of all prompts read to their end.",
     "recollect_prompt_tokens_total"},
    {NAMED(cached_prompt_tokens),
     "Of prompt_tokens, those that an earlier request had read and that were not read again.",
     "recollect_cached_prompt_tokens_total"},
    {NAMED(ingested_tokens), "Tokens of all documents; after a resume, only the rest.",
     "recollect_ingested_tokens_total"},
    {NAMED(prefix_mounts), "Sessions that began with a prefix.", "recollect_prefix_mounts_total"},
    {NAMED(prefix_tokens), "Tokens of those prefixes; only the last one of each was run again.",
     "recollect_prefix_tokens_total"},
    {NAMED(steps), "Steps of the batch.", "recollect_steps_total"},
    {NAMED(landmark_step_p50_ms),
     "The time of the last 1024 landmark steps while decoding, retrieval included; landmark steps "
     "at the end of a prompt do not count. 0 if there was none."},
    {NAMED(landmark_step_p99_ms), "The same of 99 in 100."},
    {NAMED(time_to_first_token_s), "From the arrival of a request to its first token.",
     "recollect_time_to_first_token_seconds"},
    {NAMED(inter_token_s), "Between two tokens of one answer.",
     "recollect_inter_token_latency_seconds"},
    {NAMED(landmark_step_memory_s),
     "Landmark steps while decoding whose chunks all had their memory K, V ready.",
     "recollect_landmark_step_seconds", "memory"},
    {NAMED(landmark_step_states_s), "Those that projected chunk states in RAM.",
     "recollect_landmark_step_seconds", "states"},
    {NAMED(landmark_step_store_s), "Those that read the store.", "recollect_landmark_step_seconds",
     "store"},
    {NAMED(store_read_s), "Reads of all chunks that a landmark step misses.",
     "recollect_store_read_seconds"},
};

#undef NAMED

// Names the label in which metrics of one name differ, and says what they are together.
struct MetricLabel {
  const char* metric;
  const char* label;
  const char* help;  // in GET /metrics
};

inline constexpr MetricLabel kLabels[] = {
    {"recollect_budget_used_bytes", "budget",
     "What each budget (--landmark-budget and so on) holds."},
    {"recollect_budget_limit_bytes", "budget", "What each budget may hold."},
    {"recollect_store_cache_chunks_total", "result",
     "Chunks asked of the cache on this disk; a damaged one is a miss, too."},
    {"recollect_retrieved_chunks_total", "tier",
     "Retrieved chunks by the tier that they came from."},
    {"recollect_landmark_step_seconds", "tier",
     "Steps while decoding that retrieve, by the slowest tier that they read a chunk from."},
};

// Calls visit(statistic, value) for each that is one number or text: what Admin.GetStats and GET
// /v1/stats have. Values are const std::string&, bool, int64_t and double.
template <typename Visitor>
void VisitFields(const EngineStats& stats, const Visitor& visit) {
  for (const Statistic& statistic : kStatistics) {
    std::visit(
        [&](auto member) {
          using Value = std::remove_cvref_t<decltype(stats.*member)>;
          if constexpr (std::is_same_v<Value, Count>) {
            visit(statistic, int64_t{stats.*member});
          } else if constexpr (!std::is_same_v<Value, HistogramValues>) {
            visit(statistic, stats.*member);
          }
        },
        statistic.member);
  }
}

}  // namespace recollect::engine
