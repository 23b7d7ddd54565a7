#include "service/net/grpc_threads.h"

#include <deque>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "grpc/support/cpu.h"
#include "grpcpp/alarm.h"

namespace recollect::service {
namespace {

// The executor starts a thread when more than two closures wait at one that it has.
constexpr int kClosuresPerThread = 3;

}  // namespace

void StartGrpcThreads() {
  const int closures = kClosuresPerThread * 2 * static_cast<int>(gpr_cpu_num_cores());
  absl::Notification all_set;
  absl::BlockingCounter unfinished(closures);
  std::deque<grpc::Alarm> alarms(static_cast<size_t>(closures));
  // Callbacks of alarms run on the executor. These wait until the last has been handed over.
  for (grpc::Alarm& alarm : alarms) {
    alarm.Set(gpr_time_0(GPR_CLOCK_REALTIME), [&](bool) {
      all_set.WaitForNotification();
      unfinished.DecrementCount();
    });
  }
  all_set.Notify();
  unfinished.Wait();
}

}  // namespace recollect::service
