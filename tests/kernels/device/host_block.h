// Runs the thread blocks of the CUDA kernels (kernels/block/thread_block.h) on the host: the
// kernels' code, block by block and thread by thread, in four orders that must give the same bits.
//   RunBlocks<Shared>(order, count, threads, [&](HostBlock& block, Shared& shared, int64_t i) { …
//   });
// The orders by phase reveal threads of one phase that depend on each other. In the orders by warp,
// one warp runs alone until a barrier stops it, which reveals a missing barrier: a warp that should
// have waited reads what was there before. Asynchronous copies take effect at once, or, in reversed
// orders, when they are awaited.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/block/thread_block.h"

namespace recollect::kernels {

// The order of blocks, of threads in a phase, and of warps between barriers.
enum class HostOrder { kPhases, kPhasesReversed, kWarps, kWarpsReversed };

inline constexpr HostOrder kHostOrders[] = {HostOrder::kPhases, HostOrder::kPhasesReversed,
                                            HostOrder::kWarps, HostOrder::kWarpsReversed};

inline bool IsReversed(HostOrder order) {
  return order == HostOrder::kPhasesReversed || order == HostOrder::kWarpsReversed;
}

// Lets one warp of a block run at a time, each up to its next barrier, in order or in reverse.
class WarpTurns {
 public:
  WarpTurns(int warps, bool reversed)
      : warps_(warps), reversed_(reversed), next_(static_cast<size_t>(warps)) {}
  // Waits for the first turn of a warp, before its first instruction.
  void Begin(int warp) {
    std::unique_lock lock(mutex_);
    next_[warp].wait(lock, [&] { return Turn() == warp; });
  }
  void Barrier(int warp) {
    std::unique_lock lock(mutex_);
    const int64_t round = passed_ / warps_ + 1;
    RECOLLECT_CHECK(ended_ == 0);  // a warp that has returned does not come to this barrier
    ++passed_;
    next_[Turn()].notify_one();
    next_[warp].wait(lock, [&] { return passed_ / warps_ == round && Turn() == warp; });
  }
  void End() {
    std::unique_lock lock(mutex_);
    ++ended_;
    ++passed_;
    next_[Turn()].notify_one();
  }

 private:
  int Turn() const {
    const auto place = static_cast<int>(passed_ % warps_);
    return reversed_ ? warps_ - 1 - place : place;
  }

  const int warps_;
  const bool reversed_;
  std::mutex mutex_;
  std::vector<std::condition_variable> next_;  // of each warp
  int64_t passed_ = 0;                         // barriers and ends, over all warps
  int ended_ = 0;
};

// A block, or one warp of it that takes turns with the others.
class HostBlock {
 public:
  HostBlock(int first, int threads, bool reversed, WarpTurns* turns)
      : first_(first), threads_(threads), reversed_(reversed), turns_(turns) {}

  template <typename T>
  class PerThread {
   public:
    // Begins as NaN, so that a read before a write shows.
    explicit PerThread(const HostBlock& block)
        : first_(block.first_), values_(static_cast<size_t>(block.threads_)) {
      std::memset(static_cast<void*>(values_.data()), 0xff, values_.size() * sizeof(T));
    }
    T& operator[](int thread) { return values_[static_cast<size_t>(thread - first_)]; }

   private:
    int first_;
    std::vector<T> values_;
  };

