#include "base/sync/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/memory.h"
#include "base/sync/mutex.h"
#include "base/sync/patience.h"

namespace recollect {
namespace {

using Clock = std::chrono::steady_clock;

// Time for which a thread, rather than go on with a job that pauses, stays free for the next one
// of several jobs that follow each other: an item of a long job takes longer than what is between.
constexpr std::chrono::microseconds kLinger(200);

// Time for which threads look for what follows a Gather without sleeping: the steps of a token are
// less apart, and each would wait for threads to wake up.
constexpr std::chrono::microseconds kAwake(100);
constexpr int kLooks = 200;  // some 10 microseconds

// One ParallelFor or Wavefront, guarded by the pool's mutex: a tile of work takes microseconds to
// milliseconds, so a short lock per tile is far below it.
class Job {
 public:
  explicit Job(int64_t items) : unfinished(items) {}
  virtual ~Job() = default;
  virtual bool HasReady() const = 0;
  virtual int64_t Take() = 0;                      // REQUIRES: HasReady()
  virtual void Run(int64_t item, int worker) = 0;  // without the lock
  virtual bool Finish(int64_t item) = 0;           // true when items became ready by this

  int64_t unfinished;
  std::exception_ptr error;  // the first; nothing runs after it
  bool gathers = false;      // who runs an item stays awake afterwards
  // Of a job that lets others go first: what its caller calls between items; else null.
  const ThreadPool::Pause* pause = nullptr;
  bool resting = false;              // while its caller is in `pause`
  std::atomic<int64_t> spent_ns{0};  // counted for `pause` alone
};

class ForJob final : public Job {
 public:
  ForJob(int64_t count, const std::function<void(int64_t, int)>& body)
      : Job(count), end_(count), body_(body) {}
  bool HasReady() const override { return next_ < end_; }
  int64_t Take() override { return next_++; }
  void Run(int64_t item, int worker) override { body_(item, worker); }
  bool Finish(int64_t) override { return false; }

 private:
  int64_t next_ = 0;
  const int64_t end_;
  const std::function<void(int64_t, int)>& body_;
};

// A row runs one column at a time, and never gets ahead of the row before it unless it is free;
// `then` is one column more, in which rows do not wait for each other. The earliest ready row goes
// first, which keeps the front narrow and its state in cache.
class WavefrontJob final : public Job {
 public:
  WavefrontJob(int64_t rows, int64_t columns,
               const std::function<void(int64_t, int64_t, int)>& body,
               const std::function<void(int64_t, int)>& then, int64_t free_rows)
      : Job(rows * (columns + (then ? 1 : 0))),
        ordered_(columns),
        columns_(columns + (then ? 1 : 0)),
        free_rows_(free_rows),
        done_(rows, 0),
        running_(rows, false),
        body_(body),
        then_(then) {}
  bool HasReady() const override { return FirstReady() >= 0; }
  int64_t Take() override {
    const int64_t row = FirstReady();
    running_[row] = true;
    return row * columns_ + done_[row];
  }
  void Run(int64_t item, int worker) override {
    const int64_t row = item / columns_, column = item % columns_;
    column < ordered_ ? body_(row, column, worker) : then_(row, worker);
  }
  bool Finish(int64_t item) override {
    const int64_t row = item / columns_;
    running_[row] = false;
    ++done_[row];
    while (first_ < rows() && done_[first_] == columns_) ++first_;
    return Ready(row) || (row + 1 < rows() && Ready(row + 1));
  }

 private:
  int64_t rows() const { return static_cast<int64_t>(done_.size()); }
  bool Ready(int64_t row) const {
    return !running_[row] && done_[row] < columns_ &&
           (row == 0 || row <= free_rows_ || done_[row] == ordered_ || done_[row - 1] > done_[row]);
  }
  int64_t FirstReady() const {
    for (int64_t row = first_; row < rows(); ++row) {
      if (Ready(row)) return row;
      if (done_[row] == 0 && row >= free_rows_) break;  // no later row can have started
    }
    return -1;
  }

