#include "base/sync/thread_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/memory.h"
#include "base/sync/mutex.h"

namespace recollect {
namespace {

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
    changed.notify_all();
    for (std::thread& thread : started) thread.join();
  }

  void ThreadMain() {
    MutexLock lock(mutex);
    while (true) {
      Job* job = nullptr;
      for (Job* candidate : jobs) {
        if (candidate->HasReady()) {
          job = candidate;
          break;
        }
      }
      if (job != nullptr && !free_workers.empty()) {
        // Jobs take turns, so that a long one does not starve the others.
        std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
        RunOne(job);
      } else if (stopping && jobs.empty()) {
        return;
      } else {
        Wait(lock, job != nullptr);
      }
    }
  }

  void RunJob(Job* job) {
    MutexLock lock(mutex);
    jobs.push_back(job);  // from here on until it is out of the list nothing may throw
    if (!started.empty()) changed.notify_all();
    while (job->unfinished > 0) {
      const bool ready = job->HasReady();
      if (ready && !free_workers.empty()) {
        RunOne(job);
      } else {
        Wait(lock, ready);
      }
    }
    if (job->error) std::rethrow_exception(job->error);
  }

  void RunOne(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const int worker = free_workers.back();
    free_workers.pop_back();
    const int64_t item = job->Take();
    const bool runs = !job->error;
    mutex.unlock();
    std::exception_ptr error;
    if (runs) error = RunItem(job, item, worker);
    mutex.lock();
    if (error && !job->error) job->error = std::move(error);
    free_workers.push_back(worker);
    bool notify = job->Finish(item) || waiting_for_worker > 0;
    if (--job->unfinished == 0) {
      // From here the caller may destroy the job as soon as the lock is free.
      jobs.erase(std::find(jobs.begin(), jobs.end(), job));
      notify = true;
    }
    if (notify) changed.notify_all();
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

  void Wait(MutexLock& lock, bool for_worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    waiting_for_worker += for_worker ? 1 : 0;
    changed.wait(lock);
    waiting_for_worker -= for_worker ? 1 : 0;
  }

  const int threads;
  Mutex mutex;
  std::condition_variable changed;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  int waiting_for_worker ABSL_GUARDED_BY(mutex) = 0;
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

void ThreadPool::Wavefront(int64_t rows, int64_t columns,
                           const std::function<void(int64_t row, int64_t column, int worker)>& body,
                           const std::function<void(int64_t row, int worker)>& then,
                           int64_t free_rows) {
  if (rows <= 0 || columns <= 0) return;
  WavefrontJob job(rows, columns, body, then, free_rows);
  state_->RunJob(&job);
}

}  // namespace recollect
