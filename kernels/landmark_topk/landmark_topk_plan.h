// Exact landmark search (landmark_topk.h) on a device, for a batch of queries over one list of
// segments.
//   r_e = <u, κ_e> / sqrt(d_k), products and sums in fp32, in the order of kernels/cuda/cuda_math.h
// Ties go to the earlier candidate, scores that are not finite rank last: the order of
// landmark_topk.h. A query's result has the same bits with any other queries, any division of the
// candidates into segments, and any number of multiprocessors. No result depends on the order of
// atomic operations.
//   plan = PlanLandmarkTopK({.queries = 3, .width = 128, .candidates = 262144, .n = 8}, 132);
//   device.Run(LandmarkTopKOp{plan, queries, segments, workspace, candidates, scores});
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::kernels {

// Limits, because a thread block keeps its lists in shared memory.
inline constexpr int kMaxDeviceTopK = 256;
inline constexpr int kMaxDeviceKeyWidth = 1024;
// A filter keeps so many candidates of each query, and answers with half of them at most.
inline constexpr int kFilterKept = 16, kMaxFilterTopK = kFilterKept / 2;

// The words for a search on a device in its errors.
struct DeviceTopKNames {
  const char* search;
  const char* keys;
  const char* candidates;
};
// Returns INVALID_ARGUMENT for an n or a width beyond these limits, or 2^30 candidates or more.
absl::Status CheckDeviceTopK(const DeviceTopKNames& names, int64_t n, int64_t width,
                             int64_t candidates);

struct LandmarkTopKSizes {
  int64_t queries = 0;
  int width = 0;           // d_k
  int64_t candidates = 0;  // over all segments
  int n = 0;
  // Every segment's keys begin at a multiple of 16 bytes: the caller's word, which decides how keys
  // are read.
  bool aligned = false;
  friend bool operator==(const LandmarkTopKSizes&, const LandmarkTopKSizes&) = default;
};

struct LandmarkTopKPlan {
  // Tiles: a thread block reads a part's keys once for four queries. The others are for aligned
  // keys of width 64, 128 or 256. Ahead: for one query, with loads ahead of its sums. Filter: for
  // many queries, n <= kMaxFilterTopK: tensor cores choose kFilterKept candidates, which are scored
  // again; a query for which these are not proven to have the best goes by tiles after all.
  enum class Strategy { kTiles, kAhead, kFilter };
  LandmarkTopKSizes sizes;
  Strategy strategy = Strategy::kTiles;
  int64_t query_tiles = 0;
  int64_t parts = 0;      // ranges of candidates; part p begins at p * part_keys
  int64_t part_keys = 0;  // a multiple of the keys of one step
  // With a filter: its own tiles and parts. Those above are for the queries that go by tiles.
  int64_t filter_tiles = 0, filter_parts = 0, filter_part_keys = 0;
  float scale = 0;  // 1 / sqrt(width)
  int64_t workspace_bytes = 0;
  friend bool operator==(const LandmarkTopKPlan&, const LandmarkTopKPlan&) = default;
};

// Chooses the strategy, and the parts for a device with `multiprocessors` multiprocessors. Results
// depend on neither. INVALID_ARGUMENT when n > kMaxDeviceTopK, width > kMaxDeviceKeyWidth, there
// are 2^30 candidates or more, or a size is negative.
absl::StatusOr<LandmarkTopKPlan> PlanLandmarkTopK(const LandmarkTopKSizes& sizes,
                                                  int multiprocessors);

// Plans with a given strategy, for tests and benchmarks. INVALID_ARGUMENT, too, for sizes that it
// cannot run.
absl::StatusOr<LandmarkTopKPlan> PlanLandmarkTopK(const LandmarkTopKSizes& sizes,
                                                  int multiprocessors,
                                                  LandmarkTopKPlan::Strategy strategy);

// A segment's keys and the number of its first candidate. The last entry of a table has the total
// number of candidates and no keys.
struct SegmentStart {
  const Bf16* keys = nullptr;
  int64_t first = 0;
};

// Returns the table for segments in order, to be copied to the device. The keys are borrowed device
// memory.
std::vector<SegmentStart> SegmentTable(std::span<const KeySegment> segments);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done;
// outputs may not overlap inputs. Results are best first; if there are fewer than n candidates, -1
// and -infinity follow. Keys may have any alignment unless the plan's sizes say that they are
// aligned; they are read fastest where these do, and else at multiples of 16 bytes with d_k a
// multiple of 8. A device whose thread blocks cannot have the shared memory of a filter (186 KB for
// width 256) searches by tiles.
struct LandmarkTopKOp {
  static constexpr bool kChangesEachStep = true;  // kernels/device/operation.h
  LandmarkTopKPlan plan;
  const float* queries = nullptr;          // [queries, width] fp32, dense
  const SegmentStart* segments = nullptr;  // SegmentTable's entries
  void* workspace = nullptr;               // plan.workspace_bytes, aligned to 8
  int64_t* candidates = nullptr;           // [queries, n]
  float* scores = nullptr;                 // [queries, n]
  friend bool operator==(const LandmarkTopKOp&, const LandmarkTopKOp&) = default;
};

}  // namespace recollect::kernels
