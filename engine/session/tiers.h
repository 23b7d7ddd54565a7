// The tiers that retrieved chunks come from: their memory K, V, else their chunk states in RAM,
// else the store. A chunk has the same bits from every tier, because K, V are always the projection
// of the same stored states.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/sync/executor.h"
#include "engine/backend/backend.h"
#include "engine/backend/rows.h"
#include "engine/counters.h"
#include "engine/types.h"
#include "model/config/config.h"
#include "store/byte_budget_cache.h"
#include "store/document_store.h"

namespace recollect::engine {

struct ChunkMemory {
  ProjectedMemory memory;
  int64_t text_begin = 0, text_end = 0;
  std::vector<int32_t> tokens;  // of its record
};
using RecordHandle = std::shared_ptr<const store::ChunkRecord>;

// A chunk to be fetched: it is looked up, read if necessary, then projected.
struct WantedChunk {
  ChunkRef ref;
  // If only reported, `memory` stays null unless it is on the device; if only the reader reads it,
  // `memory` has no K, V unless they are there.
  bool read_by_model = false, read_by_reader = false;
  Tier tier = Tier::kMemory;  // where it was found
  RecordHandle record;        // from the host or read; without states if the chunk is only reported
  std::shared_ptr<const UploadedStates> uploaded;  // of the record, if the model reads it
  MemoryHandle memory;                             // the result

  // Returns the range of the document's or session's text that the chunk covers. REQUIRES: found or
  // read.
  std::pair<int64_t, int64_t> text() const {
    return memory != nullptr ? std::pair(memory->text_begin, memory->text_end)
                             : std::pair(record->text_begin, record->text_end);
  }
  // Returns the chunk's tokens; none before it was found or read.
  std::span<const int32_t> tokens() const {
    if (memory != nullptr) return memory->tokens;
    return record != nullptr ? std::span<const int32_t>(record->tokens)
                             : std::span<const int32_t>();
  }
};

// Thread-safe.
class ChunkTiers {
 public:
  ChunkTiers(const model::ModelConfig& config, store::DocumentReader& reader,
             store::SessionChunks& sessions, Backend& backend, int64_t memory_budget_bytes,
             int64_t chunk_states_budget_bytes, Executor& fetchers, Counters& counters);

  // Fills in what the device and the host have, sets each chunk's tier and counts it. Begins to
  // copy chunks that the host has to the device. Returns the number of chunks that are in neither.
  int64_t LookUp(std::span<WantedChunk> wanted);

  // Reads the records of chunks that have neither memory nor record, in one batched read on a fetch
  // thread, begins to copy them to the device, then calls `done` on that thread with the first
  // error (UNAVAILABLE, on the calling thread, during shutdown). `wanted` is kept alive by `done`
  // and must not be used until then.
  void Fetch(std::span<WantedChunk> wanted, std::function<void(absl::Status)> done);

  // Gives the chunk the memory made from its record, and keeps this memory on the device if the
  // budget allows and it has K, V.
  void TakeMemory(WantedChunk& wanted, ProjectedMemory memory);

  // Stores a session's own chunk and keeps it on the host for its first reader.
  absl::Status PutOwn(ChunkRef ref, store::ChunkRecord record);

  void EraseOwner(OwnerId owner);

  // Drops memory K, V that is not in use, for a device that has no room left.
  void DropMemory() { memory_.Clear(); }
  // Drops the chunk states on the host, too.
  void Drop() {
    DropMemory();
    host_.Clear();
  }

  int64_t memory_bytes() const { return memory_.used_bytes(); }
  int64_t memory_budget_bytes() const { return memory_.budget_bytes(); }
  int64_t chunk_states_bytes() const { return host_.used_bytes(); }
  int64_t chunk_states_budget_bytes() const { return host_.budget_bytes(); }

 private:
  absl::Status Read(std::span<WantedChunk> wanted);
  // REQUIRES: the chunks have records.
  void BeginUpload(std::span<WantedChunk* const> chunks);
  RecordHandle Keep(const ChunkRef& ref, store::ChunkRecord record);

  const model::ModelConfig& config_;
  store::DocumentReader& reader_;
  store::SessionChunks& sessions_;
  Backend& backend_;
  Executor& fetchers_;
  Counters& counters_;
  store::ByteBudgetCache<ChunkMemory> memory_;
  store::ByteBudgetCache<store::ChunkRecord> host_;
};

}  // namespace recollect::engine
