#include "engine/backend/cpu/cpu_landmarks.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace recollect::engine {
namespace {

using kernels::KeySegment;
using kernels::ScoredCandidate;

// Candidates one thread scans at a time, at least: 10 MB of keys, enough to pay for handing it to
// another thread, little enough to share a scan of a million tokens (18 000 keys) between two.
// Beyond that each thread has one part: the more keys a part has, the more of them its bounds rule
// out.
constexpr int64_t kScanTile = 8192;

// Of keys with lists, the part that is scored, and at least this many for each hit asked for: what
// was measured is in docs/decisions/0027-approximate-search.md.
constexpr int64_t kKeysPerScored = 4;
constexpr int64_t kScoredPerHit = 64;

// Keys from which on a sketch is made, half a million tokens: fewer are read in a millisecond.
constexpr int64_t kSketchedKeys = 8192;
// Blocks that one thread encodes at a time.
constexpr int64_t kEncodeBlocks = 256;

}  // namespace

// Keys [count, d_k], in order or in that of their lists.
struct CpuLandmarks::Kept {
  std::vector<Bf16> keys;
  std::unique_ptr<const kernels::LandmarkSketch> sketch;  // of the first keys; null: none
  std::shared_ptr<const LandmarkLists> lists;             // null: none
};

class CpuLandmarks::KeysInRam final : public LandmarkKeys {
 public:
  KeysInRam(const CpuLandmarks& owner, std::vector<Bf16> keys)
      : owner_(owner), kept_(owner.MakeKept(std::move(keys), nullptr)) {}
  absl::Status Append(std::span<const Bf16> keys) override {
    MutexLock lock(mutex_);
    kept_->keys.insert(kept_->keys.end(), keys.begin(), keys.end());
    return absl::OkStatus();
  }
  absl::Status UseLists(ListedKeys listed) override {
    std::shared_ptr<Kept> kept = owner_.MakeKept(std::move(listed.keys), std::move(listed.lists));
    MutexLock lock(mutex_);
    std::swap(kept_, kept);
    return absl::OkStatus();
  }
  std::shared_ptr<const Kept> kept() const {
    MutexLock lock(mutex_);
    return kept_;
  }

 private:
  const CpuLandmarks& owner_;
  mutable Mutex mutex_;
  std::shared_ptr<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

bool CpuLandmarks::WantsSketch(int64_t count) const {
  return shape_.width > 0 && count >= kSketchedKeys;
}

int64_t CpuLandmarks::BytesOf(int64_t count, int64_t d_k) const {
  return LandmarkIndex::BytesOf(count, d_k) +
         (WantsSketch(count) ? kernels::LandmarkSketch::BytesOf(shape_, count) : 0);
}

std::shared_ptr<CpuLandmarks::Kept> CpuLandmarks::MakeKept(
    std::vector<Bf16> keys, std::shared_ptr<const LandmarkLists> lists) const {
  auto kept = std::make_shared<Kept>();
  kept->keys = std::move(keys);
  kept->lists = std::move(lists);
  const int64_t count = shape_.width > 0 ? std::ssize(kept->keys) / shape_.width : 0;
  if (!WantsSketch(count)) return kept;
  auto sketch = std::make_unique<kernels::LandmarkSketch>(shape_, kept->keys.data(), count);
  const int64_t blocks = sketch->blocks();
  threads_->pool.ParallelFor((blocks + kEncodeBlocks - 1) / kEncodeBlocks, [&](int64_t i, int) {
    kernels::OpContext ctx;  // a search may be using the threads' own
    sketch->Encode(ctx, kept->keys.data(), i * kEncodeBlocks,
                   std::min((i + 1) * kEncodeBlocks, blocks));
  });
  kept->sketch = std::move(sketch);
  return kept;
}

absl::StatusOr<std::unique_ptr<LandmarkKeys>> CpuLandmarks::Keep(std::vector<Bf16> keys) {
  return std::make_unique<KeysInRam>(*this, std::move(keys));
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
                             lists.order.data() + begin, run.kept->sketch.get(), begin});
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
  for (const Stretch& stretch : scan.stretches) {
    segments.push_back({stretch.keys, stretch.count, stretch.sketch, stretch.sketch_first});
  }
  scan.best = kernels::LandmarkTopK(ctx, query.u, segments, query.n, &floors_[scan.query]);
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
      const kernels::LandmarkSketch* const sketch = run.kept->sketch.get();
      const int64_t sketched = sketch == nullptr ? 0 : std::min(run.count, sketch->count());
      const Bf16* const keys = run.kept->keys.data();
      if (sketched > 0) run.stretches.push_back({keys, sketched, run.first, nullptr, sketch, 0});
      if (sketched < run.count) {  // keys that were appended
        const auto width = static_cast<int64_t>(queries[run.query].u.size());
        run.stretches.push_back({keys + sketched * width, run.count - sketched,
                                 run.first + sketched, nullptr, nullptr, 0});
      }
    }
  };
  const auto runs = static_cast<int64_t>(runs_.size());
  if (lists) {
    threads_->pool.ParallelFor(runs, choose);
  } else {
    for (int64_t i = 0; i < runs; ++i) choose(i, 0);
  }

  floors_ = std::vector<kernels::SearchFloor>(queries.size());
  std::vector<int64_t> tiles(queries.size());  // keys of a scan, of each query
  for (const Run& run : runs_) {
    for (const Stretch& stretch : run.stretches) tiles[run.query] += stretch.count;
  }
  for (int64_t& tile : tiles) {
    const int64_t threads = threads_->pool.threads();
    tile = std::max(kScanTile, (tile + threads - 1) / threads);
  }
  int64_t room = 0;  // in the last scan
  for (const Run& run : runs_) {
    const auto width = static_cast<int64_t>(queries[run.query].u.size());
    if (scans_.empty() || scans_.back().query != run.query) room = 0;
    for (Stretch rest : run.stretches) {
      while (rest.count > 0) {
        if (room == 0) {
          scans_.emplace_back().query = run.query;
          room = tiles[run.query];
        }
        Stretch part = rest;
        part.count = std::min(room, rest.count);
        scans_.back().stretches.push_back(part);
        room -= part.count;
        rest.keys += part.count * width;
        rest.count -= part.count;
        rest.sketch_first += part.count;
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
