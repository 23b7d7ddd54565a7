// Waits by looking again and again for what another thread is about to do.
#pragma once

#include <thread>

namespace recollect {

// Not thread-safe: each thread that looks has its own.
class Patience {
 public:
  // `looks`: the calls of Wait for which the core is kept.
  explicit Patience(int looks) : looks_(looks) {}

  // Waits a little; longer, and for other threads of the machine, once it has been called often.
  void Wait() {
    if (looked_ >= looks_) return std::this_thread::yield();
    ++looked_;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  // Keeps the core again.
  void Renew() { looked_ = 0; }

 private:
  const int looks_;
  int looked_ = 0;
};

}  // namespace recollect