  const int64_t ordered_, columns_, free_rows_;
  int64_t first_ = 0;  // rows before it are complete
  std::vector<int64_t> done_;
  std::vector<bool> running_;
  const std::function<void(int64_t, int64_t, int)>& body_;
  const std::function<void(int64_t, int)>& then_;
};

}  // namespace

// Worker numbers are lent per item, to pool threads and callers alike: callers and pool threads
// together can be more than `threads`, but no two bodies run under one number at a time.
struct ThreadPool::State {
  explicit State(int count) : threads(count) {
    for (int worker = threads - 1; worker >= 0; --worker) free_workers.push_back(worker);
    for (int i = 1; i < threads; ++i) started.emplace_back([this] { ThreadMain(); });
  }

  ~State() {
    {
      MutexLock lock(mutex);
      stopping = true;
    }
    Notify();
    for (std::thread& thread : started) thread.join();
  }

  void ThreadMain() {
    MutexLock lock(mutex);
    while (true) {
      Job* const job = NextJob();
      if (const Clock::duration free = TimeToStayFree(job); free > Clock::duration::zero()) {
        ++staying_free;
        if (!LookForChange()) changed.wait_for(lock, free);
        --staying_free;
      } else if (job != nullptr && !free_workers.empty()) {
        // Jobs take turns, so that a long one does not starve the others.
        std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
        RunOne(job, /*caller=*/false);
      } else if (stopping && jobs.empty()) {
        return;
      } else {
        Wait(lock, job != nullptr);
      }
    }
  }

  // The first with anything ready, of those that pause only where there is no other.
  Job* NextJob() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Job* pausing = nullptr;
    for (Job* job : jobs) {
      if ((job->pause != nullptr && pausing != nullptr) || !job->HasReady()) continue;
      if (job->pause == nullptr) return job;
      pausing = job;
    }
    return pausing;
  }

  Clock::duration TimeToStayFree(const Job* job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (job == nullptr || !job->resting) return Clock::duration::zero();
    return last_shared + kLinger - Clock::now();
  }

  void RunJob(Job* job) {
    const bool shared = job->pause == nullptr && job->unfinished > 1;
    MutexLock lock(mutex);
    jobs.push_back(job);  // from here on until it is out of the list nothing may throw
    if (shared) last_shared = Clock::now();
    if (!started.empty() && job->unfinished > 1) Notify();
    while (job->unfinished > 0) {
      if (job->pause != nullptr) {
        CallPause(job);
        if (job->unfinished == 0) break;
      }
      const bool ready = job->HasReady();
      if (ready && !free_workers.empty()) {
        RunOne(job, /*caller=*/true);
      } else {
        Wait(lock, ready);
      }
    }
    if (shared) last_shared = Clock::now();
    if (job->error) std::rethrow_exception(job->error);
  }

  void RunOne(Job* job, bool caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const int worker = free_workers.back();
    free_workers.pop_back();
    const int64_t item = job->Take();
    const bool runs = !job->error;
    mutex.unlock();
    std::exception_ptr error;
    if (runs)
      error = job->pause != nullptr ? TimeItem(job, item, worker) : RunItem(job, item, worker);
    mutex.lock();
    if (error && !job->error) job->error = std::move(error);
    free_workers.push_back(worker);
    if (job->gathers) awake_until = Clock::now() + kAwake;
    bool notify = job->Finish(item) || waiting_for_worker > 0;
    if (--job->unfinished == 0) {
      // From here the caller may destroy the job as soon as the lock is free.
      jobs.erase(std::find(jobs.begin(), jobs.end(), job));
      notify = notify || !caller || stopping;
    }
    if (notify) Notify();
  }

