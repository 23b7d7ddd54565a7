// The store over Ceph RADOS: many servers share one namespace of one pool. How it works:
// docs/rados.md; why so: docs/decisions/0033-rados.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/document_store.h"
#include "store/record_cache.h"

namespace recollect::store::rados {

struct RadosOptions {
  std::string pool;
  std::string name_space;          // empty: the pool's default one
  std::string conf_file;           // empty: the library's default, /etc/ceph/ceph.conf
  std::string user = "admin";      // the client's name, without "client."
  int64_t timeout_s = 10;          // of connecting, and of each operation; at least 1
  int64_t lease_ms = 30'000;       // of locks and pins; renewed at a third of it
  int64_t object_bytes = 1 << 20;  // an object of a document's data takes records up to this size
  bool renews = true;  // false: leases run out, as those of a stopped process do (tests)
};

// Parses "rados:POOL" or "rados:POOL/NAMESPACE". INVALID_ARGUMENT names the text.
absl::StatusOr<RadosOptions> ParseRadosName(absl::string_view name);

// Opens the namespace, and makes it a store if it is empty. UNAVAILABLE: no cluster answered within
// the timeout; NOT_FOUND: no such pool, or no such configuration file; PERMISSION_DENIED: the
// cluster refuses the client; FAILED_PRECONDITION: another format version (names both), or the
// namespace holds objects of others. Removed documents that nobody pins are freed.
// `cache`, if any, keeps chunks that were read of published documents, and is asked first.
absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRadosStore(
    const RadosOptions& options, std::unique_ptr<RecordCache> cache = nullptr);

// The result of CheckRadosStore. Orphans are objects that no document, unfinished ingest or removed
// document refers to.
struct RadosCheck {
  int64_t objects = 0;                // in the namespace
  int64_t documents = 0;              // published, damaged ones included
  std::vector<std::string> orphans;   // names of objects that nobody owns
  std::vector<std::string> problems;  // what a document lacks, one line each
};

// Reads the catalog, every head and the list of objects, not the data. `repair` removes the orphans
// and frees removed documents. May run beside servers. Error codes are those of OpenRadosStore.
absl::StatusOr<RadosCheck> CheckRadosStore(const RadosOptions& options, bool repair);

}  // namespace recollect::store::rados

// For callers.
namespace recollect::store {
using rados::CheckRadosStore;
using rados::OpenRadosStore;
using rados::ParseRadosName;
using rados::RadosCheck;
using rados::RadosOptions;
}  // namespace recollect::store
