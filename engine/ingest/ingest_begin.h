// Begins the store's record of an ingest, or finds the one to go on with.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/ingest_context.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::engine {

// When a stream takes its place among the ingests (EngineOptions::max_ingests).
enum class IngestPlace {
  kAtOnce,       // or is refused
  kWhenWritten,  // with its first piece or its end, which wait for it
};

// The document to be written. What refreshes or appends to another outlives the stream's begin.
struct AskedIngest {
  const std::string& id;
  bool from_tokens = false;
  const model::LocalPatterns& pattern;
  const Origin& origin;
  const store::DocumentInfo* refreshes = nullptr;  // null: no refresh
  std::optional<Replacement> replacement = {};
  Pin appends_to = nullptr;  // null: the input is the whole document
  std::optional<std::string> metadata = {};
  IngestPlace place = IngestPlace::kAtOnce;
};

// ALREADY_EXISTS: the document is published, and nothing was asked for that replaces it. Other
// errors say what prevents the ingest. Blocks on the disk.
absl::StatusOr<store::IngestProgress> BeginInStore(const IngestContext& context,
                                                   const AskedIngest& asked);

// FAILED_PRECONDITION, which names both: the published document, with which the input is to be
// compared, is of another model or pattern.
absl::Status CheckComparable(const IngestContext& context, const store::DocumentInfo& document,
                             const model::LocalPatterns& pattern);

}  // namespace recollect::engine
