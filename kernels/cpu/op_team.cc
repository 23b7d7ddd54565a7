#include "kernels/cpu/op_team.h"

#include <thread>
#include <utility>

#include "base/check.h"

namespace recollect::kernels {
namespace {

constexpr uint64_t kOnePart = 1;
constexpr int kPartsAt = 16, kRoundAt = 32;

int PartsOf(uint64_t tickets) { return static_cast<int>(tickets >> kPartsAt & 0xffff); }
int TakenOf(uint64_t tickets) { return static_cast<int>(tickets & 0xffff); }

// Waits a little; longer, and for other threads of the machine, once it has been called often.
class Patience {
 public:
  void Wait() {
    if (++looks_ < kLooks) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }
  void Renew() { looks_ = 0; }

 private:
  static constexpr int kLooks = 1000;  // some 20 microseconds
  int looks_ = 0;
};

}  // namespace

void OpTeam::Share(OpContext& own, int parts, const Part& body) {
  RECOLLECT_CHECK(parts >= 1 && parts <= kMaxParts);
  body_.store(&body, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint64_t round = (tickets_.load(std::memory_order_relaxed) >> kRoundAt) + 1;
  tickets_.store(round << kRoundAt | static_cast<uint64_t>(parts) << kPartsAt,
                 std::memory_order_release);
  RunParts(own);
  for (Patience patience; done_.load(std::memory_order_acquire) < parts;) patience.Wait();
  MutexLock lock(mutex_);
  if (error_ == nullptr) return;
  const std::exception_ptr error = std::exchange(error_, nullptr);
  std::rethrow_exception(error);
}

void OpTeam::Serve(OpContext& own) {
  Patience patience;
  while (!dismissed_.load(std::memory_order_acquire)) {
    const uint64_t tickets = tickets_.load(std::memory_order_relaxed);
    if (TakenOf(tickets) < PartsOf(tickets)) {
      RunParts(own);
      patience.Renew();
    } else if (!ahead_.AskForSome()) {
      patience.Wait();
    }
  }
}

void OpTeam::RunParts(OpContext& own) {
  uint64_t tickets = tickets_.load(std::memory_order_acquire);
  while (TakenOf(tickets) < PartsOf(tickets)) {
    if (!tickets_.compare_exchange_weak(tickets, tickets + kOnePart, std::memory_order_acq_rel)) {
      continue;
    }
    try {
      // The round cannot end before this part is done.
      (*body_.load(std::memory_order_relaxed))(own, TakenOf(tickets));
    } catch (...) {
      MutexLock lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_acq_rel);
    tickets = tickets_.load(std::memory_order_acquire);
  }
}

}  // namespace recollect::kernels
