// The mapping of the library's errors to ours, and the only place where its exceptions are caught.
#pragma once

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/memory.h"
#include "rocksdb/status.h"

namespace recollect::store::rocks {

// `what` names the operation or record. Full disk is RESOURCE_EXHAUSTED, corruption and missing
// files DATA_LOSS, other I/O errors UNAVAILABLE.
absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what);

// The same for opening `directory`, which is a `what`: a held lock is FAILED_PRECONDITION naming
// it; files that are no valid database are DATA_LOSS, since the options are ours and constant.
absl::Status FromRocksOpen(const rocksdb::Status& status, absl::string_view directory,
                           absl::string_view what = "data directory");

// Runs a body that returns Status or StatusOr and calls the library.
template <typename Body>
auto Guarded(absl::string_view what, const Body& body) -> decltype(body()) {
  try {
    // A write that ends half-way would leave all later ones waiting.
    const MemoryScope scope(MemoryScope::kTake);
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

}  // namespace recollect::store::rocks
