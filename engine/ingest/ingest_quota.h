// What an account may still ingest.
#ifndef RECOLLECT_ENGINE_INGEST_INGEST_QUOTA_H_
#define RECOLLECT_ENGINE_INGEST_INGEST_QUOTA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "access/account.h"
#include "store/document_store.h"

namespace recollect::engine {

// Of one ingest.
struct IngestQuota {
  std::shared_ptr<access::Account> account = nullptr;  // null: nothing is counted
  int64_t bytes = 0;  // of text, that the document may have; of the account
};

// For the new document `id`: documents and ingests of the store are counted, and the ids in `open`,
// whose ingests may have committed nothing yet. RESOURCE_EXHAUSTED; errors of the store. Reads the
// whole catalog, if the account has a bound that needs it. What others of the account write
// meanwhile is found out when the next ingest begins.
absl::StatusOr<IngestQuota> CheckQuota(std::shared_ptr<access::Account> account,
                                       store::DocumentStore& store,
                                       const std::vector<std::string>& open, const std::string& id);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_INGEST_QUOTA_H_
