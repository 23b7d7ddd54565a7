// The engine's statistics; Admin.GetStats returns them under these names.
#ifndef RECOLLECT_ENGINE_METRICS_H_
#define RECOLLECT_ENGINE_METRICS_H_

#include <cstdint>
#include <string>

namespace recollect::engine {

// A snapshot. Bytes are current, the rest are counts since start.
struct EngineStats {
  int64_t sessions = 0;
  int64_t queued_requests = 0;
  int64_t running_requests = 0;
  std::string backend;          // Backend::name
  std::string landmark_device;  // LandmarkDevice::name
  int64_t landmark_bytes = 0, landmark_budget_bytes = 0;
  int64_t memory_bytes = 0, memory_budget_bytes = 0;
  int64_t host_bytes = 0, host_budget_bytes = 0;
  int64_t state_bytes = 0, state_budget_bytes = 0;
  int64_t store_bytes = 0;
  int64_t device_free_bytes = 0, device_total_bytes = 0;  // of the device in use; 0 without one
  int64_t chunk_hits_device = 0, chunk_hits_host = 0, chunk_hits_store = 0;
  // Chunks that were not on the device: batched reads from the store, then uploads.
  int64_t store_reads = 0, store_read_bytes = 0, staged_chunks = 0;
  double store_read_p50_ms = 0, store_read_p99_ms = 0;  // of the last 1024 batched reads
  int64_t data_loss_errors = 0;
  // prompt_tokens counts the prompts of all requests that were read to their end.
  int64_t generated_tokens = 0, prompt_tokens = 0, ingested_tokens = 0;
  // Prefixes restored, and their tokens; the last token of each is run again.
  int64_t prefix_mounts = 0, prefix_tokens = 0;
  int64_t steps = 0;
  int64_t graph_launches = 0;  // Backend::graph_launches
  double landmark_step_p50_ms = 0,
         landmark_step_p99_ms = 0;  // last 1024 landmark steps while decoding, with retrieval
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_METRICS_H_