  template <typename Function>
  void Run(Function function) {
    for (int i = 0; i < threads_; ++i) function(first_ + (reversed_ ? threads_ - 1 - i : i));
  }
  template <typename Function>
  void Phase(Function function) {
    Run(function);
    Barrier();
  }
  void Barrier() {
    if (turns_ != nullptr) turns_->Barrier(first_ / kWarp);
  }
  template <typename Function>
  void FirstWarps(int count, Function function) {
    const int threads = std::min(count * kWarp - first_, threads_);
    if (threads <= 0) return;
    HostBlock some(first_, threads, reversed_, nullptr);
    function(some);
  }
  // Copies at once; in reversed orders as late as allowed.
  void CopyBeside(const uint16_t* from, uint16_t* to) {
    RECOLLECT_CHECK(cuda::IsAligned(from) && cuda::IsAligned(to));
    copies_.push_back({from, to});
    if (!reversed_) AwaitCopies();
  }
  void AwaitCopies() {
    for (const auto& [from, to] : copies_) std::memcpy(to, from, 8 * sizeof(uint16_t));
    copies_.clear();
  }
  template <int kCount>
  void XorSum(PerThread<cuda::Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return cuda::Add(a, b); });
  }
  template <int kCount>
  void XorMax(PerThread<cuda::Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return cuda::Max(a, b); });
  }
  int Increment(int* counter) { return (*counter)++; }
  void AddTo(uint32_t* sum, uint32_t number) { *sum += number; }
  void AddTo(uint64_t* sum, uint64_t number) { *sum += number; }
  template <bool kTransposed, int kCount>
  void LoadMatrices(PerThread<const uint16_t*>& rows, PerThread<cuda::Words<kCount>>& to, int at) {
    for (int t = first_; t < first_ + threads_; ++t) {
      const int warp = t / kWarp * kWarp, g = t % kWarp / 4, p = 2 * (t % 4);
      for (int m = 0; m < 4; ++m) {
        const int first = warp + 8 * m;  // of the lanes with this matrix's rows
        RECOLLECT_CHECK(cuda::IsAligned(rows[first + g]));
        const uint32_t low = kTransposed ? rows[first + p][g] : rows[first + g][p];
        const uint32_t high = kTransposed ? rows[first + p + 1][g] : rows[first + g][p + 1];
        to[t].v[at + m] = high << 16 | low;
      }
    }
  }
  // Adds in double and rounds once, since nobody knows the order of a device.
  template <int kA, int kB, int kC>
  void MultiplyAdd(PerThread<cuda::Words<kA>>& a, int a_at, PerThread<cuda::Words<kB>>& b, int b_at,
                   PerThread<cuda::Floats<kC>>& c, int c_at) {
    for (int warp = first_; warp < first_ + threads_; warp += kWarp) {
      double x[16][16], y[16][8], sums[16][8];
      for (int lane = 0; lane < kWarp; ++lane) {
        const int g = lane / 4, p = 2 * (lane % 4);
        for (int half = 0; half < 2; ++half) {
          for (int w = 0; w < 4; ++w) {
            x[g + 8 * (w % 2)][p + 8 * (w / 2) + half] =
                cuda::FromBf16(static_cast<uint16_t>(a[warp + lane].v[a_at + w] >> 16 * half));
          }
          for (int w = 0; w < 2; ++w) {
            y[p + 8 * w + half][g] =
                cuda::FromBf16(static_cast<uint16_t>(b[warp + lane].v[b_at + w] >> 16 * half));
          }
        }
      }
      const auto for_all = [&](const auto& function) {
        for (int lane = 0; lane < kWarp; ++lane) {
          for (int i = 0; i < 4; ++i) {
            function(c[warp + lane].v[c_at + i],
                     sums[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2]);
          }
        }
      };
      for_all([](float number, double& sum) { sum = number; });
      for (int row = 0; row < 16; ++row) {
        for (int k = 0; k < 16; ++k) {
          for (int column = 0; column < 8; ++column) sums[row][column] += x[row][k] * y[k][column];
        }
      }
      for_all([](float& number, double sum) { number = static_cast<float>(sum); });
    }
  }

  static constexpr int kWarp = cuda::kMatrixWarp;

 private:
  template <int kCount, typename Operation>
  void Exchange(PerThread<cuda::Floats<kCount>>& values, int lanes, Operation operation) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      PerThread<cuda::Floats<kCount>> before = values;
      for (int t = first_; t < first_ + threads_; ++t) {
        for (int i = 0; i < kCount; ++i) {
          values[t].v[i] = operation(before[t].v[i], before[t ^ distance].v[i]);
        }
      }
    }
  }

  const int first_;
  const int threads_;
  const bool reversed_;
  WarpTurns* const turns_;
  std::vector<std::pair<const uint16_t*, uint16_t*>> copies_;  // that nobody has awaited
};

// Runs blocks 0 to count - 1 of `threads` each: body(block, shared, i). Shared memory is set to NaN
// before each block, so that a read before a write shows.
template <typename Shared, typename Body>
void RunBlocks(HostOrder order, int64_t count, int threads, Body body) {
  static_assert(std::is_trivially_copyable_v<Shared>);
  const bool reversed = IsReversed(order);
  const auto shared = std::make_unique<Shared>();
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = reversed ? count - 1 - n : n;
    std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(Shared));
    if (order == HostOrder::kPhases || order == HostOrder::kPhasesReversed) {
      HostBlock block(0, threads, reversed, nullptr);
      body(block, *shared, i);
      continue;
    }
    const int warps = threads / HostBlock::kWarp;
    WarpTurns turns(warps, reversed);
    std::vector<std::thread> running;
    for (int warp = 0; warp < warps; ++warp) {
      running.emplace_back([&, warp] {
        turns.Begin(warp);
        HostBlock block(warp * HostBlock::kWarp, HostBlock::kWarp, reversed, &turns);
        body(block, *shared, i);
        turns.End();
      });
    }
    for (std::thread& thread : running) thread.join();
  }
}

}  // namespace recollect::kernels
