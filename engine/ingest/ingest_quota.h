// The quota that an account has left for an ingest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "access/account.h"
#include "store/document_store.h"

namespace recollect::engine {

// The quota of an ingest.
struct IngestQuota {
  std::shared_ptr<access::Account> account = nullptr;  // null: nothing is counted
  int64_t bytes = 0;  // of text that the account allows the document
};

// Returns the quota of the new document `id`. Counts the account's documents and ingests in the
// store, and the ids in `open`, whose ingests may have committed nothing yet. RESOURCE_EXHAUSTED;
// errors of the store. Lists the account's documents if it has a bound that needs it. Concurrent
// writes of the account are noticed only when the next ingest begins.
absl::StatusOr<IngestQuota> CheckQuota(std::shared_ptr<access::Account> account,
                                       store::Catalog& catalog, store::IngestWriter& ingests,
                                       const std::vector<std::string>& open, const std::string& id);

}  // namespace recollect::engine
