// Bytes that the local states of all sessions hold together, and the most they may. Without a span
// a state grows as long as its sequence does: one request must not take the machine's memory.
#ifndef RECOLLECT_ENGINE_STATE_BUDGET_H_
#define RECOLLECT_ENGINE_STATE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace recollect::engine {

// What one session holds of a budget; gives it back when it is destroyed, also after the budget.
// Used by one thread at a time.
class StateCharge {
 public:
  StateCharge() = default;
  ~StateCharge() {
    if (used_ != nullptr) *used_ -= bytes_;
  }
  StateCharge(const StateCharge&) = delete;
  StateCharge& operator=(const StateCharge&) = delete;

 private:
  friend class StateBudget;
  std::shared_ptr<std::atomic<int64_t>> used_;
  int64_t bytes_ = 0;
};

// Thread-safe.
class StateBudget {
 public:
  explicit StateBudget(int64_t bytes) : budget_(bytes) {}

  // RESOURCE_EXHAUSTED naming both sizes when `more` bytes do not fit. Asked before a step with
  // what its rows may need; what vectors reserve beyond that counts from the step's end on.
  absl::Status CheckRoom(int64_t more) const {
    const int64_t used = used_bytes();
    if (used + more <= budget_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("local states of sessions: ", used,
                                                     " bytes are held and a step may need ", more,
                                                     " more, the budget is ", budget_));
  }

  // The charge's session now holds `bytes`.
  void Set(StateCharge& charge, int64_t bytes) {
    charge.used_ = used_;
    *used_ += bytes - std::exchange(charge.bytes_, bytes);
  }

  int64_t used_bytes() const { return *used_; }
  int64_t budget_bytes() const { return budget_; }

 private:
  const int64_t budget_;
  const std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STATE_BUDGET_H_
