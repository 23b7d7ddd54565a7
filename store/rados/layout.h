// Holds in memory where the records of one owner lie, as its head object says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "base/types.h"
#include "store/document_store.h"
#include "store/rados/records.h"

namespace recollect::store::rados {

// The sizes of an owner's data; they grow with the commits of an ingest.
struct Sizes : DocumentSizes {
  Sizes() = default;
  Sizes(const DocumentSizes& sizes, uint64_t epoch) : DocumentSizes(sizes), state_epoch(epoch) {}
  uint64_t state_epoch = 0;
};

// A record that holds entries [begin, begin + count) of its kind; `index` is its number in that
// kind.
struct Piece {
  int64_t index = 0;
  int64_t begin = 0;
  int64_t count = 0;
  std::string object;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Thread-safe.
class Layout {
 public:
  explicit Layout(OwnerId owner) : owner_(owner) {}

  // Adds the records of one commit, after which the owner has these sizes.
  void Add(std::span<const Extent> extents, Sizes sizes);
  Sizes sizes() const;
  // Sets the name that tells a published document from all others in a cache; otherwise it is
  // empty.
  void SetCacheName(std::string name);
  std::string cache_name() const;
  int64_t pieces(Kind kind) const;

  // Returns the records that hold entries [begin, end), in order; fewer if some are missing.
  std::vector<Piece> Find(Kind kind, int64_t begin, int64_t end) const;

  // Returns the names of all objects with records.
  std::vector<std::string> Objects() const;

 private:
  struct Place {
    uint32_t segment;  // in segments_
    uint32_t offset;
    uint32_t bytes;
  };
  struct Table {
    std::vector<Place> places;
    std::vector<int64_t> begins;  // of each place's first entry; empty for chunks, one in each
    int64_t end = 0;
  };

  const OwnerId owner_;
  mutable SharedMutex mutex_;
  Sizes sizes_ ABSL_GUARDED_BY(mutex_);
  std::string cache_name_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, uint64_t>> segments_ ABSL_GUARDED_BY(mutex_);  // epoch, number
  Table tables_[kKinds] ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::store::rados
