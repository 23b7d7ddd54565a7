// The cache of records in a RocksDB of its own, whose oldest files go when the budget is used up
// (docs/decisions/0036-cache-in-front-of-rados.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/record_cache.h"

namespace recollect::store::rocks {

inline constexpr int64_t kMinCacheBytes = int64_t{32} << 20;

struct RocksCacheOptions {
  std::string directory;  // made if it is missing, for its owner alone
  int64_t budget_bytes = int64_t{16} << 30;
};

// Opens the cache as the last process left it. One that is damaged is emptied, with a line in the
// log. INVALID_ARGUMENT: the budget is below kMinCacheBytes; FAILED_PRECONDITION: the directory has
// files that are no cache, or another process has it open; UNAVAILABLE, RESOURCE_EXHAUSTED: the
// disk.
absl::StatusOr<std::unique_ptr<RecordCache>> OpenRocksCache(const RocksCacheOptions& options);

}  // namespace recollect::store::rocks

// For callers.
namespace recollect::store {
using rocks::kMinCacheBytes;
using rocks::OpenRocksCache;
using rocks::RocksCacheOptions;
}  // namespace recollect::store
