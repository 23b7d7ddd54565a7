// Declares what all ingests of an engine share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/sync/executor.h"
#include "engine/backend/backend.h"
#include "engine/counters.h"
#include "engine/session/state_budget.h"
#include "engine/types.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// It must outlive the ingests, except that calls after Fail do not use it.
struct IngestContext {
  const model::Model& model;
  Backend& backend;
  // Three roles of one store.
  store::Catalog& catalog;
  store::IngestWriter& writer;
  store::DocumentReader& reader;
  std::shared_ptr<Executor> thread;  // of one thread: reads and commits depend on their order
  Counters& counters;
  StateBudget& state_budget;   // for states of prefixes
  std::function<void()> wake;  // the scheduler
  ChunkStatesFormat chunk_states_format;
  int64_t commit_tokens;
  int64_t text_commit_tokens;  // of documents that are kept as text
  int64_t max_ingests;
  // Called for each document, with the owner of the one that it has replaced, if any.
  std::function<void(const std::string& id, OwnerId replaced)> published;
};

}  // namespace recollect::engine
