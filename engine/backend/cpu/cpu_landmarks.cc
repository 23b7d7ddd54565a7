#include "engine/backend/cpu/cpu_landmarks.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace recollect::engine {
namespace {

using kernels::KeySegment;
using kernels::ScoredCandidate;

// Candidates one thread scans at a time. At 512 numbers a key that is 8 MB of keys, some hundreds
// of microseconds: enough to pay for handing it to another thread, little enough to share a scan of
// a million tokens (16 000 keys) between two.
constexpr int64_t kScanTile = 8192;

// Of keys with lists, the part that is scored, and at least this many for each hit asked for: what
// was measured is in docs/decisions/0027-approximate-search.md.
constexpr int64_t kKeysPerScored = 4;
constexpr int64_t kScoredPerHit = 64;

}  // namespace

// Keys [count, d_k], in order or in that of their lists.
struct CpuLandmarks::Kept {
  std::vector<Bf16> keys;
  std::shared_ptr<const LandmarkLists> lists;  // null: none
};

class CpuLandmarks::KeysInRam final : public LandmarkKeys {
 public:
  explicit KeysInRam(std::vector<Bf16> keys) : kept_(std::make_shared<Kept>()) {
    kept_->keys = std::move(keys);
  }
  absl::Status Append(std::span<const Bf16> keys) override {
    MutexLock lock(mutex_);
    kept_->keys.insert(kept_->keys.end(), keys.begin(), keys.end());
    return absl::OkStatus();
  }
  absl::Status UseLists(ListedKeys listed) override {
    auto kept = std::make_shared<Kept>();
    kept->keys = std::move(listed.keys);
    kept->lists = std::move(listed.lists);
    MutexLock lock(mutex_);
    std::swap(kept_, kept);
    return absl::OkStatus();
  }
  std::shared_ptr<const Kept> kept() const {
    MutexLock lock(mutex_);
    return kept_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<LandmarkKeys>> CpuLandmarks::Keep(std::vector<Bf16> keys) {
  return std::make_unique<KeysInRam>(std::move(keys));
}

// The lists whose centroids score best, until they have enough keys.
void CpuLandmarks::ChooseLists(kernels::OpContext& ctx, const LandmarkQuery& query, Run& run) {
  const LandmarkLists& lists = *run.kept->lists;
  const int64_t enough =
      std::max(run.count / kKeysPerScored, int64_t{kScoredPerHit} * std::max(query.n, 0));
  std::vector<int64_t> chosen;
  if (enough < run.count) {
    const KeySegment centroids{lists.centroids.data(), lists.lists()};
    int64_t keys = 0;
    for (const ScoredCandidate& list : kernels::LandmarkTopK(ctx, query.u, std::span(&centroids, 1),
                                                             static_cast<int>(lists.lists()))) {
      if (keys >= enough) break;
      const auto l = static_cast<size_t>(list.candidate);
      keys += lists.begins[l + 1] - lists.begins[l];
      chosen.push_back(list.candidate);
    }
    std::sort(chosen.begin(), chosen.end());
  }
  const auto add = [&](int64_t begin, int64_t end) {
    run.stretches.push_back({run.kept->keys.data() + begin * lists.d_k, end - begin, run.first,
                             lists.order.data() + begin});
  };
  if (chosen.empty()) add(0, run.count);
  for (size_t i = 0; i < chosen.size();) {
    size_t last = i;
    while (last + 1 < chosen.size() && chosen[last + 1] == chosen[last] + 1) ++last;
    const int64_t begin = lists.begins[static_cast<size_t>(chosen[i])],
                  end = lists.begins[static_cast<size_t>(chosen[last]) + 1];
    if (begin < end) add(begin, end);
    i = last + 1;
  }
}

void CpuLandmarks::Score(kernels::OpContext& ctx, const LandmarkQuery& query, Scan& scan) {
  std::vector<KeySegment> segments;
  for (const Stretch& stretch : scan.stretches) segments.push_back({stretch.keys, stretch.count});
  scan.best = kernels::LandmarkTopK(ctx, query.u, segments, query.n);
  for (ScoredCandidate& found : scan.best) {
    int64_t at = found.candidate;
    size_t s = 0;
    while (at >= scan.stretches[s].count) at -= scan.stretches[s++].count;
    const Stretch& stretch = scan.stretches[s];
    found.candidate = stretch.first + (stretch.order == nullptr ? at : stretch.order[at]);
  }
}

void CpuLandmarks::Search(std::span<LandmarkQuery> queries) {
  runs_.clear();
  scans_.clear();
  bool lists = false;
  for (size_t q = 0; q < queries.size(); ++q) {
    int64_t first = 0;
    for (const KeyRun& keys : queries[q].runs) {
      if (keys.count == 0) continue;
      Run& run = runs_.emplace_back();
      run.query = q;
      run.first = first;
      run.count = keys.count;
      run.kept = static_cast<const KeysInRam*>(keys.keys)->kept();
      lists = lists || run.kept->lists != nullptr;
      first += keys.count;
    }
  }
  const auto choose = [&](int64_t i, int worker) {
    Run& run = runs_[static_cast<size_t>(i)];
    if (run.kept->lists != nullptr) {
      ChooseLists(threads_->context(worker), queries[run.query], run);
    } else {
      run.stretches.push_back({run.kept->keys.data(), run.count, run.first, nullptr});
    }
  };
  const auto runs = static_cast<int64_t>(runs_.size());
  if (lists) {
    threads_->pool.ParallelFor(runs, choose);
  } else {
    for (int64_t i = 0; i < runs; ++i) choose(i, 0);
  }

  int64_t room = 0;  // in the last scan
  for (const Run& run : runs_) {
    const auto width = static_cast<int64_t>(queries[run.query].u.size());
    if (scans_.empty() || scans_.back().query != run.query) room = 0;
    for (Stretch rest : run.stretches) {
      while (rest.count > 0) {
        if (room == 0) {
          scans_.emplace_back().query = run.query;
          room = kScanTile;
        }
        Stretch part = rest;
        part.count = std::min(room, rest.count);
        scans_.back().stretches.push_back(part);
        room -= part.count;
        rest.keys += part.count * width;
        rest.count -= part.count;
        if (rest.order != nullptr) {
          rest.order += part.count;
        } else {
          rest.first += part.count;
        }
      }
    }
  }
  threads_->pool.ParallelFor(static_cast<int64_t>(scans_.size()), [&](int64_t i, int worker) {
    Scan& scan = scans_[static_cast<size_t>(i)];
    Score(threads_->context(worker), queries[scan.query], scan);
  });
  size_t scan = 0;
  std::vector<std::vector<ScoredCandidate>> parts;
  for (size_t q = 0; q < queries.size(); ++q) {
    parts.clear();
    for (; scan < scans_.size() && scans_[scan].query == q; ++scan) {
      parts.push_back(std::move(scans_[scan].best));
    }
    queries[q].status = absl::OkStatus();
    queries[q].best =
        parts.size() == 1 ? std::move(parts[0]) : kernels::MergeTopK(parts, queries[q].n);
  }
  runs_.clear();  // keys that were replaced meanwhile go
}

}  // namespace recollect::engine
