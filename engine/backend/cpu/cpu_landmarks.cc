#include "engine/backend/cpu/cpu_landmarks.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>

#include "base/io/log.h"
#include "base/memory.h"

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
// Queries that share a pass over sketches in one search: more take megabytes each.
constexpr size_t kMaxTogether = 16;
// Blocks between two looks at whether the sketch is still wanted.
constexpr int64_t kEncodeBlocks = 256;

}  // namespace

// Keys [count, d_k], in order or in that of their lists.
struct CpuLandmarks::Kept {
  LargeVector<Bf16> keys;
  std::shared_ptr<const LandmarkLists> lists;  // null: none

  // Of the first keys; null: none, or not yet. Whoever finds it may use it as long as the keys.
  const kernels::LandmarkSketch* sketch() const { return ready.load(std::memory_order_acquire); }
  std::unique_ptr<kernels::LandmarkSketch> made;
  std::atomic<const kernels::LandmarkSketch*> ready{nullptr};
  bool begun = false;                  // of a sketch, whatever came of it
  std::atomic<bool> making{false};     // keys must stay where they are
  std::atomic<bool> abandoned{false};  // no search uses them any more
};

class CpuLandmarks::KeysInRam final : public LandmarkKeys {
 public:
  KeysInRam(CpuLandmarks& owner, LargeVector<Bf16> keys)
      : owner_(owner), kept_(owner.MakeKept(std::move(keys), nullptr)) {}
  ~KeysInRam() override { kept_->abandoned = true; }
  absl::Status Append(std::span<const Bf16> keys) override {
    MutexLock lock(mutex_);
    LargeVector<Bf16>& all = kept_->keys;
    if (all.capacity() - all.size() < keys.size()) kept_->making.wait(true);
    all.insert(all.end(), keys.begin(), keys.end());
    owner_.FollowKeys(kept_);
    return absl::OkStatus();
  }
  absl::Status UseLists(ListedKeys listed) override {
    std::shared_ptr<Kept> kept = owner_.MakeKept(std::move(listed.keys), std::move(listed.lists));
    MutexLock lock(mutex_);
    std::swap(kept_, kept);
    kept->abandoned = true;
    return absl::OkStatus();
  }
  std::shared_ptr<const Kept> kept() const {
    MutexLock lock(mutex_);
    return kept_;
  }

 private:
  CpuLandmarks& owner_;
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

int64_t CpuLandmarks::sketched_keys() const { return shape_.width > 0 ? kSketchedKeys : 0; }

std::shared_ptr<CpuLandmarks::Kept> CpuLandmarks::MakeKept(
    LargeVector<Bf16> keys, std::shared_ptr<const LandmarkLists> lists) {
  auto kept = std::make_shared<Kept>();
  kept->keys = std::move(keys);
  kept->lists = std::move(lists);
  if (WantsSketch(KeysIn(*kept))) BeginSketch(kept);
  return kept;
}

int64_t CpuLandmarks::KeysIn(const Kept& kept) const {
  return shape_.width > 0 ? std::ssize(kept.keys) / shape_.width : 0;
}

// By one thread beside those that compute: a step that shared a thread with it would wait.
void CpuLandmarks::BeginSketch(const std::shared_ptr<Kept>& kept) {
  MutexLock lock(maker_mutex_);
  if (maker_ == nullptr) maker_ = std::make_unique<Executor>(1);
  kept->begun = true;
  kept->making = true;
  maker_->Post([this, kept, keys = kept->keys.data(), count = KeysIn(*kept)] {
    const absl::Status made = OrExhausted("a sketch of landmark keys", [&] {
      MakeSketch(*kept, keys, count);
      return absl::OkStatus();
    });
    if (!made.ok()) LogWarning("{}: all keys are read instead", std::string(made.message()));
    kept->making = false;
    kept->making.notify_all();
  });
}

void CpuLandmarks::FollowKeys(const std::shared_ptr<Kept>& kept) {
  if (kept->lists != nullptr || !WantsSketch(KeysIn(*kept))) return;
  if (!kept->begun) {
    // Where there is no room the next keys would have to wait for the sketch.
    if (kept->keys.size() < kept->keys.capacity()) BeginSketch(kept);
    return;
  }
  // Whole blocks: fewer keys are read as they are.
  const int64_t count = KeysIn(*kept) / kernels::kSketchBlock * kernels::kSketchBlock;
  if (kept->sketch() == nullptr || count <= kept->made->count()) return;
  const absl::Status grown = OrExhausted("a sketch of landmark keys", [&] {
    kernels::OpContext ctx;
    kept->made->Grow(ctx, kept->keys.data(), count);
    return absl::OkStatus();
  });
  if (!grown.ok()) LogWarning("{}: the last keys are read instead", std::string(grown.message()));
}

void CpuLandmarks::MakeSketch(Kept& kept, const Bf16* keys, int64_t count) const {
  if (kept.abandoned) return;
  auto sketch = std::make_unique<kernels::LandmarkSketch>(shape_, keys, count);
  kernels::OpContext ctx;
  for (int64_t begin = 0; begin < sketch->blocks(); begin += kEncodeBlocks) {
    if (kept.abandoned) return;
    sketch->Encode(ctx, keys, begin, std::min(begin + kEncodeBlocks, sketch->blocks()));
  }
  kept.made = std::move(sketch);
  kept.ready.store(kept.made.get(), std::memory_order_release);
}

void CpuLandmarks::AwaitSketches() {
  std::promise<void> reached;
  {
    MutexLock lock(maker_mutex_);
    if (maker_ == nullptr || !maker_->Post([&] { reached.set_value(); })) return;
  }
  reached.get_future().wait();
}

absl::StatusOr<std::unique_ptr<LandmarkKeys>> CpuLandmarks::Keep(LargeVector<Bf16> keys) {
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
                             lists.order.data() + begin, run.sketch, begin});
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
    segments.push_back(
        {stretch.keys, stretch.count, stretch.sketch, stretch.sketch_first, stretch.sums});
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