  static std::exception_ptr RunItem(Job* job, int64_t item, int worker) {
    try {
      const MemoryScope scope(MemoryScope::kLeave);
      job->Run(item, worker);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  std::exception_ptr TimeItem(Job* job, int64_t item, int worker) {
    const auto begin = Clock::now();
    std::exception_ptr error = RunItem(job, item, worker);
    const std::chrono::nanoseconds took = Clock::now() - begin;
    job->spent_ns.fetch_add(took.count() / threads, std::memory_order_relaxed);
    return error;
  }

  void CallPause(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    job->resting = true;
    last_shared = Clock::now();
    mutex.unlock();
    std::exception_ptr error;
    try {
      (*job->pause)(job->spent_ns);
    } catch (...) {
      error = std::current_exception();
    }
    mutex.lock();
    job->resting = false;
    if (staying_free > 0) Notify();
    if (error && !job->error) job->error = std::move(error);
  }

  void Wait(MutexLock& lock, bool for_worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    waiting_for_worker += for_worker ? 1 : 0;
    if (!LookForChange()) changed.wait(lock);
    waiting_for_worker -= for_worker ? 1 : 0;
  }

  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    changes.fetch_add(1, std::memory_order_relaxed);
    changed.notify_all();
  }

  // Waits for Notify as long as threads stay awake, without the lock. Returns whether it came.
  // Not analysed: the lock is tried for, since who waits for it sleeps.
  bool LookForChange() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto until = awake_until;
    if (Clock::now() >= until) return false;
    const uint32_t seen = changes.load(std::memory_order_relaxed);
    mutex.unlock();
    Patience patience(kLooks);
    while (changes.load(std::memory_order_relaxed) == seen && Clock::now() < until) patience.Wait();
    while (!mutex.try_lock()) patience.Wait();
    return changes.load(std::memory_order_relaxed) != seen;
  }

  const int threads;
  Mutex mutex;
  std::condition_variable changed;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  int waiting_for_worker ABSL_GUARDED_BY(mutex) = 0;
  int staying_free ABSL_GUARDED_BY(mutex) = 0;  // threads
  std::atomic<uint32_t> changes{0};             // calls of Notify
  Clock::time_point awake_until ABSL_GUARDED_BY(mutex);
  // A job that threads share began or ended then, or a pause began, in which such jobs may follow.
  Clock::time_point last_shared ABSL_GUARDED_BY(mutex);
  std::deque<Job*> jobs ABSL_GUARDED_BY(mutex);
  // Last in, first out: a thread tends to keep its number.
  std::vector<int> free_workers ABSL_GUARDED_BY(mutex);
  std::vector<std::thread> started;
};

ThreadPool::ThreadPool(int threads) {
  RECOLLECT_CHECK(threads >= 1);
  state_ = std::make_unique<State>(threads);
}
ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::ParallelFor(int64_t count,
                             const std::function<void(int64_t index, int worker)>& body) {
  if (count <= 0) return;
  ForJob job(count, body);
  state_->RunJob(&job);
}

void ThreadPool::Gather(const std::function<void(int64_t index, int worker)>& body) {
  ForJob job(threads(), body);
  job.gathers = true;
  state_->RunJob(&job);
}

void ThreadPool::Wavefront(int64_t rows, int64_t columns,
                           const std::function<void(int64_t row, int64_t column, int worker)>& body,
                           const std::function<void(int64_t row, int worker)>& then,
                           int64_t free_rows) {
  if (rows <= 0 || columns <= 0) return;
  WavefrontJob job(rows, columns, body, then, free_rows);
  state_->RunJob(&job);
}

void ThreadPool::PausingWavefront(int64_t rows, int64_t columns,
                                  const std::function<void(int64_t, int64_t, int)>& body,
                                  const std::function<void(int64_t, int)>& then,
                                  const Pause& pause) {
  if (rows <= 0 || columns <= 0) return;
  WavefrontJob job(rows, columns, body, then, /*free_rows=*/0);
  if (pause) job.pause = &pause;
  state_->RunJob(&job);
}

}  // namespace recollect
