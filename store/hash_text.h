// The SHA-256 of a document's text in a store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "base/status.h"
#include "store/document_store.h"

namespace recollect::store {

// Adds the first `bytes` bytes of the text to `hash`, a piece at a time. Errors of ReadText.
inline absl::Status HashText(DocumentReader& store, OwnerId owner, int64_t bytes, Sha256& hash) {
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  for (int64_t begin = 0; begin < bytes; begin += kAtOnce) {
    ASSIGN_OR_RETURN(const std::string text,
                     store.ReadText(owner, begin, std::min(bytes, begin + kAtOnce)));
    hash.Update(text);
  }
  return absl::OkStatus();
}

// Returns the SHA-256, in hex, of the text that an ingest has committed and `more`.
inline absl::StatusOr<std::string> TextSha256(DocumentReader& store, const IngestProgress& ingest,
                                              absl::string_view more) {
  Sha256 hash;
  RETURN_IF_ERROR(HashText(store, ingest.owner, ingest.bytes, hash));
  hash.Update(more);
  return hash.Hex();
}

}  // namespace recollect::store
