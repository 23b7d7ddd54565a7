// The SHA-256 of a document's text in a store.
#ifndef RECOLLECT_STORE_HASH_TEXT_H_
#define RECOLLECT_STORE_HASH_TEXT_H_

#include <algorithm>
#include <cstdint>

#include "base/sha256.h"
#include "base/status.h"
#include "store/document_store.h"

namespace recollect::store {

// Adds the first `bytes` bytes of the text to `hash`, a piece at a time. Errors of ReadText.
inline absl::Status HashText(DocumentStore& store, OwnerId owner, int64_t bytes, Sha256& hash) {
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  for (int64_t begin = 0; begin < bytes; begin += kAtOnce) {
    ASSIGN_OR_RETURN(const std::string text,
                     store.ReadText(owner, begin, std::min(bytes, begin + kAtOnce)));
    hash.Update(text);
  }
  return absl::OkStatus();
}

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_HASH_TEXT_H_