void CpuLandmarks::Sum(std::span<LandmarkQuery> queries) {
  struct Wanted {
    Run* run = nullptr;
    size_t later = 0;  // 0: of the query itself, 1 + i: of later[i]
  };
  std::vector<Wanted> wanted;
  std::vector<std::vector<std::shared_ptr<SumsAhead>>> ahead(queries.size());
  for (size_t q = 0; q < queries.size(); ++q) {
    for (size_t i = 0; i < queries[q].later.size(); ++i) {
      ahead[q].push_back(std::make_shared<SumsAhead>());
    }
    queries[q].ahead.assign(ahead[q].begin(), ahead[q].end());
  }
  for (Run& run : runs_) {
    if (run.sketch == nullptr || run.kept->lists != nullptr) continue;
    const LandmarkQuery& query = queries[run.query];
    const auto* const known = dynamic_cast<const SumsAhead*>(query.known.get());
    const SumsOfSketch* const found =
        known == nullptr ? nullptr : known->Find(*run.sketch, query.u);
    if (found != nullptr) {
      run.sums = found->sums;
      continue;
    }
    wanted.push_back({&run, 0});
    for (size_t i = 0; i < query.later.size(); ++i) {
      if (std::ssize(query.later[i]) == run.sketch->coarse_numbers()) {
        wanted.push_back({&run, i + 1});
      }
    }
  }
  std::deque<SumsOfSketch> planned;
  for (const Wanted& one : wanted) {
    Run& run = *one.run;
    const LandmarkQuery& query = queries[run.query];
    const auto together = std::count_if(wanted.begin(), wanted.end(), [&](const Wanted& other) {
      return other.run->sketch == run.sketch;
    });
    // Alone, a query is summed along with its bounds.
    if (together < 2 || planned.size() == kMaxTogether) continue;
    const std::span<const float> numbers =
        one.later == 0 ? std::span(query.u).last(static_cast<size_t>(run.sketch->coarse_numbers()))
                       : std::span(query.later[one.later - 1]);
    const SumsOfSketch& sums = planned.emplace_back(summer_.Plan(run.kept, *run.sketch, numbers));
    if (one.later == 0) {
      run.sums = sums.sums;
    } else {
      ahead[run.query][one.later - 1]->of.push_back(sums);
    }
  }
  if (!planned.empty()) summer_.Make(planned);
}

void CpuLandmarks::Divide(std::span<const LandmarkQuery> queries) {
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
      run.sketch = run.kept->sketch();
      lists = lists || run.kept->lists != nullptr;
      first += keys.count;
    }
  }
  Sum(queries);
  const auto choose = [&](int64_t i, int worker) {
    Run& run = runs_[static_cast<size_t>(i)];
    if (run.kept->lists != nullptr) {
      ChooseLists(threads_->context(worker), queries[run.query], run);
    } else {
      const kernels::LandmarkSketch* const sketch = run.sketch;
      const int64_t sketched = sketch == nullptr ? 0 : std::min(run.count, sketch->count());
      const Bf16* const keys = run.kept->keys.data();
      if (sketched > 0) {
        run.stretches.push_back({keys, sketched, run.first, nullptr, sketch, 0,
                                 run.sums == nullptr ? nullptr : run.sums->data()});
      }
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

  Divide(queries);
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
