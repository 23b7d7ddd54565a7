// Documents to and from files of their own (store/document_transfer.h), for the model that the
// engine has.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/counters.h"
#include "engine/ingest/ingest_registry.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// FAILED_PRECONDITION: a document of another model (names both fingerprints).
absl::StatusOr<std::unique_ptr<ExportStream>> BeginExport(const model::Model& model,
                                                          store::Catalog& catalog,
                                                          store::DocumentReader& reader,
                                                          Counters& counters, Pin pin);

// Like Engine::ImportDocument. The stream holds `place` until it is destroyed.
std::unique_ptr<ImportStream> BeginImport(const model::Model& model, store::IngestWriter& store,
                                          const std::string& id, IdCheck may_have,
                                          IngestRegistry::ImportPlace place);

}  // namespace recollect::engine
