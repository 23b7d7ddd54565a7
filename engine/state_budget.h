// Bytes that the local states of all sessions and of ingests of prefixes hold together, and the
// most they may. Without a span a state grows as long as its sequence does: one request must not
// take the machine's memory.
#ifndef RECOLLECT_ENGINE_STATE_BUDGET_H_
#define RECOLLECT_ENGINE_STATE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "model/config.h"

namespace recollect::engine {

// What one state holds of a budget; gives it back when it is destroyed, also after the budget.
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

// The most that `rows` more positions can add to a state of all layers.
inline int64_t StateGrowth(const model::ModelConfig& config, int64_t rows) {
  return rows * config.position_floats() * static_cast<int64_t>(sizeof(float));
}

// Thread-safe.
class StateBudget {
 public:
  explicit StateBudget(int64_t bytes) : budget_(bytes) {}

  // RESOURCE_EXHAUSTED naming both sizes when `more` bytes do not fit. Asked before a step with
  // what its rows may need; what vectors reserve beyond that counts from the step's end on.
  absl::Status CheckRoom(int64_t more) const {
    const int64_t used = used_bytes();
    return used + more <= budget_ ? absl::OkStatus() : NoRoom(used, "a step may need ", more);
  }

  // Charges `bytes` to one that holds nothing yet, or nothing and as CheckRoom.
  absl::Status Reserve(StateCharge& charge, int64_t bytes) {
    int64_t used = used_bytes();
    do {
      if (used + bytes > budget_) return NoRoom(used, "a stored state needs ", bytes);
    } while (!used_->compare_exchange_weak(used, used + bytes));
    charge.used_ = used_;
    charge.bytes_ = bytes;
    return absl::OkStatus();
  }

  // The charge's state now holds `bytes`.
  void Set(StateCharge& charge, int64_t bytes) {
    charge.used_ = used_;
    *used_ += bytes - std::exchange(charge.bytes_, bytes);
  }

  int64_t used_bytes() const { return *used_; }
  int64_t budget_bytes() const { return budget_; }

 private:
  absl::Status NoRoom(int64_t used, const char* what, int64_t more) const {
    return absl::ResourceExhaustedError(absl::StrCat("local states: ", used, " bytes are held and ",
                                                     what, more, " more, the budget is ", budget_));
  }

  const int64_t budget_;
  const std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STATE_BUDGET_H_
