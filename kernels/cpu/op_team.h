// Threads that share the parts of one op after another, for steps of so few rows that an op is all
// there is to divide.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

#include "base/sync/mutex.h"
#include "kernels/cpu/op_context.h"
#include "kernels/cpu/read_ahead.h"

namespace recollect::kernels {

// A single thread leads: it runs the ops, with OpContext::set_team. Any number of others serve.
// Between ops, which are microseconds apart, they wait by looking again and again rather than by
// sleeping.
class OpTeam {
 public:
  using Part = std::function<void(OpContext& own, int part)>;
  static constexpr int kMaxParts = (1 << 16) - 1;

  // Runs body(own, part) for each part in [0, parts) once, on the leader and on whoever serves, and
  // returns when all are done. Which thread runs which part is not fixed; nothing may depend on it.
  // `own` is the context of the thread. Of what the parts throw, the leader gets the first.
  // 1 <= parts <= kMaxParts. Only the leader calls it.
  void Share(OpContext& own, int parts, const Part& body);

  // Lists what those who serve ask memory for while they wait. Only the leader writes the list.
  ReadAhead& ahead() { return ahead_; }

  // Runs parts until Dismiss() is called. `own` is this thread's.
  void Serve(OpContext& own);
  // Lets all who serve return. There is nothing to share afterwards.
  void Dismiss() { dismissed_.store(true, std::memory_order_release); }

 private:
  // Takes and runs parts of the round at hand until none is left.
  void RunParts(OpContext& own);

  static constexpr size_t kLine = 64;  // bytes that caches exchange

  // Parts (32 bits), and how often one was asked for (32 bits), which is more often than there are
  // parts: in one word, so that who asks gets a part of the round at hand or none.
  alignas(kLine) std::atomic<uint64_t> tickets_ = 0;
  std::atomic<const Part*> body_ = nullptr;
  std::atomic<bool> dismissed_ = false;
  // Written by who is done while others read the line above.
  alignas(kLine) std::atomic<int> done_ = 0;
  std::atomic<bool> failed_ = false;
  alignas(kLine) ReadAhead ahead_;
  Mutex mutex_;
  std::exception_ptr error_ ABSL_GUARDED_BY(mutex_);
};

// Gives the leader of a team the parts of an op's first half, and those who serve the parts of the
// second half, so that these know what to ask for ahead (read_ahead.h), and each goes on in memory
// where the part before ended. Whoever is done with a half takes the last parts of the other.
class TwoHalves {
 public:
  explicit TwoHalves(int parts) : parts_(parts), half_(FirstOfSecond(parts)) {}
  // Returns the first part of the second half.
  static constexpr int FirstOfSecond(int parts) { return parts / 2; }
  // Returns each part once, if called for each. `own`: the context of the thread that asks.
  int Next(const OpContext& own) {
    if (own.has_team()) {
      const int at = led_++;
      return at < half_ ? at : parts_ - 1 - (at - half_);
    }
    const int at = half_ + served_.fetch_add(1, std::memory_order_relaxed);
    return at < parts_ ? at : half_ - 1 - (at - parts_);
  }

 private:
  const int parts_, half_;
  int led_ = 0;  // the leader's alone
  alignas(64) std::atomic<int> served_ = 0;
};

}  // namespace recollect::kernels
