// A fixed pool of threads. Kernels are serial; model and engine hand independent tiles of work to
// this pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace recollect {

// Thread-safe. Destruction waits for running work. Of what work throws (std::bad_alloc, that
// is) the caller gets the first; the rest of that work is left out then.
class ThreadPool {
 public:
  // `threads` >= 1 counts the caller of ParallelFor, so a pool of 1 starts no thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Runs body(index, worker) for index in [0, count) and returns when all are done; 0 <= worker <
  // threads() names the running thread, so that each can own scratch memory. The caller takes part.
  // Which worker runs which index is not fixed; nothing may depend on it. Several threads may call
  // it at once; `body` must not call it.
  void ParallelFor(int64_t count, const std::function<void(int64_t index, int worker)>& body);

  // Runs body(index, worker) for index in [0, threads()), as ParallelFor does, for calls that
  // follow each other closely: whoever took part looks for the next one for a moment without
  // sleeping.
  void Gather(const std::function<void(int64_t index, int worker)>& body);

  // Runs body(row, column, worker) over a grid so that (row, column) starts after (row - 1, column)
  // and (row, column - 1): the wavefront of slices (rows) and layers (columns) in design section 3.
  // then(row, worker), if given, starts after the row's last column and does not wait for another
  // row's `then`. The first `free_rows` rows and the one after them wait for no other row.
  void Wavefront(int64_t rows, int64_t columns,
                 const std::function<void(int64_t row, int64_t column, int worker)>& body,
                 const std::function<void(int64_t row, int worker)>& then = nullptr,
                 int64_t free_rows = 0);

  // Lets others work within a long job. Called on the thread that called the pool, between two
  // items that it runs, so every few milliseconds at most; it may call the pool, whose threads then
  // take items of the long job only while there are no others. `spent_ns`: what the items that have
  // ended took so far, as if all threads had shared them evenly.
  using Pause = std::function<void(const std::atomic<int64_t>& spent_ns)>;

  // The same wavefront, which calls `pause` if there is one.
  void PausingWavefront(int64_t rows, int64_t columns,
                        const std::function<void(int64_t row, int64_t column, int worker)>& body,
                        const std::function<void(int64_t row, int worker)>& then,
                        const Pause& pause);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect
