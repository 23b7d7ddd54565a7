// Holds landmark keys and searches them (design 2.4); the only part of the engine whose work grows
// with the mounted documents. Keys are in RAM and searched by the CPU (cpu_landmarks.h), or in a
// device's memory and searched there (device_landmarks.h). Each computes scores in fp32 with its
// own summation order: one device gives the same bits in any batch, but tokens may differ between
// devices because their roundings do. The search is exact, except for keys with lists
// (landmark_lists.h), of which a part is scored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/large_vector.h"
#include "base/numeric/bf16.h"
#include "engine/backend/landmark_lists.h"
#include "kernels/device/device.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::engine {

// Keys [count, d_k] of one document or session, in a device's memory; freed with the object.
class LandmarkKeys {
 public:
  virtual ~LandmarkKeys() = default;
  // Appends `keys`, [n, d_k]. Must not be called during a search. RESOURCE_EXHAUSTED: nothing was
  // added.
  virtual absl::Status Append(std::span<const Bf16> keys) = 0;
  // Replaces the keys by `listed`: the same keys, or all keys if there are none yet. Searches of
  // all these keys that begin afterwards use the lists. Thread-safe, also during a search.
  // UNIMPLEMENTED: keys on this device are always searched exactly.
  virtual absl::Status UseLists(ListedKeys /*listed*/) {
    return absl::UnimplementedError("keys on this device are searched exactly");
  }
};

// The first `count` of some keys.
struct KeyRun {
  const LandmarkKeys* keys = nullptr;
  int64_t count = 0;
};

// The work that a search has done for a later one over the same runs.
class SearchAhead {
 public:
  virtual ~SearchAhead() = default;
};

struct LandmarkQuery {
  std::vector<float> u;      // [d_k]
  std::vector<KeyRun> runs;  // candidates are numbered through them, in order
  int n = 0;                 // best candidates to find; all if there are fewer
  // Later queries over the same runs, of each only its last numbers: the search may do a part of
  // their work, too.
  std::vector<std::vector<float>> later;
  // The work of an earlier search for this one; null: none. Changes no answer.
  std::shared_ptr<const SearchAhead> known;

  // The answer, in the order of kernels/landmark_topk/landmark_topk.h.
  absl::Status status;
  std::vector<kernels::ScoredCandidate> best;
  std::vector<std::shared_ptr<const SearchAhead>> ahead;  // for each of `later`, or empty

  int64_t candidates() const {
    int64_t count = 0;
    for (const KeyRun& run : runs) count += run.count;
    return count;
  }
};

class LandmarkIndex {
 public:
  virtual ~LandmarkIndex() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // UNAVAILABLE, permanently, once the device is lost.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // Room in the device's memory; zeros on the CPU.
  virtual kernels::DeviceRoom room() const { return {}; }
  // Bytes that Keep takes for `count` keys of d_k numbers.
  virtual int64_t BytesOf(int64_t count, int64_t d_k) const {
    return count * d_k * static_cast<int64_t>(sizeof(Bf16));
  }
  // Returns the number of keys from which on BytesOf counts more than the keys; 0: it never does.
  virtual int64_t sketched_keys() const { return 0; }
  // Stores keys [count, d_k], possibly none. The device must outlive the result. Thread-safe.
  // RESOURCE_EXHAUSTED: the device's memory; UNAVAILABLE: the device is lost.
  virtual absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(LargeVector<Bf16> keys) = 0;
  // Answers every query, each with its own status, and returns when all are answered. One call at a
  // time.
  virtual void Search(std::span<LandmarkQuery> queries) = 0;
};

}  // namespace recollect::engine
