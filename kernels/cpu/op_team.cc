#include "kernels/cpu/op_team.h"

#include <utility>

#include "base/check.h"
#include "base/sync/patience.h"

namespace recollect::kernels {
namespace {

constexpr int kPartsAt = 32;

int PartsOf(uint64_t tickets) { return static_cast<int>(tickets >> kPartsAt); }
int AskedOf(uint64_t tickets) { return static_cast<int>(tickets & UINT32_MAX); }

constexpr int kLooks = 1000;  // some 20 microseconds

}  // namespace

void OpTeam::Share(OpContext& own, int parts, const Part& body) {
  RECOLLECT_CHECK(parts >= 1 && parts <= kMaxParts);
  body_.store(&body, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  tickets_.store(static_cast<uint64_t>(parts) << kPartsAt, std::memory_order_release);
  RunParts(own);
  for (Patience patience(kLooks); done_.load(std::memory_order_acquire) < parts;) patience.Wait();
  if (!failed_.load(std::memory_order_relaxed)) return;
  failed_.store(false, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void OpTeam::Serve(OpContext& own) {
  Patience patience(kLooks);
  while (!dismissed_.load(std::memory_order_acquire)) {
    const uint64_t tickets = tickets_.load(std::memory_order_relaxed);
    if (AskedOf(tickets) < PartsOf(tickets)) {
      RunParts(own);
      patience.Renew();
    } else if (!ahead_.AskForSome()) {
      patience.Wait();
    }
  }
}

void OpTeam::RunParts(OpContext& own) {
  int done = 0;
  while (true) {
    const uint64_t tickets = tickets_.fetch_add(1, std::memory_order_acq_rel);
    if (AskedOf(tickets) >= PartsOf(tickets)) break;
    try {
      // The round cannot end before this thread has said that its parts are done.
      (*body_.load(std::memory_order_relaxed))(own, AskedOf(tickets));
    } catch (...) {
      MutexLock lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
    ++done;
  }
  if (done > 0) done_.fetch_add(done, std::memory_order_acq_rel);
}

}  // namespace recollect::kernels
