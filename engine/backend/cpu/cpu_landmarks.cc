#include "engine/backend/cpu/cpu_landmarks.h"

#include <algorithm>
#include <utility>

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;

// Candidates one thread scans at a time. At 512 numbers a key that is 8 MB of keys, some hundreds
// of microseconds: enough to pay for handing it to another thread, little enough to share a scan of
// a million tokens (16 000 keys) between two.
constexpr int64_t kScanTile = 8192;

class KeysInRam final : public LandmarkKeys {
 public:
  explicit KeysInRam(std::vector<Bf16> keys) : keys_(std::move(keys)) {}
  absl::Status Append(std::span<const Bf16> keys) override {
    keys_.insert(keys_.end(), keys.begin(), keys.end());
    return absl::OkStatus();
  }
  const Bf16* data() const { return keys_.data(); }

 private:
  std::vector<Bf16> keys_;
};

// The candidates [begin, end) of a query.
std::vector<kernels::KeySegment> Cut(const LandmarkQuery& query, int64_t begin, int64_t end) {
  const auto width = static_cast<int64_t>(query.u.size());
  std::vector<kernels::KeySegment> cut;
  int64_t first = 0;
  for (const KeyRun& run : query.runs) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + run.count);
    if (from < to) {
      const Bf16* keys = static_cast<const KeysInRam*>(run.keys)->data();
      cut.push_back({keys + (from - first) * width, to - from});
    }
    first += run.count;
  }
  return cut;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LandmarkKeys>> CpuLandmarks::Keep(std::vector<Bf16> keys) {
  return std::make_unique<KeysInRam>(std::move(keys));
}

void CpuLandmarks::Search(std::span<LandmarkQuery> queries) {
  scans_.clear();
  parts_.resize(std::max(parts_.size(), queries.size()));
  for (size_t q = 0; q < queries.size(); ++q) {
    const int64_t candidates = queries[q].candidates();
    const int64_t parts = (candidates + kScanTile - 1) / kScanTile;
    parts_[q].assign(static_cast<size_t>(parts), {});
    for (int64_t part = 0; part < parts; ++part) {
      scans_.push_back({q, static_cast<size_t>(part), part * kScanTile,
                        std::min((part + 1) * kScanTile, candidates)});
    }
  }
  threads_->pool.ParallelFor(static_cast<int64_t>(scans_.size()), [&](int64_t i, int worker) {
    const Scan& scan = scans_[static_cast<size_t>(i)];
    const LandmarkQuery& query = queries[scan.query];
    std::vector<ScoredCandidate>& best = parts_[scan.query][scan.part];
    best = kernels::LandmarkTopK(threads_->context(worker), query.u,
                                 Cut(query, scan.begin, scan.end), query.n);
    for (ScoredCandidate& candidate : best) candidate.candidate += scan.begin;
  });
  for (size_t q = 0; q < queries.size(); ++q) {
    queries[q].status = absl::OkStatus();
    queries[q].best = parts_[q].size() == 1 ? std::move(parts_[q][0])
                                            : kernels::MergeTopK(parts_[q], queries[q].n);
  }
}

}  // namespace recollect::engine
