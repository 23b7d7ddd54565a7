// The landmark keys of one document, divided into lists of keys that are alike, so that a search
// need not score all of them: it scores the lists' centroids, and then the keys of the best lists.
// What it finds is a part of what an exact search finds, with the same scores.
//
// Lists are made once for a document (ListMaker) and kept in the store in the form of EncodeLists.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/large_vector.h"
#include "base/numeric/bf16.h"

namespace recollect::engine {

struct LandmarkLists {
  int64_t d_k = 0;
  std::vector<Bf16> centroids;  // [lists, d_k], the mean of each list's keys
  std::vector<int64_t> begins;  // [lists + 1]: list l is order[begins[l], begins[l + 1])
  std::vector<int32_t> order;   // every chunk once, list by list

  int64_t lists() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t chunks() const { return static_cast<int64_t>(order.size()); }
  int64_t bytes() const {
    return static_cast<int64_t>(centroids.size() * sizeof(Bf16) + begins.size() * sizeof(int64_t) +
                                order.size() * sizeof(int32_t));
  }
  friend bool operator==(const LandmarkLists&, const LandmarkLists&) = default;
};

std::string EncodeLists(const LandmarkLists& lists);
// DATA_LOSS unless `bytes` are lists of a document of `chunks` keys of `d_k` numbers.
absl::StatusOr<LandmarkLists> DecodeLists(absl::string_view bytes, int64_t chunks, int64_t d_k);

// Puts keys [chunks, d_k] into the order of the lists, in place.
void OrderKeys(const LandmarkLists& lists, std::span<Bf16> keys);

// Keys in the order of their lists.
struct ListedKeys {
  LargeVector<Bf16> keys;
  std::shared_ptr<const LandmarkLists> lists;
};

class ListMaker {
 public:
  virtual ~ListMaker() = default;
  // Divides keys [chunks, d_k], at least one. Takes seconds to minutes of one thread, the caller's,
  // which should be its own; asks `cancelled` about every second and ends with CANCELLED when that
  // is so. INTERNAL: the library refuses the keys, such as some that are not finite. Thread-safe.
  virtual absl::StatusOr<LandmarkLists> Make(std::span<const Bf16> keys, int64_t d_k,
                                             const std::function<bool()>& cancelled) = 0;
};

}  // namespace recollect::engine
