// Writes the local state of a prefix to the parts that the store keeps, and reads it back. In a
// family without landmarks this state is the document.
//
// The parts are one stream of sections, each after its length (u64, little-endian): the head of the
// state, then each layer. Only one section at a time is in memory besides the encoder's state.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/backend/memory_encoder.h"
#include "engine/session/state_budget.h"
#include "model/model.h"
#include "model/state/local_state.h"
#include "store/document_store.h"

namespace recollect::engine {

// Writes the encoder's state as the next state of the ingest and returns its size, for
// IngestBatch::state_bytes. Errors of the encoder and of the store. Blocks on disk.
absl::StatusOr<int64_t> PutState(const MemoryEncoder& encoder, store::IngestWriter& store,
                                 OwnerId owner);

struct StoredState {
  OwnerId owner{};
  int64_t bytes = 0;
  int64_t length = 0;  // positions it must have
};

// Reads a state back for a session or ingest whose `charge` holds nothing. RESOURCE_EXHAUSTED,
// before anything is read, if the budget has no room; FAILED_PRECONDITION naming both patterns;
// DATA_LOSS naming the part, or the inconsistency. Blocks on disk.
absl::StatusOr<model::LocalState> RestoreState(const model::Model& model,
                                               const model::LocalPatterns& pattern,
                                               store::DocumentReader& store,
                                               const StoredState& stored, StateBudget& budget,
                                               StateCharge& charge);

}  // namespace recollect::engine
