// The budget, in bytes, of the local states of all sessions and of ingests of prefixes. With an
// unbounded span a state grows with its sequence, and one request must not use up the machine's
// memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "model/config/config.h"

namespace recollect::engine {

// A state's share of a budget, given back on destruction, also after the budget's. Used by one
// thread at a time.
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

// Returns the most bytes that `rows` more positions can add to a state of all layers.
inline int64_t StateGrowth(const model::ModelConfig& config, int64_t rows) {
  return rows * config.position_floats() * static_cast<int64_t>(sizeof(float));
}

// Thread-safe.
class StateBudget {
 public:
  explicit StateBudget(int64_t bytes) : budget_(bytes) {}

  // Sets the function that frees one unused state, or returns false if there is none. Any thread
  // that needs room calls it until there is enough. REQUIRES: nothing is charged yet.
  void OnShortage(std::function<bool()> give_up) { give_up_ = std::move(give_up); }
  // Frees one unused state; returns false if there is none.
  bool GiveUp() const { return give_up_ != nullptr && give_up_(); }

  // Returns RESOURCE_EXHAUSTED, naming the sizes, if `more` bytes do not fit. Called before a step
  // with the most that its rows may need; capacity that vectors reserve beyond that is counted
  // after the step.
  absl::Status CheckRoom(int64_t more) const {
    while (used_bytes() + more > budget_ && GiveUp()) {
    }
    const int64_t used = used_bytes();
    return used + more <= budget_ ? absl::OkStatus() : NoRoom(used, "a step may need ", more);
  }

  // Charges `bytes` to a charge that holds nothing yet. If they do not fit, charges nothing and
  // fails like CheckRoom.
  absl::Status Reserve(StateCharge& charge, int64_t bytes) {
    int64_t used = used_bytes();
    do {
      while (used + bytes > budget_ && GiveUp()) used = used_bytes();
      if (used + bytes > budget_) return NoRoom(used, "a stored state needs ", bytes);
    } while (!used_->compare_exchange_weak(used, used + bytes));
    charge.used_ = used_;
    charge.bytes_ = bytes;
    return absl::OkStatus();
  }

  // Sets the charge to `bytes`, the present size of its state.
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
  std::function<bool()> give_up_;
  const std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace recollect::engine
