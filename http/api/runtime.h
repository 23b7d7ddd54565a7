// The state that all requests of one HTTP server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/sync/executor.h"
#include "base/sync/mutex.h"
#include "engine/engine.h"
#include "http/net/site.h"
#include "http/options.h"

namespace recollect::http {

// Thread-safe. Handlers may use it as long as their Work lives.
class Runtime final : public Site {
 public:
  static constexpr int kMaxQueued = 256;

  Runtime(const ServerOptions& server_options, engine::Engine& the_engine)
      : options(server_options), engine(the_engine) {}

  Endpoint Find(Request& request) override;  // http/api/routes.h
  // Refuses where kMaxQueued requests wait.
  absl::Status Start(std::function<void()> work) override;
  // Runs `work` of a request that has begun, on such a thread; never refuses it.
  void Continue(std::function<void()> work);
  // Sends an answer part by part: the next part is read, on such a thread, when the one before is
  // on its way. `next` may wait for the disk; what it gives empty is the end. Its error is the
  // answer, or breaks off one that has begun.
  void SendParts(const std::shared_ptr<Answer>& answer, Answer::Head head,
                 std::function<absl::StatusOr<std::string>()> next);

  // OK, unless the key of a request that goes on for long has been revoked since it began.
  absl::Status CheckKey(const Request& request) const;

  // Makes Stop wait for a request that goes on after its handler has returned and needs the
  // runtime.
  class Work {
   public:
    explicit Work(Runtime& runtime) : runtime_(runtime) { runtime_.CountWork(1); }
    ~Work() { runtime_.CountWork(-1); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Runtime& runtime_;
  };
  // Waits for the requests that have begun. To be called once all connections are closed.
  void Stop();

  absl::Status Ready() const;  // UNAVAILABLE while draining, and without a device

  const ServerOptions options;
  engine::Engine& engine;
  const absl::Time start = SteadyNow();

 private:
  void CountWork(int change);

  std::atomic<int> queued_{0};
  Mutex mutex_;
  std::condition_variable idle_;
  int work_ ABSL_GUARDED_BY(mutex_) = 0;
  Executor executor_{/*threads=*/4};  // last: it ends before what it uses
};

}  // namespace recollect::http
