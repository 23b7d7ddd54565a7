#include "store/rados/rados_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"

namespace recollect::store::rados {
namespace {

constexpr char kPoolKey[] = "pool";

}  // namespace

absl::StatusOr<RadosOptions> ParseRadosName(absl::string_view name) {
  absl::string_view rest = name;
  RadosOptions options;
  if (absl::ConsumePrefix(&rest, "rados:")) {
    const size_t slash = rest.find('/');
    options.pool = std::string(rest.substr(0, slash));
    if (slash != absl::string_view::npos) options.name_space = std::string(rest.substr(slash + 1));
    if (!options.pool.empty() && (slash == absl::string_view::npos || !options.name_space.empty()))
      return options;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("store '", name, "' is not of the form rados:POOL or rados:POOL/NAMESPACE"));
}

absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRadosStore(const RadosOptions& options,
                                                              std::unique_ptr<RecordCache> cache) {
  ASSIGN_OR_RETURN(std::unique_ptr<Pool> pool, Pool::Connect(options));
  RETURN_IF_ERROR(CheckPool(*pool, /*makes=*/true));
  auto store = std::make_unique<RadosStore>(std::move(pool), options, std::move(cache));
  RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status CheckPool(Pool& pool, bool makes) {
  const std::string what = absl::StrCat("store in ", pool.name());
  for (bool tried = false;; tried = true) {
    auto found = pool.Get(kPoolObject, {kPoolKey}, "the store's own record");
    if (found.ok() && found->contains(kPoolKey)) {
      ASSIGN_OR_RETURN(const PoolRecord record, DecodePool(kPoolKey, (*found)[kPoolKey], what));
      if (record.version == kPoolVersion) return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(
          what, " has format version ", record.version, ", this build reads ", kPoolVersion));
    }
    if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
    std::string other;
    RETURN_IF_ERROR(pool.List([&](const std::string& object) {
      if (other.empty()) other = object;
    }));
    if (!makes && other.empty()) return absl::NotFoundError(absl::StrCat(what, ": there is none"));
    if (!other.empty()) {
      // Another server may have made it since the look above.
      if (!tried) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(pool.name(), " has objects that are no store of Recollect, such as '", other,
                       "': name a namespace of its own, rados:POOL/NAMESPACE"));
    }
    const Change make{.create = true,
                      .expect = {{kPoolKey, ""}},
                      .set = {{kPoolKey, EncodePool(kPoolKey, PoolRecord())}}};
    absl::Status made = pool.Apply(kPoolObject, make, "making the store");
    if (!made.ok() && !absl::IsAborted(made)) return made;
  }
}

RadosStore::RadosStore(std::unique_ptr<Pool> pool, const RadosOptions& options,
                       std::unique_ptr<RecordCache> cache)
    : pool_(std::move(pool)),
      options_(options),
      cache_(std::move(cache)),
      leases_(*pool_, options, [this] {
        TakeLapsedPins();
        FreePending();
      }) {}

absl::Status RadosStore::Load() {
  if (cache_ != nullptr) {
    ASSIGN_OR_RETURN(identity_, pool_->Identity());
  }
  ASSIGN_OR_RETURN(const std::set<OwnerId> removed, RemovedOwners(*pool_));
  for (const OwnerId owner : removed) FreeOrWait(owner);
  return absl::OkStatus();
}

// Batches of numbers are taken by compare-and-write; a server that ends leaves the rest of its
// batch unused.
absl::StatusOr<OwnerId> RadosStore::NewOwner() {
  constexpr uint64_t kBatch = 64;
  MutexLock lock(numbers_mutex_);
  while (next_owner_ == owner_limit_) {
    ASSIGN_OR_RETURN(auto found, pool_->Get(kPoolObject, {kPoolKey}, "owner numbers"));
    const std::string& now = found[kPoolKey];
    ASSIGN_OR_RETURN(PoolRecord record, DecodePool(kPoolKey, now, "the store's own record"));
    const uint64_t first = record.next_owner;
    record.next_owner += kBatch;
    const Change take{.expect = {{kPoolKey, now}},
                      .set = {{kPoolKey, EncodePool(kPoolKey, record)}}};
    const absl::Status taken = pool_->Apply(kPoolObject, take, "owner numbers");
    if (absl::IsAborted(taken)) continue;  // another server was first
    RETURN_IF_ERROR(taken);
    next_owner_ = first;
    owner_limit_ = record.next_owner;
  }
  return OwnerId{next_owner_++};
}

// Without a manager the cluster counts nothing: then it is what the documents were when published.
StoreState RadosStore::state() {
  StoreState out;
  if (cache_ != nullptr) {
    const RecordCache::State cache = cache_->state();
    out.cache_bytes = cache.bytes;
    out.cache_budget_bytes = cache.budget_bytes;
    out.cache_read_only = cache.read_only;
    out.cache_hits = cache_hits_;
    out.cache_misses = cache_misses_;
    out.cache_damaged = cache_damaged_;
  }
  out.bytes = pool_->used_bytes();
  out.free_bytes = pool_->free_bytes();
  if (out.bytes > 0) return out;
  ScanCatalog(*pool_, "", kCatalogPage,
              [&](const std::string&, const absl::StatusOr<DocumentInfo>& info) {
                if (info.ok()) out.bytes += info->stored_bytes;
                return true;
              })
      .IgnoreError();
  return out;
}

}  // namespace recollect::store::rados
