// Ends a call whose client sends nothing: set before a read, disarmed when the read is over.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "grpcpp/alarm.h"

namespace recollect::service {

class SilenceAlarm {
 public:
  // Calls `ring` on a thread of gRPC after `silence`, unless Disarm came first.
  template <typename Ring>
  void Set(absl::Duration silence, Ring ring) {
    armed_ = std::make_shared<std::atomic<bool>>(true);
    alarm_ = std::make_unique<grpc::Alarm>();
    const gpr_timespec span =
        gpr_time_from_millis(absl::ToInt64Milliseconds(silence), GPR_TIMESPAN);
    // It may go off when its call is deleted: then `armed` is false, and `ring` is not called.
    alarm_->Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span),
                [ring = std::move(ring), armed = armed_](bool expired) {
                  if (expired && armed->exchange(false)) ring();
                });
  }
  // False if `ring` was called, or is about to be: the call is its to end. REQUIRES: it was set.
  bool Disarm() {
    if (!armed_->exchange(false)) return false;
    alarm_.reset();
    return true;
  }

 private:
  std::shared_ptr<std::atomic<bool>> armed_;
  std::unique_ptr<grpc::Alarm> alarm_;
};

}  // namespace recollect::service
